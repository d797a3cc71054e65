"""The reference pool as each of K candidates sees it: whole, or with one reference left out.

Leaving row j out is arithmetic on what the whole pool already knows (counts, sums, sorted columns), so that
every reference of a problem can be the candidate against the others without K pools being built.
"""

from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dmc_optim.errors import InvalidInputError
from dmc_optim.ranking.references import Bools, Floats, Ints, References

DECIMALS = 12  # aggregates are rounded here before they are sorted, so that rounding noise orders nothing


class Pool:
    """References of one problem, minus at most one of them for each candidate.

    Every array has a leading axis k, which is K when `exclude` is given and 1 (it broadcasts) otherwise.

    Args:
        references: H references on T tests.
        exclude: (K,) row left out for each candidate, -1 for none; None when no candidate leaves one out.

    Raises:
        InvalidInputError: a row that does not exist.
    """

    def __init__(self, references: References, exclude: ArrayLike | None = None) -> None:
        self.references = references
        rows = np.array([-1]) if exclude is None else np.asarray(exclude, dtype=np.int64)
        if rows.ndim != 1 or np.any(rows < -1) or np.any(rows >= references.n_references):
            raise InvalidInputError(
                f"exclude must list rows of the {references.n_references} references, or -1; got {exclude!r}"
            )
        self.rows: Ints = rows
        self.leaves_out = bool(np.any(rows >= 0))

    @cached_property
    def left_out(self) -> Floats:
        """(k, T) durations of the reference left out; NaN where none is, or where it has none."""
        out = np.full((len(self.rows), self.references.n_tests), np.nan)
        some = self.rows >= 0
        out[some] = self.references.durations[self.rows[some]]
        return out

    @cached_property
    def counts(self) -> Ints:
        """|D_t|, (k, T)."""
        return self.references.counts - ~np.isnan(self.left_out)

    @cached_property
    def members(self) -> Bools:
        """(k, H): which references are in the pool."""
        return np.arange(self.references.n_references) != self.rows[:, None]

    def aggregate(self, how: str) -> Floats:
        """d̄_t, (k, T) seconds: mean or median of D_t, NaN where D_t is empty (paper D.2)."""
        if how == "median":
            last = np.maximum(self.counts - 1, 0)
            middle = (self._order_statistic(last // 2) + self._order_statistic((last + 1) // 2)) / 2
            return np.where(self.counts > 0, middle, np.nan)
        if how != "mean":
            raise InvalidInputError(f"durations are aggregated by mean or median; got {how!r}")
        total = self.references.total - np.where(np.isnan(self.left_out), 0.0, self.left_out)
        return np.where(self.counts > 0, total / np.maximum(self.counts, 1), np.nan)

    def quantile(self, percent: float) -> Floats:
        """p-th percentile of D_t, (k, T) seconds, linear between order statistics; NaN where D_t is empty.

        The operations are those of `numpy.percentile`, so that a limit is the same double as its default gives: a
        candidate may well last exactly as long as a reference.
        """
        last = np.maximum(self.counts - 1, 0)
        index = last * (percent / 100)
        below = np.floor(index).astype(np.int64)
        share = index - below
        low, high = self._order_statistic(below), self._order_statistic(np.minimum(below + 1, last))
        value = np.where(share < 0.5, low + (high - low) * share, high - (high - low) * (1 - share))
        return np.where(self.counts > 0, value, np.nan)

    def _order_statistic(self, index: NDArray[np.integer]) -> Floats:
        """(k, T): the index-th smallest of D_t, skipping the place of the reference left out."""
        if self.leaves_out:
            place = np.where(np.isnan(self.left_out), self.references.n_references, self.references.place[self.rows])
            index = index + (index >= place)
        if self.references.n_references == 0:
            return np.full(self.counts.shape, np.nan)
        index = np.minimum(index, self.references.n_references - 1)
        return np.take_along_axis(self.references.sorted, np.broadcast_to(index, self.counts.shape), axis=0)


def share_floor(percent: float, total: NDArray[np.integer]) -> NDArray[np.integer]:
    """⌊percent·n/100⌋ in exact arithmetic on the decimal that was written."""
    exact = Fraction(str(percent)) / 100
    return exact.numerator * total // exact.denominator


def share_ceil(percent: float, total: NDArray[np.integer]) -> NDArray[np.integer]:
    """⌈percent·n/100⌉ in exact arithmetic on the decimal that was written."""
    exact = Fraction(str(percent)) / 100
    return -(-exact.numerator * total // exact.denominator)
