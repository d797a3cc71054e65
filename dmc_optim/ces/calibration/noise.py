"""What repeated executions say about the service: short-run noise and variance decomposition (C.7, Table 31)."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from dmc_optim.ces.calibration.agreement import candidate_of, run_percentiles
from dmc_optim.ces.calibration.fit import Array
from dmc_optim.ces.calibration.runs import ProblemRuns


@dataclass(frozen=True)
class Summary:
    """Mean, median and range of a quantity. low, high: 5th and 95th percentile, or the extremes where said so."""

    mean: float
    median: float
    low: float
    high: float
    n: int


@dataclass(frozen=True)
class ShortRunNoise:
    """Table 31: spread of repeated measurements of one triple.

    cv: unitless · std_s, pooled_s: seconds (pooled_s with the extremes) · mean_percentile_std: percentile points of one
    candidate a problem, None with fewer than two complete runs.
    """

    cv: Summary | None
    std_s: Summary | None
    pooled_s: Summary | None
    mean_percentile_std: Summary | None


@dataclass(frozen=True)
class VarianceDecomposition:
    """Law of total variance over all raw durations, s²: total = between + within exactly.

    between: variance of the triples' means, weighted by their runs. within: mean squared deviation from them.
    """

    between: float
    within: float
    total: float

    @property
    def between_share(self) -> float | None:
        """Share of the variance that is real difference between triples; None without any variance."""
        return self.between / self.total if self.total > 0 else None

    @property
    def within_share(self) -> float | None:
        """Share that is repeated-measurement noise; None without any variance."""
        return self.within / self.total if self.total > 0 else None


def summarize(values: ArrayLike, extremes: bool = False) -> Summary | None:
    """Mean, median and range of the finite values; None without any. extremes: minimum and maximum as the range."""
    finite = np.asarray(values, dtype=np.float64).ravel()
    finite = finite[np.isfinite(finite)]
    if not finite.size:
        return None
    low, median, high = np.percentile(finite, [0, 50, 100] if extremes else [5, 50, 95])
    return Summary(float(finite.mean()), float(median), float(low), float(high), int(finite.size))


def short_run_noise(problems: Sequence[ProblemRuns], seed: int = 0) -> ShortRunNoise:
    """Table 31's rows over the usable triples that were timed at least twice."""
    repeated = [p.usable & (p.count >= 2) for p in problems]
    std = [p.std[mask] for p, mask in zip(problems, repeated, strict=True)]
    mean = [p.mean[mask] for p, mask in zip(problems, repeated, strict=True)]
    pooled = [p.mean[p.usable] for p in problems]
    cv = [s / m for s, m in zip(std, mean, strict=True)]
    percentile_std = []
    for problem in problems:
        fresh = problem.usable_fresh
        values = run_percentiles(fresh, fresh, [candidate_of(problem, seed)])[:, 0]
        values = values[np.isfinite(values)]
        if values.size >= 2:
            percentile_std.append(float(values.std(ddof=1)))
    return ShortRunNoise(
        cv=summarize(_concatenate(cv)),
        std_s=summarize(_concatenate(std)),
        pooled_s=summarize(_concatenate(pooled), extremes=True),
        mean_percentile_std=summarize(percentile_std, extremes=True),
    )


def decompose_variance(problems: Sequence[ProblemRuns]) -> VarianceDecomposition:
    """Between-triple and within-triple variance of the raw fresh durations of usable triples, population form."""
    n, first, within = 0, 0.0, 0.0
    for problem in problems:
        raw = problem.fresh[:, problem.usable]
        n += int(np.isfinite(raw).sum())
        first += float(np.nansum(raw))
        within += float(np.nansum((raw - problem.mean[problem.usable]) ** 2))
    if n == 0:
        return VarianceDecomposition(0.0, 0.0, 0.0)
    grand = first / n
    between = sum(float(np.sum(p.count[p.usable] * (p.mean[p.usable] - grand) ** 2)) for p in problems)
    if between + within <= n * (1e-12 * grand) ** 2:  # equal values, apart from rounding
        return VarianceDecomposition(0.0, 0.0, 0.0)
    return VarianceDecomposition(between / n, within / n, (between + within) / n)


def _concatenate(parts: Sequence[Array]) -> Array:
    return np.concatenate([np.empty(0), *parts])
