"""A small artifact in the layout of a build, and an execution service with planted behaviour; no program is run."""

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from dmc_optim.artifacts.layout import Layout
from dmc_optim.artifacts.sink import ParquetSink
from dmc_optim.ces.types import Request, Result, TestCase
from schemas import TABLES
from schemas.enums import Status

_FACTOR = re.compile(rb"^# factor ([0-9.]+)$", re.MULTILINE)


@dataclass
class PlantedService:
    """Executor: a program's duration is (its factor) × (the number in the test's input), then slope, offset and noise.

    fail: called with (code, test id, how often the pair was asked before), gives a status other than success or None.
    """

    slope: float = 1.0
    offset_s: float = 0.0
    cv: float = 0.0
    seed: int = 0
    epoch: int = 0
    fail: Callable[[bytes, str, int], Status | None] = lambda code, test, asked: None
    asked: dict[tuple[bytes, str], int] = field(default_factory=dict)
    extra: Callable[[str], float] = lambda test: 1.0
    closed: bool = False

    def __post_init__(self) -> None:
        self.rng = np.random.default_rng(self.seed)

    @property
    def parallelism(self) -> int:
        return 2

    @property
    def executions(self) -> int:
        return sum(self.asked.values())

    def execute(self, request: Request) -> Iterator[Result]:
        for test in request.tests:
            key = (request.code, test.id)
            times = self.asked.get(key, 0)
            self.asked[key] = times + 1
            status = self.fail(request.code, test.id, times) or Status.SUCCESS
            yield Result(test.id, status, self._duration(request, test, status), epoch=self.epoch, engine="planted")

    def execute_many(self, requests: Iterable[Request]) -> Iterator[tuple[int, list[Result]]]:
        for index, request in enumerate(requests):
            yield index, list(self.execute(request))

    def close(self) -> None:
        self.closed = True

    def _duration(self, request: Request, test: TestCase, status: Status) -> float | None:
        text = test.input
        if status is Status.INFRASTRUCTURE:
            return None
        if status is Status.TIMEOUT:
            return request.limits.time_s
        factor = _FACTOR.search(request.code)
        if factor:
            true = float(factor[1]) * float(text)
        else:  # a sentinel: some fixed time of its own
            true = 0.005 * (1 + hashlib.sha256(request.code + text[:20]).digest()[0] % 60)
        duration = (self.slope * true + self.offset_s) * self.extra(test.id)
        return max(1e-4, duration * (1 + self.cv * self.rng.normal()))


def build_artifact(
    out: Path, problems: int = 4, tests: int = 5, solutions: int = 6, rl: int | None = None, epoch: int = 0
) -> Layout:
    """Problems p0, p1, …: reference i takes (1 + i/10) × the test's size; one correctness test each. rl: pool size."""
    layout = Layout(str(out))
    layout.write_json(layout.path("manifest.json"), {"schema_version": "1.0.0", "config": {}})
    rows: dict[str, list[dict]] = {"solutions": [], "tests": [], "reference_durations": [], "splits": []}
    for p in range(problems):
        problem_id = f"p{p}"
        pool = "rl" if rl is None or p < rl else "complement"
        rows["splits"].append({"problem_id": problem_id, "pool": pool, "split": "train" if pool == "rl" else "none"})
        codes = [f"# factor {1 + i / 10:.1f}\n# {problem_id}\n" for i in range(solutions)]
        ids = [hashlib.sha256(code.encode()).hexdigest()[:16] for code in codes]
        rows["solutions"] += [
            {"problem_id": problem_id, "solution_id": s, "label": "correct", "language": "python3", "code": code}
            for s, code in zip(ids, codes, strict=True)
        ]
        for t in range(tests + 1):
            size = 0.02 * 1.7**t * (1 + p / 7)
            text, category = f"{size:.6f}\n", "optimization" if t else "correctness"
            test_id = hashlib.sha256(f"{problem_id}{text}".encode()).hexdigest()[:16]
            test = {"category": category, "input": text, "output": "", "n_chars": len(text), "generator_attempt": 0}
            rows["tests"].append({"problem_id": problem_id, "test_id": test_id, **test})
            rows["reference_durations"] += [
                {
                    "problem_id": problem_id,
                    "test_id": test_id,
                    "solution_id": s,
                    "duration_s": (1 + i / 10) * float(text),
                    "duration_std_s": None,
                    "repetitions": 1,
                    "status": "success",
                    "epoch": epoch,
                }
                for i, s in enumerate(ids)
            ]
    for table, content in rows.items():
        write_table(layout, table, content)
    return layout


def write_table(layout: Layout, table: str, rows: list[dict], stage: str = "datasets") -> None:
    """Replace a table's rows."""
    key = TABLES[table].key
    sink = ParquetSink(layout, layout.table_file(table, stage, 0), TABLES[table].schema)
    for row in sorted(rows, key=lambda r: tuple(r[name] for name in key)):
        sink.write(dict.fromkeys(TABLES[table].schema.names) | row)
    sink.close()


def edit_table(layout: Layout, table: str, change: Callable[[dict], dict | None]) -> None:
    """Rewrite a table row by row; None drops the row."""
    rows = [change(row) for row in layout.rows(table)]
    write_table(layout, table, [row for row in rows if row is not None])
