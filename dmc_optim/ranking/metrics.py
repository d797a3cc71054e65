"""The 17 ranking metrics of the screening study, by name (paper D.3, Eqs. 27-34).

Percentiles here run from 0 to 100 and tied durations share the average rank, unlike the reward path.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from dmc_optim.errors import InvalidInputError
from dmc_optim.ranking.pool import DECIMALS, Pool
from dmc_optim.ranking.references import TOLERANCE, Bools, Floats, Ints, References


@dataclass(frozen=True)
class Metric:
    """One metric: its equation in the paper, its direction, and what one unit is in percentile points."""

    equation: str
    higher_is_better: bool = False
    points: float = 1.0


METRICS: dict[str, Metric] = {
    "mean": Metric("28"),
    "median": Metric("28, median"),
    "trimmed_mean": Metric("28, trimmed"),
    "log_mean": Metric("28, log durations"),
    "top25_share": Metric("29", higher_is_better=True),
    "top50_share": Metric("29", higher_is_better=True),
    "total": Metric("30"),
    "slope": Metric("32"),
    "slope_zero_intercept": Metric("33"),
    "win_rate_mean": Metric("34", higher_is_better=True, points=100.0),
    "win_rate_median": Metric("34", higher_is_better=True, points=100.0),
    "mean_drop_easiest_10": Metric("28, filtered"),
    "mean_drop_hardest_25": Metric("28, filtered"),
    "mean_drop_hardest_50": Metric("28, filtered"),
    "median_drop_easiest_10": Metric("28, filtered"),
    "median_drop_hardest_25": Metric("28, filtered"),
    "median_drop_hardest_50": Metric("28, filtered"),
}
TRIM_MINIMUM = 5  # fewest tests on which a trimmed mean is defined


def all_metrics(delta: ArrayLike, references: References, *, exclude: ArrayLike | None = None) -> dict[str, Floats]:
    """All 17 metrics of K candidates.

    𝒯 of a candidate is the set of tests on which it has a duration (not NaN) and at least one reference has.

    Args:
        delta: (T,) or (K, T) seconds; one candidate is a batch of one.
        references: H references.
        exclude: (K,) row left out of the pool of each candidate, -1 for none.

    Returns:
        For each name of METRICS, (K,) values in the unit of its equation (win rates are shares of 1, all others run
        from 0 to 100); NaN where the metric is not defined.

    Raises:
        InvalidInputError: shapes that do not fit, negative durations.
    """
    view = _View(delta, references, exclude)
    p = view.percentiles
    values = {
        "mean": masked_mean(p),
        "median": masked_median(p),
        "trimmed_mean": view.trimmed_mean(),
        "log_mean": masked_mean(p),  # a rank does not change under the logarithm
        "top25_share": view.share(p < 25) * 100,
        "top50_share": view.share(p < 50) * 100,
        "total": view.total(),
        "slope": view.slope(intercept=True),
        "slope_zero_intercept": view.slope(intercept=False),
        "win_rate_mean": view.share(view.seconds < view.pool.aggregate("mean") - TOLERANCE),
        "win_rate_median": view.share(view.seconds < view.pool.aggregate("median") - TOLERANCE),
    }
    for name, kept in view.filtered().items():
        values[f"mean_{name}"] = masked_mean(np.where(kept, p, np.nan))
        values[f"median_{name}"] = masked_median(np.where(kept, p, np.nan))
    return {name: values[name] for name in METRICS}


def percentiles(delta: ArrayLike, references: References, *, exclude: ArrayLike | None = None) -> Floats:
    """p_t = 100·(r̄_t − 1)/(n_t − 1), (K, T), tied durations sharing the average rank; NaN outside 𝒯 (Eq. 27)."""
    return _View(delta, references, exclude).percentiles


def scalar_percentile(value: Floats, among: Floats) -> Floats:
    """Π(z, A): percentile of each value after adding it to its own set, average rank at ties within 1e-12.

    Args:
        value: (K,); NaN gives NaN.
        among: (K, H), NaN for no member; an empty set gives NaN.

    Returns:
        (K,) from 0 to 100.
    """
    tolerance = TOLERANCE * np.maximum(1.0, np.abs(value))[:, None]
    n = (~np.isnan(among)).sum(axis=1)
    below = (among < value[:, None] - tolerance).sum(axis=1)
    equal = (np.abs(among - value[:, None]) <= tolerance).sum(axis=1)
    return np.where((n > 0) & ~np.isnan(value), 100 * (below + equal / 2) / np.maximum(n, 1), np.nan)


def masked_mean(values: Floats) -> Floats:
    """Mean of the values that are not NaN along the last axis; NaN where there is none."""
    n = (~np.isnan(values)).sum(axis=-1)
    return np.where(n > 0, np.nansum(values, axis=-1) / np.maximum(n, 1), np.nan)


def masked_median(values: Floats) -> Floats:
    """Median of the values that are not NaN along the last axis; NaN where there is none."""
    if values.shape[-1] == 0:
        return np.full(values.shape[:-1], np.nan)
    ascending = np.sort(values, axis=-1)  # NaN last
    n = (~np.isnan(values)).sum(axis=-1)[..., None]
    middle = [np.take_along_axis(ascending, np.maximum(i, 0), axis=-1)[..., 0] for i in ((n - 1) // 2, n // 2)]
    return np.where(n[..., 0] > 0, (middle[0] + middle[1]) / 2, np.nan)


class _View:
    """K candidates beside the pool each of them is compared with."""

    def __init__(self, delta: ArrayLike, references: References, exclude: ArrayLike | None) -> None:
        seconds = np.atleast_2d(np.asarray(delta, dtype=np.float64))
        if seconds.ndim != 2 or seconds.shape[1] != references.n_tests:
            raise InvalidInputError(
                f"candidate durations must have one value for each of {references.n_tests} tests; got {seconds.shape}"
            )
        if np.any(seconds < 0):
            raise InvalidInputError("candidate durations must not be negative; mark a missing one as NaN")
        self.pool = Pool(references, exclude)
        if exclude is not None and len(self.pool.rows) != len(seconds):
            raise InvalidInputError(f"exclude must have one row for each of the {len(seconds)} candidates")
        self.tests: Bools = np.isfinite(seconds) & (self.pool.counts > 0)
        self.n_tests: Ints = self.tests.sum(axis=1)
        self.seconds: Floats = np.where(self.tests, seconds, np.nan)

    @cached_property
    def percentiles(self) -> Floats:
        references, gone = self.pool.references, self.pool.left_out
        below, up_to = np.zeros(self.seconds.shape), np.zeros(self.seconds.shape)
        for t in range(references.n_tests):
            column = references.sorted[: references.counts[t], t]
            below[:, t] = np.searchsorted(column, self.seconds[:, t], side="left")
            up_to[:, t] = np.searchsorted(column, self.seconds[:, t], side="right")
        below -= gone < self.seconds
        up_to -= gone <= self.seconds
        return np.where(self.tests, 100 * (below + up_to) / 2 / np.maximum(self.pool.counts, 1), np.nan)

    def share(self, hit: Bools) -> Floats:
        """Share of 𝒯 on which something holds, (K,)."""
        return np.where(self.n_tests > 0, (hit & self.tests).sum(axis=1) / np.maximum(self.n_tests, 1), np.nan)

    def trimmed_mean(self) -> Floats:
        """Mean after dropping max(1, ⌊0.1·|𝒯|⌋) percentiles at each end; needs five tests."""
        ascending = np.sort(self.percentiles, axis=1)
        drop = np.maximum(1, self.n_tests // 10)[:, None]
        place = np.arange(ascending.shape[1])
        kept = (place >= drop) & (place < self.n_tests[:, None] - drop)
        mean = masked_mean(np.where(kept, ascending, np.nan))
        return np.where(self.n_tests >= TRIM_MINIMUM, mean, np.nan)

    def total(self) -> Floats:
        """Π of the total duration on 𝒯 among the totals of references with a duration there (Eq. 30)."""
        references = self.pool.references
        chosen = self.tests.astype(np.float64)
        totals = chosen @ np.where(references.valid, references.durations, 0.0).T
        present = (chosen @ references.valid_columns > 0) & self.pool.members
        own = np.where(self.n_tests > 0, np.nansum(self.seconds, axis=1), np.nan)
        return scalar_percentile(own, np.where(present, totals, np.nan))

    def slope(self, *, intercept: bool) -> Floats:
        """Π of the slope of durations against w_t among the slopes of the references on 𝒯 (Eqs. 31-33)."""
        references = self.pool.references
        w = Pool(references.uncalibrated, self.pool.rows).quantile(50)
        w = np.where(self.tests, np.broadcast_to(w, self.tests.shape), np.nan)
        own = _slopes(np.nan_to_num(self.seconds)[:, None], self.tests[:, None], w, intercept)[:, 0]
        there = self.tests[:, None] & references.valid  # (K, H, T)
        theirs = _slopes(np.where(references.valid, references.durations, 0.0)[None], there, w, intercept)
        return scalar_percentile(own, np.where(self.pool.members, theirs, np.nan))

    def filtered(self) -> dict[str, Bools]:
        """(K, T) tests kept after dropping max(1, ⌊share·|𝒯|⌋) of them by mean reference duration."""
        difficulty = np.where(self.tests, np.round(self.pool.aggregate("mean"), DECIMALS), np.nan)
        order = np.argsort(difficulty, axis=1, kind="stable")
        place = np.empty_like(order)
        np.put_along_axis(place, order, np.arange(order.shape[1])[None], axis=1)
        n = self.n_tests[:, None]
        tenth, quarter, half = (np.maximum(1, n // part) for part in (10, 4, 2))
        return {
            "drop_easiest_10": self.tests & (place >= tenth),
            "drop_hardest_25": self.tests & (place < n - quarter),
            "drop_hardest_50": self.tests & (place < n - half),
        }


def _slopes(seconds: Floats, present: Bools, w: Floats, intercept: bool) -> Floats:
    """Least-squares slopes of rows of seconds on w, over the tests present: (K, H); NaN where w has no spread.

    Args:
        seconds: (K or 1, H, T). present: (K, H, T). w: (K, T), NaN outside 𝒯.
    """
    centre = np.nan_to_num(masked_mean(w))[:, None] if intercept else np.zeros((len(w), 1))
    x = np.where(present, np.nan_to_num(w - centre)[:, None], 0.0)
    y = np.where(present, seconds, 0.0)
    n = present.sum(axis=2) if intercept else np.ones(present.shape[:2])
    sum_x, sum_y = (x.sum(axis=2), y.sum(axis=2)) if intercept else (0.0, 0.0)
    spread = n * (x * x).sum(axis=2) - sum_x * sum_x
    largest = np.max(np.abs(np.nan_to_num(w)), axis=1, initial=0.0)[:, None]
    rounding = TOLERANCE * (n * largest) ** 2 if intercept else 0.0  # a spread below it is rounding of equal w
    with np.errstate(divide="ignore", invalid="ignore"):
        slope = (n * (x * y).sum(axis=2) - sum_x * sum_y) / spread
    return np.where(spread > rounding, slope, np.nan)
