"""The best p% of the references and the limits their durations give (ranked-reference time-outs, paper D.2)."""

from functools import cached_property

import numpy as np

from dmc_optim.errors import InvalidInputError
from dmc_optim.ranking.leaderboard import slower_share
from dmc_optim.ranking.pool import Pool, share_ceil
from dmc_optim.ranking.references import Bools, Floats, Ints


class StrongReferences:
    """References of a pool ordered by their average per-test rank on the used tests.

    The rank of h on t is 1 + #{h′ : d̃_{t,h′} < d̃_{t,h}} (ties share the better rank); its average runs over the used
    tests on which h has a duration. Equal averages are ordered by row (solution_id). A reference with no duration
    on a used test is not ranked and not in H.

    Args:
        pool: references as k candidates see them.
        used: (k, T) or (1, T) tests in use.

    Source: paper D.2, prose on ranked-reference time-outs.
    """

    def __init__(self, pool: Pool, used: Bools) -> None:
        self.pool = pool
        references = pool.references
        weight = np.asarray(used, dtype=np.float64)
        rank_sum = weight @ np.where(references.valid, references.faster + 1, 0.0).T
        if pool.leaves_out:
            rank_sum = rank_sum - slower_share(pool.left_out, weight, references)
        n_tests = np.where(pool.members, weight @ references.valid_columns, 0.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            self.average_rank = np.where(n_tests > 0, rank_sum / n_tests, np.inf)
        self.order: Ints = np.argsort(self.average_rank, axis=1, kind="stable")
        self.n_ranked: Ints = np.isfinite(self.average_rank).sum(axis=1)

    def size(self, percent: float) -> Ints:
        """|H_p| = max(1, ⌈p·|H|/100⌉), (k,); 0 where no reference is ranked."""
        return np.where(self.n_ranked > 0, np.maximum(1, share_ceil(percent, self.n_ranked)), 0)

    def limits(self, percent: float, how: str) -> Floats:
        """λ_t = B{d̃_{t,h} : h ∈ H_p}, (k, T) seconds, B the maximum or the median; NaN where H_p has no duration."""
        if how not in {"max", "median"}:
            raise InvalidInputError(f"ranked limits take the max or the median of the best references; got {how!r}")
        size = self.size(percent)
        if self.pool.references.n_references == 0:
            return np.full((len(size), self.pool.references.n_tests), np.nan)
        if how == "max":
            limits = self._running_maximum[np.maximum(size, 1) - 1, np.arange(len(size))]
        else:
            limits = self._median(size)
        return np.where(size[:, None] > 0, limits, np.nan)

    @cached_property
    def _running_maximum(self) -> Floats:
        """(H, k, T): slowest duration among the best 1, 2, … H references."""
        durations = self.pool.references.durations
        running = np.empty((durations.shape[0], *self.pool.left_out.shape))
        running[0] = durations[self.order[:, 0]]
        for place in range(1, len(running)):  # far faster than ufunc.accumulate over a middle axis
            np.fmax(running[place - 1], durations[self.order[:, place]], out=running[place])
        return running

    @cached_property
    def _standing(self) -> Ints:
        standing = np.empty_like(self.order)
        np.put_along_axis(standing, self.order, np.arange(self.order.shape[1])[None], axis=1)
        return standing

    def _median(self, size: Ints) -> Floats:
        """(k, T): walk every sorted column over the chosen rows only, up to its middle."""
        references = self.pool.references
        chosen, inverse = np.unique(self._standing < size[:, None], axis=0, return_inverse=True)
        among = chosen.T[references.order] & ~np.isnan(references.sorted)[:, :, None]  # (H, T, distinct choices)
        n = among.sum(axis=0, dtype=np.int32)
        below, above = (n - 1) // 2, n // 2
        seen, low, high = np.zeros_like(n), np.zeros_like(n), np.zeros_like(n)
        for row in among:
            seen += row
            low += seen <= below
            high += seen <= above
        last = references.n_references - 1
        middle = [np.take_along_axis(references.sorted, np.minimum(place, last).T, axis=0) for place in (low, high)]
        return np.where(n.T > 0, (middle[0] + middle[1]) / 2, np.nan)[inverse.reshape(-1)]
