"""Stored durations beside repeated fresh ones: one problem as a cube, and its pooling by triple (paper C.7)."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dmc_optim.ces.calibration.fit import Array, Pairs
from dmc_optim.errors import InvalidInputError


@dataclass(frozen=True, eq=False)
class ProblemRuns:
    """One problem of a campaign. R runs, T optimization tests, S reference solutions.

    stored: (T, S) seconds, NaN where the stored duration is no timing (failed, timed out, not positive).
    fresh: (R, T, S) seconds, NaN where a run gave no successful timing.
    censored: (T, S), True where a fresh run timed out: its duration is only a lower bound.
    """

    problem_id: str
    test_ids: tuple[str, ...]
    solution_ids: tuple[str, ...]
    stored: Array
    fresh: Array
    censored: NDArray[np.bool_]

    def __post_init__(self) -> None:
        shape = (len(self.test_ids), len(self.solution_ids))
        if self.stored.shape != shape or self.censored.shape != shape or self.fresh.shape[1:] != shape:
            raise InvalidInputError(
                f"{self.problem_id}: {len(self.test_ids)} tests and {len(self.solution_ids)} solutions do not match "
                f"stored {self.stored.shape}, censored {self.censored.shape}, fresh {self.fresh.shape}"
            )

    @cached_property
    def count(self) -> NDArray[np.int64]:
        """(T, S) successful fresh runs of each triple."""
        return np.asarray(np.isfinite(self.fresh).sum(axis=0))

    @cached_property
    def usable(self) -> NDArray[np.bool_]:
        """(T, S) triples that enter the fit: a stored timing, a fresh one, and no time-out among the runs."""
        return np.isfinite(self.stored) & (self.stored > 0) & (self.count > 0) & ~self.censored

    @cached_property
    def usable_fresh(self) -> Array:
        """(R, T, S) `fresh` with the triples that do not enter the fit set to NaN."""
        return np.where(self.usable, self.fresh, np.nan)

    @cached_property
    def mean(self) -> Array:
        """(T, S) fresh duration averaged over the runs, seconds, NaN without any."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            return np.asarray(np.nanmean(self.fresh, axis=0))

    @cached_property
    def std(self) -> Array:
        """(T, S) sample standard deviation over the runs, seconds, NaN with fewer than two."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            return np.asarray(np.nanstd(self.fresh, axis=0, ddof=1))


def pool(problems: Sequence[ProblemRuns]) -> Pairs:
    """Usable triples of all problems; a problem's label is its position in the sequence.

    Fresh durations are averaged over the runs, the fit is unweighted (paper C.7).
    """
    labels = [np.full(int(p.usable.sum()), i) for i, p in enumerate(problems)]
    stored = [p.stored[p.usable] for p in problems]
    fresh = [p.mean[p.usable] for p in problems]
    empty = np.empty(0)
    return Pairs(
        np.concatenate([np.empty(0, dtype=np.int64), *labels]).astype(np.int64),
        np.concatenate([empty, *stored]),
        np.concatenate([empty, *fresh]),
    )


def without_unstable_runs(
    problem: ProblemRuns, inconclusive: NDArray[np.int64], max_share: float
) -> tuple[ProblemRuns, int]:
    """The problem without the runs in which too many executions gave no verdict, and how many those were.

    inconclusive: (R,) executions of each run that ended without a verdict. A campaign has no fallback, so such a run
    is not completed by other means but dropped (paper C.7: 27 problems kept 20 runs, 6 kept 19).
    """
    if inconclusive.shape != problem.fresh.shape[:1]:
        raise InvalidInputError(f"{problem.problem_id}: {inconclusive.shape} counts for {problem.fresh.shape[0]} runs")
    executions = max(1, problem.stored.size)
    stable = inconclusive / executions <= max_share
    kept = ProblemRuns(
        problem.problem_id,
        problem.test_ids,
        problem.solution_ids,
        problem.stored,
        problem.fresh[stable],
        problem.censored,
    )
    return kept, int(np.count_nonzero(~stable))
