"""Small builds in the layout of a real one, with planted speeds, written with Arrow."""

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from dmc_optim.ranking import synthetic_pool
from schemas import TABLES


@dataclass
class SyntheticBuild:
    """Rows of the tables that simulator and studies read; `write` puts them under a folder.

    Problem i has its own size: references + i, and tests + 2·i optimization tests.
    """

    problems: int = 4
    references: int = 6
    tests: int = 7
    base_tests: int = 3
    added_tests: int = 2
    noise: float = 0.05
    floor_s: float = 0.002
    missing: float = 0.0
    median_work_s: float = 0.5
    base_in_executions: bool = False
    rows: dict[str, list[dict]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.rows = {name: [] for name in ("splits", "tests", "solutions", "executions", "reference_durations")}
        for index in range(self.problems):
            self._problem(index)

    def _problem(self, index: int) -> None:
        problem = f"p{index:03d}"
        pool = "rl" if index % 4 != 3 else "complement"
        split = "none" if pool == "complement" else ("test" if index % 3 == 2 else "train")
        self.rows["splits"].append({"problem_id": problem, "pool": pool, "split": split})
        drawn = synthetic_pool(
            100 + index,
            self.references + index,
            self.tests + 2 * index,
            noise=self.noise,
            floor_s=self.floor_s,
            missing=self.missing,
            median_work_s=self.median_work_s,
        )
        solutions = [f"s{h:03d}" for h in range(self.references + index)]
        for solution in solutions:
            self._row("solutions", problem_id=problem, solution_id=solution, label="correct")
        self._row("solutions", problem_id=problem, solution_id="wrong", label="incorrect")
        for group, count in (("public", self.base_tests), ("correctness", self.added_tests)):
            for t in range(count):
                test = f"{group}{t}"
                self._test(problem, test, group, 10 + t)
                for solution in solutions:
                    table = "executions" if self.base_in_executions else "reference_durations"
                    self._cell(table, problem, solution, test, 0.01, 0.001, "success")
        for t, chars in enumerate(drawn.chars):
            test = f"t{t:03d}"
            self._test(problem, test, "optimization", int(chars))
            for h, solution in enumerate(solutions):
                seconds, deviation = drawn.stored_s[h, t], drawn.duration_std_s[h, t]
                status = "infrastructure" if np.isnan(seconds) else "timeout" if drawn.censored[h, t] else "success"
                self._cell("reference_durations", problem, solution, test, seconds, deviation, status)

    def _test(self, problem: str, test: str, category: str, chars: int) -> None:
        attempt = None if category == "public" else 0
        self._row(
            "tests", problem_id=problem, test_id=test, category=category, n_chars=chars, generator_attempt=attempt
        )

    def _cell(self, table: str, problem: str, solution: str, test: str, seconds: float, std: float, status: str):
        seconds = None if np.isnan(seconds) else float(seconds)
        self._row(
            table,
            problem_id=problem,
            solution_id=solution,
            test_id=test,
            duration_s=seconds,
            duration_std_s=float(std),
            repetitions=0 if seconds is None else 5,
            status=status,
            campaign="optimization" if test.startswith("t") else "original",
        )

    def _row(self, table: str, **values) -> None:
        self.rows[table].append(values)

    def write(self, root: Path, *, without: tuple[str, ...] = ()) -> Path:
        """Write every table but those of `without`; columns that a row leaves out are empty text or zero."""
        for name, rows in self.rows.items():
            if name in without or not rows:
                continue
            schema = TABLES[name].schema
            columns = set(schema.names)
            filled = [{field.name: _blank(field) for field in schema} | row for row in rows]
            folder = root / "tables" / name
            folder.mkdir(parents=True, exist_ok=True)
            half = (len(filled) + 1) // 2
            for shard, part in enumerate((filled[:half], filled[half:])):
                part = [{key: value for key, value in row.items() if key in columns} for row in part]
                pq.write_table(pa.Table.from_pylist(part, schema=schema), folder / f"complete-{shard:05d}.parquet")
        return root


def _blank(field: pa.Field):
    if field.nullable:
        return None
    return "" if field.type == pa.string() else 0
