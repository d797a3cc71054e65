"""Work that environments share on one problem: tests kept, limits, timeout shares, rankings."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dmc_optim.environments.operators import Intra, Pre, RankedLimit
from dmc_optim.environments.records import FAILURE, NOT_RUN, SUCCESS, TIMEOUT, Problem, Rollouts
from dmc_optim.errors import InvalidInputError
from dmc_optim.ranking import Pool, Rankings, StrongReferences, rank_many
from dmc_optim.ranking.references import Bools, Floats, Ints


@dataclass(frozen=True, eq=False)
class Timeouts:
    """What statuses say of K rollouts under one filter and one limit.

    phi: (K,) φ, share of used tests that timed out, 0 if none is used (Eq. 21). n_used: (K,).
    clean: (K,) no failure on a used test (the optimization part of Eq. 20). complete: (K,) every used test was run.
    """

    phi: Floats
    n_used: Ints
    clean: Bools
    complete: Bools


class Outcomes:
    """Lazily computed tables of one batch of rollouts of one problem, each worked out once per operator.

    Args:
        problem: the problem.
        rollouts: K rollouts of it.
    """

    def __init__(self, problem: Problem, rollouts: Rollouts) -> None:
        self.problem = problem
        self.rollouts = rollouts = rollouts.fit(problem)
        self.pool = Pool(problem.references, rollouts.exclude)
        self._failed = rollouts.status == FAILURE
        self._any_failed = bool(self._failed.any())
        self._not_run = rollouts.status == NOT_RUN
        self._any_not_run = bool(self._not_run.any())
        whole = rollouts.exclude is None  # then filters and limits are those of the problem, whoever runs
        self._kept: dict[Pre, Bools] = problem.kept if whole else {}
        self._limits: dict[tuple[Pre, Intra], Floats] = problem.limits if whole else {}
        self._strong: dict[Pre, StrongReferences] = {}
        self._late: dict[Intra, Bools] = {}
        self._timeouts: dict[tuple[Pre, Intra], Timeouts] = {}
        self._rankings: dict[tuple[Pre, Intra | None], Rankings] = {}

    def correct(self, added: bool, cap_s: float | None) -> Bools:
        """c_cor, (K,): every test of T_0 (and of T_+ when added) succeeded, within cap_s where durations are known.

        Raises:
            InvalidInputError: tests that were not run although none failed.
        """
        parts = [(self.rollouts.base, self.rollouts.base_duration_s)]
        if added:
            parts.append((self.rollouts.added, self.rollouts.added_duration_s))
        wrong, unknown = np.zeros((2, len(self.rollouts)), dtype=bool)
        for status, seconds in parts:
            wrong |= ((status == TIMEOUT) | (status == FAILURE)).any(axis=1)
            unknown |= (status == NOT_RUN).any(axis=1)
            if cap_s is not None and seconds is not None:
                wrong |= (seconds >= cap_s).any(axis=1)
        if np.any(unknown & ~wrong):
            raise InvalidInputError("correctness tests were not run, and none that ran failed: run them first")
        return ~wrong

    def used(self, pre: Pre, intra: Intra) -> Bools:
        """T^O_used, (k, T): kept by the filter and not omitted by a reference-derived limit."""
        kept = self.kept(pre)
        return kept & ~np.isnan(self.limits(pre, intra)) if intra.omits else kept

    def kept(self, pre: Pre) -> Bools:
        """Tests that the filter keeps, (k, T)."""
        if pre not in self._kept:
            self._kept[pre] = pre.select(self.pool, self.problem.chars)
        return self._kept[pre]

    def limits(self, pre: Pre, intra: Intra) -> Floats:
        """λ_t, (k, T) seconds; NaN on omitted tests."""
        key = (pre, intra)
        if key not in self._limits:
            kept = self.kept(pre)
            if isinstance(intra, RankedLimit):
                if pre not in self._strong:
                    self._strong[pre] = StrongReferences(self.pool, kept)
                self._limits[key] = intra.limits(self.pool, kept, self._strong[pre])
            else:
                self._limits[key] = intra.limits(self.pool, kept)
        return self._limits[key]

    def timeouts(self, pre: Pre, intra: Intra) -> Timeouts:
        """Timeout share under a filter and a limit: a success with δ_t ≥ λ_t becomes a timeout (paper D.2)."""
        key = (pre, intra)
        if key not in self._timeouts:
            used = self.used(pre, intra)
            shape = self.rollouts.status.shape
            n_used = np.broadcast_to(used.sum(axis=1), shape[:1])
            late = (self._timed_out(pre, intra) & used).sum(axis=1)
            phi = np.where(n_used > 0, late / np.maximum(n_used, 1), 0.0)
            clean = ~(self._failed & used).any(axis=1) if self._any_failed else np.ones(shape[:1], dtype=bool)
            complete = ~(self._not_run & used).any(axis=1) if self._any_not_run else np.ones(shape[:1], dtype=bool)
            self._timeouts[key] = Timeouts(phi, n_used, clean, complete)
        return self._timeouts[key]

    def ranking(self, pre: Pre, intra: Intra) -> Rankings:
        """Ranking on the used tests; durations are as measured, whatever the limit."""
        key = (pre, intra if intra.omits else None)
        if key not in self._rankings:
            weights = np.asarray(self.used(pre, intra), dtype=np.float64)
            self._rankings[key] = rank_many(
                self.rollouts.duration_s, self.problem.references, weights=weights, exclude=self.rollouts.exclude
            )
        return self._rankings[key]

    def _timed_out(self, pre: Pre, intra: Intra) -> Bools:
        """(K, T), shared by every filter when the limit does not depend on it."""
        shared = not isinstance(intra, RankedLimit)
        if shared and intra in self._late:
            return self._late[intra]
        rollouts = self.rollouts
        slow = (rollouts.status == SUCCESS) & (rollouts.duration_s >= self.limits(pre, intra))
        late: NDArray[np.bool_] = (rollouts.status == TIMEOUT) | slow
        if shared:
            self._late[intra] = late
        return late
