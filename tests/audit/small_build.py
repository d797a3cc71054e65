"""A small, complete build written by hand: every row below is stated, not computed by the pipeline.

train/0   kept, RL pool: one late and one failing correctness test removed, one correct solution lost, one
          incorrect solution that passes everything removed (21 of them keep the rate under 5%)
train/1   kept, complement: its optimization tests all take the same time
train/2   dropped by filter_correctness: its only incorrect solution passes everything
train/3   dropped by controls: correct solutions only
train/4   dropped by dedup: short statement
train/5   malformed row
train/6   dropped by ingest: file I/O
train/7   kept, RL pool, near-duplicate of train/0
train/8   dropped by complete: no optimization attempt was accepted
train/9   dropped by validate: its only correct solution fails
"""

import hashlib
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from dmc_optim.config import BuildConfig
from schemas import SCHEMA_VERSION, TABLES
from tests.audit.small_ledger import BORN, STAGES, ledger_of

Row = dict[str, Any]
CALLS = 15


def digest16(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


class SmallBuild:
    """Rows by table; `write` stores them with stage records and a manifest. Change rows first to plant a fault."""

    def __init__(self) -> None:
        self.tables: dict[str, list[Row]] = {name: [] for name in TABLES}
        self.names: dict[str, str] = {}  # short names ("0/c1", "0/correctness3") to ids
        for index in (0, 1, 2, 3, 4, 6, 7, 8, 9):
            self._problem(index)
        self._exclude(
            "ingest", "row", "train/5", "train/5", "malformed_row", detail="solutions: lists of unequal length"
        )
        self._exclude("ingest", "problem", "train/6", "train/6", "file_io", detail="input.txt")
        self._exclude("dedup", "problem", "train/4", "train/4", "statement_short", 11, 80)
        self._exclude("controls", "problem", "train/3", "train/3", "correct_only", 0, 1)
        for index in (0, 1, 2, 3, 7, 8, 9):
            cluster = "train/0" if index == 7 else f"train/{index}"
            self.tables["clusters"].append({"problem_id": f"train/{index}", "cluster_id": cluster})
        for index, incorrect in ((0, 21), (1, 1), (2, 1), (7, 1), (8, 1)):
            self._controls(index, 6, incorrect)
        self._controls(9, 1, 1)
        self._solution(3, "c0", "correct")
        self._original_runs()
        for index in (0, 1, 2, 7, 8):
            self._campaign(index, "correctness")
        self._filter_correctness()
        for index in (0, 1, 7, 8):
            self._campaign(index, "optimization", accepted=index != 8)
        self._exclude("complete", "problem", "train/8", "train/8", "no_optimization_tests", 0, 1)
        self._metrics()
        self._timing()
        self.recount()

    def id(self, name: str) -> str:
        """The id behind a short name such as `0/c1`, `0/w3`, `0/public`, `0/correctness4`."""
        return self.names[name]

    def rows(self, table: str, **values: Any) -> list[Row]:
        """The rows with these values, to be changed in place."""
        return [row for row in self.tables[table] if all(row[key] == value for key, value in values.items())]

    def write(self, out: Path) -> Path:
        """Store as a finished build."""
        files: dict[str, dict[str, list[str]]] = {stage: {} for stage in STAGES}
        for table, rows in self.tables.items():
            for stage, part in _by_stage(table, rows).items():
                name = f"{stage}-00000.parquet"
                files[stage].setdefault(table, []).append(name)
                path = out / "tables" / table / name
                path.parent.mkdir(parents=True, exist_ok=True)
                schema = TABLES[table].schema
                nullable = pa.schema([field.with_nullable(True) for field in schema])
                nullable = nullable.with_metadata({"schema_version": SCHEMA_VERSION})
                pq.write_table(pa.Table.from_pylist(part, schema=nullable), path)
        (out / "stages").mkdir(parents=True, exist_ok=True)
        for stage in STAGES:
            counts = {table: len(_by_stage(table, self.tables[table]).get(stage, [])) for table in files[stage]}
            record = {"stage": stage, "key": digest16(stage), "version": 1, "files": files[stage], "counts": counts}
            record |= {"seconds": 1.5, "created": "2026-01-01T00:00:00Z"}
            (out / "stages" / f"{stage}.json").write_text(json.dumps(record))
        manifest = {"schema_version": SCHEMA_VERSION, "build_digest": "0123456789abcdef", "source": "corpus.parquet"}
        manifest |= {"config": asdict(BuildConfig()), "limits": {}, "versions": {}, "created": "2026-01-01T00:00:00Z"}
        (out / "manifest.json").write_text(json.dumps(manifest))
        return out

    def recount(self) -> None:
        """Make the ledger anew from the other tables."""
        self.tables["attrition"] = ledger_of(self.tables)

    def _problem(self, index: int) -> None:
        statement = (
            "Add things."
            if index == 4
            else f"Problem {index}: add the numbers that the input gives, and print the sum. " * 3
        )
        row = {"problem_id": f"train/{index}", "name": f"P{index}", "source": "codeforces", "source_split": "train"}
        row |= {"statement": statement, "difficulty": "easy", "cf_contest_id": 0, "cf_index": "", "cf_rating": 0}
        self.tables["problems"].append(row | {"cf_tags": [], "time_limit_s": None, "memory_limit_bytes": 0})
        for category in ("public", "private"):
            self._test(index, category, category, f"{index} {category}\n", None)

    def _solution(self, index: int, name: str, label: str) -> None:
        code = f"print('{index} {name}')"
        self.names[f"{index}/{name}"] = digest16(code)
        row = {"problem_id": f"train/{index}", "solution_id": digest16(code), "label": label, "language": "python3"}
        self.tables["solutions"].append(row | {"code": code})

    def _controls(self, index: int, correct: int, incorrect: int) -> None:
        for number in range(correct):
            self._solution(index, f"c{number}", "correct")
        for number in range(incorrect):
            self._solution(index, f"w{number}", "incorrect")

    def _test(self, index: int, name: str, category: str, text: str, attempt: int | None) -> None:
        output = f"out {name}\n"
        self.names[f"{index}/{name}"] = digest16(f"{text}\0{output}")
        row = {"problem_id": f"train/{index}", "test_id": self.names[f"{index}/{name}"], "category": category}
        row |= {"input": text, "output": output, "n_chars": len(text) + len(output), "generator_attempt": attempt}
        methods = ("edge", "large" if category == "optimization" else "small", "sample")
        row["generator_method"] = None if attempt is None else methods[int(name.removeprefix(category)) % 3]
        self.tables["tests"].append(row)

    def _run(self, index: int, solution: str, test: str, campaign: str, status: str, duration_s: float) -> None:
        row = {"problem_id": f"train/{index}", "solution_id": self.id(f"{index}/{solution}"), "campaign": campaign}
        row |= {"test_id": self.id(f"{index}/{test}"), "status": status, "duration_s": duration_s, "repetitions": 1}
        row |= {"duration_std_s": None, "cpu_s": duration_s, "wall_s": duration_s, "peak_memory_bytes": 1 << 20}
        self.tables["executions"].append(
            row | {"node": "n0", "epoch": 0, "tier": "test", "interpreter": "3.11", "retries": 0}
        )

    def _exclude(
        self, stage: str, entity: str, problem: str, entity_id: str, reason: str,
        value: float | None = None, threshold: float | None = None, detail: str = "",
    ) -> None:  # fmt: skip
        row = {"stage": stage, "entity": entity, "problem_id": problem, "entity_id": entity_id, "reason": reason}
        value = None if value is None else float(value)
        threshold = None if threshold is None else float(threshold)
        self.tables["exclusions"].append(row | {"value": value, "threshold": threshold, "detail": detail})

    def solutions_of(self, index: int, kind: str) -> list[str]:
        """Short names such as c0, c1 … of a problem's solutions."""
        prefix = f"{index}/{kind}"
        return [name.split("/")[1] for name in self.names if name.startswith(prefix) and name[len(prefix) :].isdigit()]

    def _original_runs(self) -> None:
        for index in (0, 1, 2, 7, 8, 9):
            for name in self.solutions_of(index, "c"):
                failed = index == 9
                for test in ("public", "private"):
                    self._run(index, name, test, "original", "wrong_answer" if failed else "success", 0.002)
            for name in self.solutions_of(index, "w"):
                if name == "w0":  # passes every original test
                    self._run(index, name, "public", "original", "success", 0.002)
                    self._run(index, name, "private", "original", "success", 0.002)
                else:
                    self._run(index, name, "public", "original", "runtime_exception", 0.002)
        solution = self.id("9/c0")
        self._exclude("validate", "solution", "train/9", solution, "failed_original_tests", 2, 0, "wrong_answer")
        self._exclude("validate", "problem", "train/9", "train/9", "no_correct_left", 0, 1)

    def _campaign(self, index: int, campaign: str, accepted: bool = True) -> None:
        problem, pool = f"train/{index}", self.solutions_of(index, "c")
        if campaign == "optimization" and index == 0:
            pool.remove("c5")
        for attempt in (0, 1):
            good = accepted and attempt == 0
            row = {
                "problem_id": problem,
                "campaign": campaign,
                "attempt": attempt,
                "model": "recorded",
                "seed": attempt,
            }
            row |= {
                "prompt_solution_id": self.id(f"{index}/c0"),
                "completion": "class InputGenerator: ...",
                "accepted": good,
            }
            row |= {"reason": None if good else "no_consensus", "n_tests": CALLS if good else 0}
            self.tables["generator_attempts"].append(row | {"n_agreeing": len(pool) if good else 1})
            if not good:
                self._exclude(f"synthesize_{campaign}", "attempt", problem, str(attempt), "no_consensus", 1, 2)
            for name in pool:
                vote = {"problem_id": problem, "campaign": campaign, "attempt": attempt, "status": "success"}
                vote |= {"solution_id": self.id(f"{index}/{name}"), "agreed": good}
                self.tables["consensus"].append(vote | {"outputs_sha256": "same" if good else name})
        if accepted:
            for call in range(CALLS):
                self._test(index, f"{campaign}{call}", campaign, f"{index} {campaign} {'x' * call}\n", 0)
            runs = self._correctness_runs if campaign == "correctness" else self._optimization_runs
            runs(index, pool)

    def _correctness_runs(self, index: int, pool: list[str]) -> None:
        for call in range(CALLS):
            for name in pool:
                status, duration = "success", 0.003
                if index == 0 and call == 0 and name in ("c0", "c1"):
                    status, duration = "timeout", 10.0
                if index == 0 and call == 1 and name in ("c0", "c1", "c2"):
                    status = "runtime_exception"
                if index == 0 and call == 2 and name == "c5":
                    status = "wrong_answer"
                self._run(index, name, f"correctness{call}", "correctness", status, duration)
            if index in (0, 2):
                self._run(index, "w0", f"correctness{call}", "correctness", "success", 0.003)
        if index not in (0, 2):
            self._run(index, "w0", "correctness0", "correctness", "wrong_answer", 0.003)

    def _optimization_runs(self, index: int, pool: list[str]) -> None:
        for call in range(CALLS):
            for number, name in enumerate(pool):
                slow = call == CALLS - 1 and number == 0 and index == 0
                duration = 10.0 if slow else 0.01 if index == 1 else 0.05 * (call + 1) * (1 + number)
                self._run(
                    index, name, f"optimization{call}", "optimization", "timeout" if slow else "success", duration
                )

    def _filter_correctness(self) -> None:
        stage, one_in_three, half = "filter_correctness", 2 / 6, 3 / 6
        self._exclude(stage, "test", "train/0", self.id("0/correctness0"), "timeout_fraction", one_in_three, 0.2)
        self._exclude(stage, "test", "train/0", self.id("0/correctness1"), "failure_fraction", half, 0.4)
        self._exclude(stage, "solution", "train/0", self.id("0/c5"), "fails_suite", 1, 0, "wrong_answer")
        self._exclude(stage, "solution", "train/0", self.id("0/w0"), "passes_suite", 0, 1)
        self._exclude(stage, "problem", "train/2", "train/2", "false_positive_rate", 1, 0.05)

    def _metrics(self) -> None:
        ones = {f"correct_pass_{suite}": 1.0 for suite in ("before", "raw", "timeout", "final")}
        for index in (0, 1, 2, 7, 8):
            fp = {0: (1 / 21,) * 4, 2: (1.0,) * 4}.get(index, (1.0, 0.0, 0.0, 0.0))
            passes = (1.0, 2 / 6, 2 / 6, 5 / 6) if index == 0 else (1.0,) * 4
            wrong = len(self.solutions_of(index, "w"))
            row = {"problem_id": f"train/{index}", "campaign": "correctness", "n_correct_in": 6, "tests_in": CALLS}
            row |= {"n_correct_out": 5 if index == 0 else 6, "n_incorrect_in": wrong}
            row |= {"n_incorrect_out": {0: 20, 2: 0}.get(index, wrong)}
            row |= dict(zip(("fp_before", "fp_raw", "fp_timeout", "fp_final"), fp, strict=True))
            row |= dict(zip(ones, passes, strict=True))
            removed = 1 if index == 0 else 0
            self.tables["problem_metrics"].append(
                row | {"tests_removed_timeout": removed, "tests_removed_failure": removed}
            )
        for index in (0, 1, 7, 8):
            correct = 5 if index == 0 else 6
            row = {"problem_id": f"train/{index}", "campaign": "optimization", "n_correct_in": correct}
            row |= {"n_correct_out": correct, "n_incorrect_in": 20 if index == 0 else 1, **ones}
            row |= {"n_incorrect_out": row["n_incorrect_in"], "tests_in": 0 if index == 8 else CALLS}
            row |= {f"fp_{suite}": None for suite in ("before", "raw", "timeout", "final")}
            self.tables["problem_metrics"].append(row | {"tests_removed_timeout": 0, "tests_removed_failure": 0})

    def _timing(self) -> None:
        import numpy as np

        for index in (0, 1, 7):
            solutions = {self.id(f"{index}/{name}") for name in self.solutions_of(index, "c")}
            solutions -= {self.id("0/c5")}
            removed = {self.id("0/correctness0"), self.id("0/correctness1")}
            tests = [t for t in self.rows("tests", problem_id=f"train/{index}") if t["test_id"] not in removed]
            runs: dict[str, list[Row]] = {t["test_id"]: [] for t in tests}
            for row in self.rows("executions", problem_id=f"train/{index}"):
                if row["solution_id"] in solutions and row["test_id"] in runs:
                    runs[row["test_id"]].append(row)
                    keep = (
                        "problem_id",
                        "test_id",
                        "solution_id",
                        "duration_s",
                        "duration_std_s",
                        "repetitions",
                        "status",
                        "epoch",
                    )
                    self.tables["reference_durations"].append({key: row[key] for key in keep})
            for group in ("original", "correctness", "optimization"):
                chosen = [
                    t for t in tests if (t["category"] if t["generator_attempt"] is not None else "original") == group
                ]
                means = np.array([np.mean([r["duration_s"] for r in runs[t["test_id"]]]) for t in chosen])
                lengths = np.array([t["n_chars"] for t in chosen])
                q1, median, q3 = np.quantile(means, [0.25, 0.5, 0.75])
                cv, wide = (q3 - q1) / median, q3 - q1 >= 0.02
                constant = np.ptp(means) == 0 or np.ptp(lengths) == 0
                r = None if constant else float(np.corrcoef(lengths, means)[0, 1])
                reason = "low_cv" if cv < 0.3 else None if wide else "below_resolution"
                every = [run for t in chosen for run in runs[t["test_id"]]]
                share = sum(run["status"] == "timeout" for run in every) / len(every)
                row = {
                    "problem_id": f"train/{index}",
                    "category": group,
                    "n_tests": len(chosen),
                    "robust_cv": float(cv),
                }
                row |= {"iqr_s": float(q3 - q1), "median_s": float(median), "pearson_r": r, "censored_share": share}
                row |= {"duration_filterable": reason is None, "length_filterable": r is not None and r >= 0.9}
                self.tables["filterability"].append(row | {"reason": reason})
        self._exclude("filterability", "problem", "train/1", "train/1", "low_cv", 0, 0.3)
        for index, pool, split in ((0, "rl", "train"), (1, "complement", "none"), (7, "rl", "train")):
            self.tables["splits"].append({"problem_id": f"train/{index}", "pool": pool, "split": split})


def _by_stage(table: str, rows: list[Row]) -> dict[str, list[Row]]:
    """The stage that writes each row."""
    home = {"problems": "ingest", "solutions": "ingest", "clusters": "dedup", "splits": "split"}
    home |= {"filterability": "filterability", "reference_durations": "datasets"}
    campaigns = {"original": "validate", "correctness": "filter_correctness", "optimization": "filter_optimization"}
    parts: dict[str, list[Row]] = {}
    for row in rows:
        if table in home:
            stage = home[table]
        elif table == "tests":
            stage = BORN.get(row["category"], "ingest")
        elif table in ("consensus", "generator_attempts", "generation_usage"):
            stage = BORN[row["campaign"]]
        elif table in ("executions", "problem_metrics"):
            stage = campaigns[row["campaign"]]
        else:
            stage = row.get("stage", "datasets")
        parts.setdefault(stage, []).append(row)
    return parts
