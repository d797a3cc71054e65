"""Rankings that know how noisy the durations are (the wish of paper C.12; nothing of this is in the paper's runs).

Most optimization tests of a real problem run for milliseconds, where the order of two programs is mostly noise.
Given the standard deviation of every stored duration, a ranking may drop tests whose references differ by no more
than the noise, weigh tests by how much of their spread is real, or compare two durations softly.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr

from dmc_optim.errors import InvalidInputError
from dmc_optim.ranking.leaderboard import Ranking, rank
from dmc_optim.ranking.metrics import Metric, percentiles
from dmc_optim.ranking.references import TOLERANCE, Floats, References, candidate_durations

FACTOR = 1.5  # a test is kept when its spread exceeds this many standard deviations of one measurement
MODES = ("drop", "weight", "soft", "soft_weight")

NOISE_AWARE_METRICS: dict[str, Metric] = {
    "mean_drop_noisy": Metric("28, noise-aware"),
    "mean_weighted": Metric("28, noise-aware"),
    "mean_soft": Metric("28, noise-aware"),
    "mean_soft_weighted": Metric("28, noise-aware"),
}


@dataclass(frozen=True, eq=False)
class SuiteNoise:
    """How spread and noise compare on each test. All (T,), seconds but for reliability.

    noise_s: root mean square of the known standard deviations; NaN when none is known.
    spread_s: standard deviation between references (n − 1 in the denominator); NaN below two references.
    reliability: max(0, 1 − noise² / spread²), the share of the variance between references that is not noise;
    1 where no noise is known, 0 where the spread is within the noise or unknown.
    """

    noise_s: Floats
    spread_s: Floats
    reliability: Floats

    def within_noise(self, factor: float = FACTOR) -> np.ndarray:
        """(T,) tests whose spread is at most factor × noise, or where fewer than two references exist."""
        known = ~np.isnan(self.noise_s)
        return np.isnan(self.spread_s) | (known & (self.spread_s <= factor * self.noise_s))


def suite_noise(references: References) -> SuiteNoise:
    """Spread and noise of every test.

    Raises:
        InvalidInputError: the references carry no duration_std_s.
    """
    sigma = _deviations(references)
    known = references.valid & ~np.isnan(sigma)
    n_known, n = known.sum(axis=0), references.counts
    mean = np.where(references.valid, references.durations, 0.0).sum(axis=0) / np.maximum(n, 1)
    squares = np.where(references.valid, (references.durations - mean) ** 2, 0.0).sum(axis=0)
    noise2 = np.where(known, sigma**2, 0.0).sum(axis=0) / np.maximum(n_known, 1)
    spread2 = squares / np.maximum(n - 1, 1)
    real = np.where(spread2 > 0, 1 - noise2 / np.where(spread2 > 0, spread2, 1.0), 0.0)
    reliability = np.where(n_known > 0, np.clip(real, 0.0, 1.0), 1.0)
    return SuiteNoise(
        noise_s=np.where(n_known > 0, np.sqrt(noise2), np.nan),
        spread_s=np.where(n > 1, np.sqrt(spread2), np.nan),
        reliability=np.where(n > 1, reliability, 0.0),
    )


def noise_aware_rank(
    delta: ArrayLike,
    references: References,
    mode: str,
    *,
    delta_std_s: ArrayLike | None = None,
    factor: float = FACTOR,
) -> Ranking:
    """Rank one candidate with the measurement noise taken into account.

    drop: `rank` on the tests that are not within noise. weight: `rank` with tests weighted by reliability.
    soft: p_t(y) = mean over h of Φ((δ − d̃_h) / √(σ_y² + σ_h²)), the chance that h is truly faster; one half at an exact
    tie, a step where neither side has noise; references are compared softly with each other and the candidate.
    soft_weight: soft, weighted by reliability. QP sorts by the resulting a(·) as ever.

    Args:
        delta: (T,) seconds.
        references: with duration_std_s.
        mode: one of MODES.
        delta_std_s: (T,) seconds, noise of the candidate; None takes the noise of the references on each test.
        factor: see `SuiteNoise.within_noise`.

    Raises:
        InvalidInputError: an unknown mode, no duration_std_s, shapes that do not fit.

    Source: ours, after paper C.12.
    """
    noise = suite_noise(references)
    if mode == "drop":
        return rank(delta, references, weights=~noise.within_noise(factor))
    if mode == "weight":
        return rank(delta, references, weights=noise.reliability)
    if mode not in MODES:
        raise InvalidInputError(f"unknown noise-aware mode {mode!r}; known: {', '.join(MODES)}")
    weights = noise.reliability if mode == "soft_weight" else np.ones(references.n_tests)
    seconds = candidate_durations(delta, references.n_tests)[0]
    sigma = _candidate_deviations(delta_std_s, noise, references.n_tests)
    return _soft_rank(seconds, sigma, references, np.where(references.counts > 0, weights, 0.0))


def noise_aware_metrics(
    delta: ArrayLike, references: References, *, delta_std_s: ArrayLike | None = None, factor: float = FACTOR
) -> dict[str, Floats]:
    """The mean percentile of Eq. 28 in its noise-aware forms, for K candidates, beside the 17 metrics.

    Args:
        delta: (T,) or (K, T) seconds; NaN is outside 𝒯.
        references: with duration_std_s.
        delta_std_s: (T,) or (K, T) seconds, noise of the candidates; None takes the noise of the references.
        factor: see `SuiteNoise.within_noise`.

    Returns:
        For each name of NOISE_AWARE_METRICS, (K,) from 0 to 100; NaN where no test is left.
    """
    noise = suite_noise(references)
    p = percentiles(delta, references)
    seconds = np.atleast_2d(np.asarray(delta, dtype=np.float64))
    sigma = np.broadcast_to(_candidate_deviations(delta_std_s, noise, references.n_tests), seconds.shape)
    soft = np.array([_soft_percentiles(row, s, references) for row, s in zip(seconds, sigma, strict=True)])
    soft = np.where(np.isnan(p), np.nan, 100 * soft.reshape(p.shape))
    keep = (~noise.within_noise(factor)).astype(np.float64)
    return {
        "mean_drop_noisy": _weighted_mean(p, keep),
        "mean_weighted": _weighted_mean(p, noise.reliability),
        "mean_soft": _weighted_mean(soft, np.ones(references.n_tests)),
        "mean_soft_weighted": _weighted_mean(soft, noise.reliability),
    }


def _soft_rank(seconds: Floats, sigma: Floats, references: References, weights: Floats) -> Ranking:
    counts = np.maximum(references.counts, 1)
    theirs = _filled_deviations(references)
    p = np.where(references.counts > 0, _soft_percentiles(seconds, sigma, references), np.nan)
    a_references = np.full(references.n_references, np.nan)
    for h in range(references.n_references):
        mine = references.durations[h]
        others = np.delete(references.durations, h, axis=0)
        behind = _faster(others, np.delete(theirs, h, axis=0), mine, theirs[h]).sum(axis=0)
        behind = behind + _faster(seconds, sigma, mine, theirs[h])
        own = np.where(references.valid[h], weights, 0.0)
        if own.sum() > 0:
            a_references[h] = np.where(references.valid[h], own * behind / counts, 0.0).sum() / own.sum()
    n_ranked = int((~np.isnan(a_references)).sum()) + 1
    if not weights.sum() > 0:
        return Ranking(p=p, qar=None, qp=None, position=0, n_ranked=n_ranked)
    qar = float(np.where(weights > 0, weights * np.nan_to_num(p), 0.0).sum() / weights.sum())
    position = int((a_references < qar - TOLERANCE).sum())
    return Ranking(p=p, qar=qar, qp=position / max(1, n_ranked - 1), position=position, n_ranked=n_ranked)


def _soft_percentiles(seconds: Floats, sigma: Floats, references: References) -> Floats:
    """(T,) mean chance that a reference is faster, in [0, 1]."""
    faster = _faster(references.durations, _filled_deviations(references), seconds, sigma)
    return np.asarray(faster.sum(axis=0) / np.maximum(references.counts, 1))


def _faster(first: Floats, first_std: Floats, second: Floats, second_std: Floats) -> Floats:
    """Chance that the first duration is truly below the second; 0 where either is missing."""
    gap = second - first
    std = np.sqrt(first_std**2 + second_std**2)
    step = np.where(gap > 0, 1.0, np.where(gap == 0, 0.5, 0.0))
    chance = np.where(std > 0, ndtr(gap / np.where(std > 0, std, 1.0)), step)
    return np.where(np.isnan(gap), 0.0, chance)


def _deviations(references: References) -> Floats:
    if references.duration_std_s is None:
        raise InvalidInputError("noise-aware rankings need the duration_std_s of the references")
    return references.duration_std_s


def _filled_deviations(references: References) -> Floats:
    """(H, T): an unknown deviation takes the noise of its test, and 0 where that is unknown too."""
    sigma = _deviations(references)
    return np.where(np.isnan(sigma), np.nan_to_num(suite_noise(references).noise_s), sigma)


def _candidate_deviations(std: ArrayLike | None, noise: SuiteNoise, n_tests: int) -> Floats:
    own = np.full(n_tests, np.nan) if std is None else np.asarray(std, dtype=np.float64)
    if own.shape[-1:] != (n_tests,) or np.any(own < 0):
        raise InvalidInputError(f"delta_std_s must have one value ≥ 0 for each of the {n_tests} tests; got {own.shape}")
    return np.where(np.isnan(own), np.nan_to_num(noise.noise_s), own)


def _weighted_mean(values: Floats, weights: Floats) -> Floats:
    weight = np.where(np.isnan(values), 0.0, weights)
    total = weight.sum(axis=-1)
    return np.where(total > 0, (weight * np.nan_to_num(values)).sum(axis=-1) / np.where(total > 0, total, 1.0), np.nan)
