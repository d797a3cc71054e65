"""Problems whose references stand in for generations: each is a candidate against the others (paper E.1)."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dmc_optim.environments import Problem, Rollouts
from dmc_optim.errors import ArtifactError, InvalidInputError
from dmc_optim.ranking import CAP_S, References
from dmc_optim.simulator.stored import NO_VERDICT, SUCCESS, TIMEOUT, Cells, Selection, StoredProblem, stored_problems

Floats = NDArray[np.float64]
Codes = NDArray[np.int8]
Calibration = tuple[float, float] | None


@dataclass(frozen=True, eq=False)
class PoolProblem:
    """One problem, kept small: rankings and sorted columns are built when it is evaluated and dropped afterwards.

    duration_s: (H, T) stored seconds on the optimization tests, NaN missing. status: (H, T) codes 0 success, 1 timeout,
    2 failure, −1 no verdict. chars: (T,). base, added: (H, B), (H, A) status codes on T_0 and T_+. base_s, added_s:
    their durations. candidates: (K,) rows that may be drawn, ascending.
    """

    problem_id: str
    duration_s: Floats
    status: Codes
    chars: NDArray[np.int64]
    base: Codes
    added: Codes
    base_s: Floats
    added_s: Floats
    candidates: NDArray[np.int64]

    def build(self, calibration: Calibration, chosen: NDArray[Any] | None = None) -> tuple[Problem, Rollouts]:
        """Problem and candidates as environments take them, each candidate left out of its own pool.

        chosen: positions among `candidates`; None takes all. A candidate lasts its calibrated stored duration
        (Eq. 10). A cell without a verdict, and one at the cap, is a timeout.
        """
        references = References(self.duration_s, calibration)
        problem = Problem(self.base.shape[1], self.added.shape[1], self.chars, references)
        rows = self.candidates if chosen is None else self.candidates[chosen]
        seconds, status = references.durations[rows], self.status[rows]
        late = (status == NO_VERDICT) | ~(seconds < CAP_S)
        rollouts = Rollouts(
            self.base[rows],
            self.added[rows],
            np.where(late, np.int8(TIMEOUT), status),
            seconds,
            exclude=rows,
            base_duration_s=self.base_s[rows],
            added_duration_s=self.added_s[rows],
        )
        return problem, rollouts


@dataclass(frozen=True)
class PoolSummary:
    """What a pool holds. missing_share: optimization cells without a measurement, over all references' cells.

    incomplete_references: references that stay in the pools but are not drawn. skipped: reason → problems left out.
    """

    problems: int
    references: int
    candidates: int
    optimization_tests: int
    cells: int
    missing_share: float
    incomplete_references: int
    skipped: dict[str, int]


@dataclass(frozen=True, eq=False)
class SimulationPool:
    """Problems in order of problem_id, and the calibration Γ of Eq. 10 (None for the identity)."""

    problems: tuple[PoolProblem, ...]
    calibration: Calibration
    summary: PoolSummary


def load_pool(
    directory: str, selection: Selection, calibration: Calibration = None, max_missing: float = 0.0
) -> SimulationPool:
    """The pool of a build.

    max_missing: a reference with a larger share of missing optimization cells is not drawn.
    Raises ArtifactError where there is no build or nothing to simulate.
    """
    pool = make_pool(stored_problems(directory, selection), calibration, max_missing)
    if not pool.problems:
        reasons = ", ".join(f"{count} with {reason}" for reason, count in pool.summary.skipped.items())
        raise ArtifactError(
            f"{directory}: no problem of the {selection} can be simulated ({reasons}); "
            "measure more references, or raise --max-missing"
        )
    return pool


def make_pool(
    stored: Iterable[StoredProblem], calibration: Calibration = None, max_missing: float = 0.0
) -> SimulationPool:
    """The pool of stored problems; a problem needs an optimization test and two references, two of them drawable."""
    if not 0 <= max_missing < 1:
        raise InvalidInputError(f"max_missing is a share below 1, got {max_missing}")
    problems: list[PoolProblem] = []
    skipped: dict[str, int] = {}
    for one in stored:
        problem = pool_problem(one, max_missing)
        reason = _unusable(problem)
        if reason:
            skipped[reason] = skipped.get(reason, 0) + 1
        else:
            problems.append(problem)
    cells = sum(problem.duration_s.size for problem in problems)
    missing = sum(int(np.isnan(problem.duration_s).sum()) for problem in problems)
    references = sum(len(problem.duration_s) for problem in problems)
    candidates = sum(len(problem.candidates) for problem in problems)
    summary = PoolSummary(
        problems=len(problems),
        references=references,
        candidates=candidates,
        optimization_tests=sum(problem.duration_s.shape[1] for problem in problems),
        cells=cells,
        missing_share=missing / max(1, cells),
        incomplete_references=references - candidates,
        skipped=skipped,
    )
    return SimulationPool(tuple(problems), calibration, summary)


def pool_problem(stored: StoredProblem, max_missing: float = 0.0) -> PoolProblem:
    """Keep what the simulator needs of a stored problem. A retained reference passed what it has no cell for."""
    cells = stored.optimization
    missing = np.isnan(cells.duration_s)
    with np.errstate(invalid="ignore"):
        share = missing.mean(axis=1) if cells.duration_s.shape[1] else np.ones(len(cells.duration_s))
    return PoolProblem(
        stored.problem_id,
        cells.duration_s,
        np.where(missing, np.int8(NO_VERDICT), cells.status),
        cells.chars,
        _verdicts(stored.base),
        _verdicts(stored.added),
        stored.base.duration_s,
        stored.added.duration_s,
        np.flatnonzero(share <= max_missing),
    )


def _verdicts(cells: Cells) -> Codes:
    return np.where(cells.status == NO_VERDICT, np.int8(SUCCESS), cells.status)


def _unusable(problem: PoolProblem) -> str:
    n_references, n_tests = problem.duration_s.shape
    if n_tests == 0:
        return "no optimization test"
    if n_references < 2:
        return "fewer than two references"
    return "fewer than two references without missing cells" if len(problem.candidates) < 2 else ""
