"""Where a program stands among a problem's reference solutions: verdicts, durations, percentile (`dmc-optim rank`)."""

import hashlib
from collections import Counter
from dataclasses import dataclass
from typing import Any

import duckdb
import numpy as np
from numpy.typing import NDArray

from dmc_optim.artifacts.layout import Layout
from dmc_optim.audit.connection import connect
from dmc_optim.audit.settings import stored_config
from dmc_optim.ces.calibration.apply import read_calibrations, select
from dmc_optim.ces.types import Executor, Request, Result, TestCase
from dmc_optim.errors import ArtifactError, ServiceError, UsageError
from dmc_optim.ranking import References, rank
from schemas.enums import Category, Status

Connection = duckdb.DuckDBPyConnection
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class TestRun:
    """One test of the problem. percentile: share of references that are faster on it, for optimization tests."""

    __test__ = False  # not a pytest class

    test_id: str
    category: str
    status: str
    duration_s: float | None
    reference_median_s: float | None
    percentile: float | None
    detail: str


@dataclass(frozen=True)
class Placement:
    """The outcome. percentiles are 0 for the fastest and 1 for the slowest; None for a program that is not correct.

    leaderboard_percentile: QP (Eq. 25); mean_percentile: QAR (Eqs. 23, 24). ahead: references ahead of it.
    """

    problem_id: str
    solution_id: str
    correct: bool
    outcomes: dict[str, dict[str, int]]
    leaderboard_percentile: float | None
    mean_percentile: float | None
    ahead: int | None
    references: int
    notes: list[str]
    tests: list[TestRun]


def place(out: str, problem_id: str, code: bytes, executor: Executor, repetitions: int = 1) -> Placement:
    """Run a program on every retained test of a problem and rank it among the stored references.

    Raises UsageError for a problem that is not in the cleaned corpus, ServiceError when no verdict came back.
    """
    connection, layout = connect(out), Layout(out)
    _require_kept(connection, problem_id)
    settings = stored_config(layout.manifest()).execution
    tests = _tests(connection, problem_id)
    request = Request(
        code=code,
        tests=tuple(TestCase(row[0], row[2].encode(), row[3].encode()) for row in tests),
        limits=settings.limits(),
        comparator=settings.comparator,
        repetitions=repetitions,
    )
    results = list(executor.execute(request))
    unknown = [result for result in results if result.status is Status.INFRASTRUCTURE]
    if len(results) < len(tests) or unknown:
        why = f": {unknown[0].detail}" if unknown else ""
        raise ServiceError(f"{max(len(unknown), len(tests) - len(results))} tests came back without a verdict{why}")
    return _placed(connection, layout, problem_id, code, tests, results)


def _require_kept(connection: Connection, problem_id: str) -> None:
    row = connection.execute(
        "SELECT stage, reason FROM fates WHERE entity = 'problem' AND problem_id = ?", [problem_id]
    ).fetchone()
    if row is None:
        raise UsageError(f"--problem {problem_id}: no such problem in this build; ids look like train/532")
    if not connection.execute("SELECT 1 FROM splits WHERE problem_id = ?", [problem_id]).fetchone():
        why = f"{row[0]} dropped it ({row[1]})" if row[0] else "the build has not come to its split yet"
        raise UsageError(f"--problem {problem_id}: has no reference durations, {why}")


def _tests(connection: Connection, problem_id: str) -> list[tuple[str, str, str, str]]:
    """(test_id, category, input, output) of the retained tests, by category and id."""
    rows = connection.execute(
        "SELECT test_id, category, input, output FROM survivors_complete_tests WHERE problem_id = ?", [problem_id]
    ).fetchall()
    order = list(Category)
    return sorted(rows, key=lambda row: (order.index(row[1]), row[0]))


def _placed(
    connection: Connection,
    layout: Layout,
    problem_id: str,
    code: bytes,
    tests: list[tuple[str, str, str, str]],
    results: list[Result],
) -> Placement:
    outcomes: dict[str, Counter[str]] = {}
    for (_, category, *_), result in zip(tests, results, strict=True):
        outcomes.setdefault(category, Counter())[result.status.value] += 1
    own = hashlib.sha256(code).hexdigest()[:16]
    correct = all(
        result.status is Status.SUCCESS or (category == Category.OPTIMIZATION and result.status is Status.TIMEOUT)
        for (_, category, *_), result in zip(tests, results, strict=True)
    )
    timed = [i for i, row in enumerate(tests) if row[1] == Category.OPTIMIZATION]
    ids, stored, epochs = _references(connection, problem_id, [tests[i][0] for i in timed])
    notes: list[str] = []
    references = References(stored, _calibration(layout, epochs, results, notes))
    exclude = ids.index(own) if own in ids else None
    if exclude is not None:
        notes.append("the program is one of the references; it is left out of its own comparison")
    limit_s = stored_config(layout.manifest()).execution.time_limit_s
    delta = [limit_s if results[i].status is Status.TIMEOUT else (results[i].duration_s or np.nan) for i in timed]
    ranking = rank(np.array(delta), references, exclude=exclude)
    columns = (references.durations[references.valid[:, k], k] for k in range(len(timed)))
    medians = [float(np.median(column)) if column.size else None for column in columns]
    compared = {i: (float(ranking.p[k]), medians[k]) for k, i in enumerate(timed)}
    return Placement(
        problem_id,
        own,
        correct,
        {category: dict(counts) for category, counts in outcomes.items()},
        ranking.qp if correct else None,
        ranking.qar if correct else None,
        ranking.position if correct else None,
        len(ids) - (exclude is not None),
        notes,
        [_test_run(row, result, compared.get(i)) for i, (row, result) in enumerate(zip(tests, results, strict=True))],
    )


def _test_run(row: tuple[str, str, str, str], result: Result, compared: tuple[float, float | None] | None) -> TestRun:
    p, median = compared or (None, None)
    known = p is not None and not np.isnan(p) and result.status in (Status.SUCCESS, Status.TIMEOUT)
    return TestRun(row[0], row[1], result.status.value, result.duration_s, median, p if known else None, result.detail)


def _references(connection: Connection, problem_id: str, tests: list[str]) -> tuple[list[str], Floats, set[int]]:
    """(solution ids sorted, (H, T) stored seconds with NaN for missing, epochs they were measured in)."""
    rows = connection.execute(
        "SELECT solution_id, test_id, duration_s, epoch FROM reference_durations WHERE problem_id = ?", [problem_id]
    ).fetchall()
    column = {test: index for index, test in enumerate(tests)}
    ids = sorted({row[0] for row in rows})
    line = {solution: index for index, solution in enumerate(ids)}
    stored = np.full((len(ids), len(tests)), np.nan)
    for solution, test, duration, _ in rows:
        if test in column and duration is not None:
            stored[line[solution], column[test]] = duration
    return ids, stored, {row[3] for row in rows}


def _calibration(layout: Layout, epochs: set[int], results: list[Result], notes: list[str]) -> Any:
    """The newest fit between the stored epoch and the present one, or None with a note where none is known."""
    present = {result.epoch for result in results}
    if len(epochs) != 1 or len(present) != 1:
        notes.append(f"durations of epochs {sorted(epochs)} and {sorted(present)} are compared as they are")
        return None
    try:
        fit = select(read_calibrations(layout), *epochs, *present)
    except ArtifactError as error:
        notes.append(f"{error}; until then durations are compared as they are")
        return None
    if fit is None:
        return None
    notes.append(f"references corrected by calibration {fit.fit_id} ({fit.family})")
    from dmc_optim.ces.calibration.fit import predict

    return lambda seconds: predict(fit.family, fit.coefficients, seconds)
