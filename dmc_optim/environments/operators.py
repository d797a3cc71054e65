"""The three intervention points: filters before, limits during, ranking after execution (paper D.2).

Operators are values (frozen, hashable), so that work on one problem is shared by every environment that contains
the same operator. Their formulas were lost in the paper's text and are rebuilt from its prose; docs/deviations.md
gives the reasoning.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dmc_optim.errors import InvalidInputError
from dmc_optim.ranking import CAP_S, TOLERANCE, Pool, StrongReferences
from dmc_optim.ranking.pool import DECIMALS, share_floor
from dmc_optim.ranking.references import Bools, Floats, Ints


@dataclass(frozen=True)
class NoTests:
    """T^O_used = ∅: correctness-only environments."""

    def select(self, pool: Pool, chars: Ints | None) -> Bools:
        """(1, T) all False."""
        return np.zeros((1, pool.references.n_tests), dtype=bool)


@dataclass(frozen=True)
class AllTests:
    """Identity filter, F_id(T) = T (Eq. 11)."""

    def select(self, pool: Pool, chars: Ints | None) -> Bools:
        """(1, T) all True."""
        return np.ones((1, pool.references.n_tests), dtype=bool)


@dataclass(frozen=True)
class AbsoluteFilter:
    """Keep t iff d̄_t is defined and d̄_t < a seconds; agg is the mean or the median of D_t."""

    a: float
    agg: str = "mean"

    def __post_init__(self) -> None:
        _positive("a", self.a)
        _one_of("agg", self.agg, ("mean", "median"))

    def select(self, pool: Pool, chars: Ints | None) -> Bools:
        """(k, T) kept tests."""
        return pool.aggregate(self.agg) < self.a - TOLERANCE  # NaN compares false


@dataclass(frozen=True)
class CharacterFilter:
    """Keep t iff len(u_t) + len(v_t) ≤ chars."""

    chars: float

    def __post_init__(self) -> None:
        _within("chars", self.chars, 0, np.inf)

    def select(self, pool: Pool, chars: Ints | None) -> Bools:
        """(1, T) kept tests."""
        if chars is None:
            raise InvalidInputError("a character-length filter needs chars, the input and output length of every test")
        return (chars <= self.chars)[None]


@dataclass(frozen=True)
class RelativeFilter:
    """Drop the slowest ⌊r·n/100⌋ of the n tests with a defined d̄_t (later test first at ties); keep the others."""

    r: float
    agg: str = "mean"

    def __post_init__(self) -> None:
        _within("r", self.r, 0, 100)
        _one_of("agg", self.agg, ("mean", "median"))

    def select(self, pool: Pool, chars: Ints | None) -> Bools:
        """(k, T) kept tests."""
        aggregate = np.round(pool.aggregate(self.agg), DECIMALS)
        n_ranked = (~np.isnan(aggregate)).sum(axis=1)
        order = np.argsort(aggregate, axis=1, kind="stable")  # tests without an aggregate come last
        place = np.empty_like(order)
        np.put_along_axis(place, order, np.arange(aggregate.shape[1])[None], axis=1)
        kept = (n_ranked - share_floor(self.r, n_ranked))[:, None]
        return (place < kept) | (place >= n_ranked[:, None])


@dataclass(frozen=True)
class Unlimited:
    """λ_t = ∞: the status side is inactive (g_to = 1, q_to = 0), also for tests that hit the service cap."""

    active: ClassVar[bool] = False
    omits: ClassVar[bool] = False

    def limits(self, pool: Pool, used: Bools) -> Floats:
        """(1, T) infinite."""
        return np.full((1, pool.references.n_tests), np.inf)


@dataclass(frozen=True)
class AbsoluteLimit:
    """λ_t = limit seconds; the default cap τ_t is 10 s."""

    limit: float = CAP_S
    active: ClassVar[bool] = True
    omits: ClassVar[bool] = False

    def __post_init__(self) -> None:
        _positive("limit", self.limit)

    def limits(self, pool: Pool, used: Bools) -> Floats:
        """(1, T) seconds."""
        return np.full((1, pool.references.n_tests), float(self.limit))


@dataclass(frozen=True)
class RelativeLimit:
    """λ_t = the p-th percentile of D_t, linear between order statistics; tests without references are omitted."""

    p: float
    active: ClassVar[bool] = True
    omits: ClassVar[bool] = True

    def __post_init__(self) -> None:
        _within("p", self.p, 0, 100)

    def limits(self, pool: Pool, used: Bools) -> Floats:
        """(k, T) seconds, NaN on omitted tests."""
        return pool.quantile(self.p)


@dataclass(frozen=True)
class RankedLimit:
    """λ_t = B{d̃_{t,h} : h ∈ H_p}, B the max ("ranked worst") or the median; tests where H_p has none are omitted."""

    p: float
    agg: str = "max"
    active: ClassVar[bool] = True
    omits: ClassVar[bool] = True

    def __post_init__(self) -> None:
        _within("p", self.p, 0, 100)
        _one_of("agg", self.agg, ("max", "median"))

    def limits(self, pool: Pool, used: Bools, strong: StrongReferences | None = None) -> Floats:
        """(k, T) seconds, NaN on omitted tests; `strong` when the ordering of the references is known already."""
        return (strong or StrongReferences(pool, used)).limits(self.p, self.agg)


@dataclass(frozen=True)
class NoRanking:
    """g_dur = 1, q_dur = 0."""


@dataclass(frozen=True)
class QarRanking:
    """q_dur = q_QAR = a(y), g_dur = [q_QAR ≤ p], p a fraction (Eqs. 24, 26)."""

    p: float

    def __post_init__(self) -> None:
        _within("p", self.p, 0, 1)


@dataclass(frozen=True)
class QpRanking:
    """q_dur = q_QP, g_dur = [q_QP ≤ p], p a fraction (Eqs. 25, 26)."""

    p: float

    def __post_init__(self) -> None:
        _within("p", self.p, 0, 1)


Pre = NoTests | AllTests | AbsoluteFilter | CharacterFilter | RelativeFilter
Intra = Unlimited | AbsoluteLimit | RelativeLimit | RankedLimit
Post = NoRanking | QarRanking | QpRanking


def relative_limit(p: float) -> Intra:
    """The p-th percentile of D_t as limit; p = 100 sets no limit."""
    return Unlimited() if p == 100 else RelativeLimit(p)


def ranked_limit(p: float, agg: str = "max") -> Intra:
    """The best p% of the references set the limit; p = 100 sets none."""
    _one_of("agg", agg, ("max", "median"))
    return Unlimited() if p == 100 else RankedLimit(p, agg)


def _positive(name: str, value: float) -> None:
    if not 0 < value < np.inf:
        raise InvalidInputError(f"{name} must be a positive number of seconds; got {value}")


def _within(name: str, value: float, low: float, high: float) -> None:
    if not low <= value <= high:
        raise InvalidInputError(f"{name} must lie between {low:g} and {high:g}; got {value}")


def _one_of(name: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise InvalidInputError(f"{name} must be one of {', '.join(allowed)}; got {value!r}")
