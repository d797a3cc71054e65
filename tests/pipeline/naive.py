"""Every decision of a build, recomputed from `executions`, `tests`, `solutions` by a literal reading of the rules.

Shares nothing with the stages: plain loops over rows read with pyarrow, floats only where the rule says so. `check`
returns a line for each decision that differs.
"""

import hashlib
import statistics
from collections import defaultdict
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds

STAGES = (
    "ingest dedup controls validate synthesize_correctness filter_correctness synthesize_optimization "
    "filter_optimization complete filterability split datasets"
).split()
ORIGINAL = ("public", "private", "generated")
BAD = ("runtime_exception", "wrong_answer", "out_of_memory", "output_limit")
Row = dict[str, Any]


def rows(out: Path, table: str) -> list[Row]:
    files = sorted((out / "tables" / table).glob("*.parquet"))
    return ds.dataset([str(f) for f in files]).to_table().to_pylist() if files else []


class Build:
    """The tables of a build, indexed the way a reader would."""

    def __init__(self, out: Path) -> None:
        self.out = out
        self.problems = [r["problem_id"] for r in rows(out, "problems")]
        self.solutions = group(rows(out, "solutions"))
        self.tests = group(rows(out, "tests"))
        self.executions: dict[str, dict[tuple[str, str], Row]] = defaultdict(dict)
        for row in rows(out, "executions"):
            key = (row["solution_id"], row["test_id"])
            assert key not in self.executions[row["problem_id"]], f"executed twice: {row['problem_id']} {key}"
            self.executions[row["problem_id"]][key] = row
        self.exclusions = rows(out, "exclusions")
        self.attempts = rows(out, "generator_attempts")
        self.votes = rows(out, "consensus")

    def excluded(self, stage: str, entity: str) -> dict[tuple[str, str], str]:
        return {
            (r["problem_id"], r["entity_id"]): r["reason"]
            for r in self.exclusions
            if r["stage"] == stage and r["entity"] == entity
        }

    def entering(self, stage: str, entity: str) -> set[tuple[str, str]]:
        """Dropped (problem, id) pairs before a stage."""
        before = STAGES[: STAGES.index(stage)]
        return {
            (r["problem_id"], r["entity_id"]) for r in self.exclusions if r["stage"] in before and r["entity"] == entity
        }

    def alive(self, stage: str) -> list[str]:
        gone = {p for p, _ in self.entering(stage, "problem")}
        return [p for p in self.problems if p not in gone]

    def live_solutions(self, stage: str, problem: str, label: str) -> list[str]:
        gone = self.entering(stage, "solution")
        return [
            s["solution_id"]
            for s in self.solutions[problem]
            if s["label"] == label and (problem, s["solution_id"]) not in gone
        ]

    def live_tests(self, stage: str, problem: str, categories: tuple[str, ...]) -> list[str]:
        gone = self.entering(stage, "test")
        return [
            t["test_id"]
            for t in self.tests[problem]
            if t["category"] in categories and (problem, t["test_id"]) not in gone
        ]


def group(found: list[Row]) -> dict[str, list[Row]]:
    by_problem: dict[str, list[Row]] = defaultdict(list)
    for row in found:
        by_problem[row["problem_id"]].append(row)
    return by_problem


def check(out: Path, limit_s: float = 10.0, attempts: int = 10) -> list[str]:
    build = Build(out)
    wrong = ids(build) + controls(build) + validate(build)
    for campaign in ("correctness", "optimization"):
        wrong += synthesis(build, campaign) + filtering(build, campaign)
    return wrong + complete(build) + filterability(build, limit_s)


def differ(what: str, expected: Any, stored: Any) -> list[str]:
    return [] if expected == stored else [f"{what}: recomputed {expected!r}, stored {stored!r}"]


def ids(build: Build) -> list[str]:
    wrong = []
    for problem, own in build.solutions.items():
        for s in own:
            wrong += differ(problem, hashlib.sha256(s["code"].encode()).hexdigest()[:16], s["solution_id"])
    for problem, own in build.tests.items():
        for t in own:
            body = t["input"].encode() + b"\0" + t["output"].encode()
            wrong += differ(problem, hashlib.sha256(body).hexdigest()[:16], t["test_id"])
    return wrong


def controls(build: Build) -> list[str]:
    expected = {}
    for p in build.alive("controls"):
        labels = {s["label"] for s in build.solutions[p]}
        if not labels:
            expected[p, p] = "neither"
        elif labels == {"correct"}:
            expected[p, p] = "correct_only"
        elif labels == {"incorrect"}:
            expected[p, p] = "incorrect_only"
    return differ("controls", expected, build.excluded("controls", "problem"))


def validate(build: Build) -> list[str]:
    gone, dropped = {}, {}
    for p in build.alive("validate"):
        tests = build.live_tests("validate", p, ORIGINAL)
        if not tests:
            dropped[p, p] = "no_tests"
            continue
        left = 0
        for s in build.live_solutions("validate", p, "correct"):
            statuses = [build.executions[p][s, t]["status"] for t in tests]  # every pair was run
            if any(status not in ("success", "infrastructure") for status in statuses):
                gone[p, s] = "failed_original_tests"
            else:
                left += 1
        if left == 0:
            dropped[p, p] = "no_correct_left"
    return differ("validate solutions", gone, build.excluded("validate", "solution")) + differ(
        "validate problems", dropped, build.excluded("validate", "problem")
    )


def synthesis(build: Build, campaign: str) -> list[str]:
    stage, wrong = f"synthesize_{campaign}", []
    votes = defaultdict(list)
    for v in build.votes:
        if v["campaign"] == campaign:
            votes[v["problem_id"], v["attempt"]].append(v)
    expected = {}
    for a in (a for a in build.attempts if a["campaign"] == campaign):
        key = (a["problem_id"], a["attempt"])
        sizes: dict[str, int] = defaultdict(int)
        for v in votes[key]:
            if v["status"] == "success":
                sizes[v["outputs_sha256"]] += 1
        top = sorted(sizes.values(), reverse=True)
        if not a["accepted"] and any(v["status"] == "infrastructure" for v in votes[key]):
            wrong += differ(f"{stage} {key}", "infrastructure", a["reason"])  # no verdict without those
        elif votes[key] and top:
            wrong += differ(f"{stage} {key} n_agreeing", top[0], a["n_agreeing"])
            if top[0] < 2:
                wrong += differ(f"{stage} {key}", "no_consensus", a["reason"])
            elif len(top) > 1 and top[1] == top[0]:
                wrong += differ(f"{stage} {key}", "ambiguous_consensus", a["reason"])
            elif a["accepted"]:
                winner = max(sizes, key=lambda digest: sizes[digest])
                wrong += differ(
                    f"{stage} {key} agreed",
                    {v["solution_id"] for v in votes[key] if v["outputs_sha256"] == winner},
                    {v["solution_id"] for v in votes[key] if v["agreed"]},
                )
        wrong += differ(f"{stage} {key} tests", 15 if a["accepted"] else 0, a["n_tests"])
        made = [t for t in build.tests[key[0]] if t["category"] == campaign and t["generator_attempt"] == key[1]]
        if len(made) > a["n_tests"]:
            wrong.append(f"{stage} {key}: {len(made)} tests of {a['n_tests']}")
        if not a["accepted"]:
            expected[a["problem_id"], str(a["attempt"])] = a["reason"]
    return wrong + differ(f"{stage} attempts", expected, build.excluded(stage, "attempt"))


def filtering(build: Build, campaign: str) -> list[str]:
    stage, wrong = f"filter_{campaign}", []
    first = campaign == "correctness"
    tests_gone, solutions_gone, dropped = {}, {}, {}
    for p in build.alive(stage):
        ran = build.executions[p]
        correct, incorrect = (build.live_solutions(stage, p, label) for label in ("correct", "incorrect"))
        own = build.live_tests(stage, p, (campaign,))
        base = build.live_tests(stage, p, ORIGINAL if first else (*ORIGINAL, "correctness"))
        removed = removed_tests(ran, correct, own, Fraction(1, 5) if first else Fraction(9, 10))
        tests_gone |= {(p, t): reason for t, reason in removed.items()}
        suite = base + [t for t in own if t not in removed]
        allowed = set() if first else set(own)
        lost = [s for s in correct if not passes(ran, s, suite, allowed)]
        solutions_gone |= {(p, s): "fails_suite" for s in lost}
        passing = [s for s in incorrect if passes(ran, s, suite, set())] if first else []
        solutions_gone |= {(p, s): "passes_suite" for s in passing}
        if len(correct) - len(lost) < (5 if first else 1):
            dropped[p, p] = "too_few_correct"
        elif len(incorrect) - len(passing) < 1:
            dropped[p, p] = "too_few_incorrect"
        elif Fraction(len(lost), len(correct)) > Fraction(1, 4):
            dropped[p, p] = "correct_drop_rate"
        elif first and Fraction(len(passing), len(incorrect)) > Fraction(1, 20):
            dropped[p, p] = "false_positive_rate"
    for entity, expected in (("test", tests_gone), ("solution", solutions_gone), ("problem", dropped)):
        wrong += differ(f"{stage} {entity}s", expected, build.excluded(stage, entity))
    return wrong


def removed_tests(
    ran: dict[tuple[str, str], Row], correct: list[str], own: list[str], most: Fraction
) -> dict[str, str]:
    def share(test: str, bad: tuple[str, ...]) -> Fraction:
        statuses = [ran[s, test]["status"] for s in correct if (s, test) in ran]
        statuses = [x for x in statuses if x != "infrastructure"]
        return Fraction(sum(x in bad for x in statuses), len(statuses)) if statuses else Fraction(0)

    slow = sorted((-share(t, ("timeout",)), t) for t in own if share(t, ("timeout",)) > most)[: len(own) // 4]
    removed = {t: "timeout_fraction" for _, t in slow}
    left = [t for t in own if t not in removed]
    bad = sorted((-share(t, BAD), t) for t in left if share(t, BAD) > Fraction(2, 5))[: 3 * len(left) // 10]
    return removed | {t: "failure_fraction" for _, t in bad}


def passes(ran: dict[tuple[str, str], Row], solution: str, suite: list[str], timeout_ok: set[str]) -> bool:
    for t in suite:
        if (solution, t) not in ran:
            return False
        status = ran[solution, t]["status"]
        if status == "timeout" and t in timeout_ok:
            continue
        if status not in ("success", "infrastructure"):
            return False
    return True


def complete(build: Build) -> list[str]:
    expected = {}
    for p in build.alive("complete"):
        for category in ("correctness", "optimization"):
            if (p, p) not in expected and not build.live_tests("complete", p, (category,)):
                expected[p, p] = f"no_{category}_tests"
    return differ("complete", expected, build.excluded("complete", "problem"))


def filterability(build: Build, limit_s: float) -> list[str]:
    wrong, expected = [], {}
    stored = {(r["problem_id"], r["category"]): r for r in rows(build.out, "filterability")}
    for p in build.alive("filterability"):
        references = build.live_solutions("filterability", p, "correct")
        for category in ("original", "correctness", "optimization"):
            categories = ORIGINAL if category == "original" else (category,)
            means = []
            for t in build.live_tests("filterability", p, categories):
                runs = [build.executions[p][s, t] for s in references if (s, t) in build.executions[p]]
                d = [
                    limit_s if r["status"] == "timeout" else r["duration_s"]
                    for r in runs
                    if r["duration_s"] is not None
                ]
                if d:
                    means.append(statistics.fmean(d))
            reason = filter_reason(means)
            row = stored[p, category]
            wrong += differ(f"filterability {p} {category}", reason, row["reason"])
            wrong += differ(f"filterability {p} {category} tests", len(means), row["n_tests"])
            if category == "optimization" and reason is not None:
                expected[p, p] = reason
    return wrong + differ("filterability", expected, build.excluded("filterability", "problem"))


def filter_reason(means: list[float]) -> str | None:
    if len(means) < 2:
        return "too_few_tests"
    q1, median, q3 = statistics.quantiles(means, n=4, method="inclusive")
    if median <= 0:
        return "zero_median"
    if (q3 - q1) / median < 0.3:
        return "low_cv"
    return "below_resolution" if q3 - q1 < 0.02 else None
