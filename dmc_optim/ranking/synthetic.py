"""Pools of reference durations with known answers, for tests and benchmarks."""

from dataclasses import dataclass

import numpy as np

from dmc_optim.errors import InvalidInputError
from dmc_optim.ranking.references import CAP_S, Bools, Calibration, Floats, Ints, References


@dataclass(frozen=True, eq=False)
class SyntheticPool:
    """A problem whose true speed order is planted.

    stored_s: (H, T) durations as a campaign would have stored them: noisy, cut at the cap, with missing cells NaN.
    true_s: (H, T) work × slowness, without noise, cap or missing cells.
    duration_std_s: (H, T) standard deviation of the noise of each cell.
    slowness: (H,) planted multiplier of each reference; work_s: (T,) planted cost of each test.
    order: (H,) rows from fastest to slowest by slowness. censored, missing: (H, T). chars: (T,) input + output length.
    """

    stored_s: Floats
    true_s: Floats
    duration_std_s: Floats
    slowness: Floats
    work_s: Floats
    order: Ints
    censored: Bools
    missing: Bools
    chars: Ints

    def references(self, calibration: Calibration = None) -> References:
        """The stored table as references."""
        return References(self.stored_s, calibration, duration_std_s=self.duration_std_s)

    def candidate(self, slowness: float) -> Floats:
        """(T,) true seconds of a program with that multiplier, cut at the cap."""
        return np.minimum(self.work_s * slowness, CAP_S)

    def faster_than(self, slowness: float) -> int:
        """References with a strictly smaller multiplier: position and percentile × H where nothing is lost."""
        return int((self.slowness < slowness).sum())


def synthetic_pool(
    seed: int,
    n_references: int,
    n_tests: int,
    *,
    noise: float = 0.0,
    floor_s: float = 0.0,
    missing: float = 0.0,
    median_work_s: float = 0.2,
    work_spread: float = 1.2,
    slowness_spread: float = 0.6,
) -> SyntheticPool:
    """Draw a pool d = work_t · slowness_h · (1 + noise·ε) + floor_s·ε′.

    With noise = floor_s = missing = 0 and no censored cell, a program of multiplier s has, on every test,
    p_t = #{h : slowness_h < s} / H, so QAR = QP = that share: the known answer.

    Args:
        seed: the same seed gives the same pool.
        n_references: H.
        n_tests: T.
        noise: relative standard deviation of one measurement.
        floor_s: absolute standard deviation of one measurement, seconds.
        missing: chance that a cell is missing.
        median_work_s: median cost of a test for a program of multiplier 1, seconds.
        work_spread: standard deviation of the logarithm of costs; large values push slow tests to the 10 s cap.
        slowness_spread: standard deviation of the logarithm of multipliers.

    Raises:
        InvalidInputError: negative sizes or spreads, a chance outside [0, 1].
    """
    scales = (n_references, n_tests, noise, floor_s, median_work_s, work_spread, slowness_spread)
    if min(scales) < 0 or not 0 <= missing <= 1:
        raise InvalidInputError("synthetic pools need sizes and spreads ≥ 0 and a missing share within [0, 1]")
    rng = np.random.default_rng(seed)
    work = median_work_s * rng.lognormal(0.0, work_spread, n_tests)
    slowness = rng.lognormal(0.0, slowness_spread, n_references)
    true = work * slowness[:, None]
    deviation = np.hypot(noise * true, floor_s)
    measured = np.maximum(true + deviation * rng.standard_normal(true.shape), 1e-4)  # the service reports no less
    lost = rng.random(true.shape) < missing
    censored = (measured >= CAP_S) & ~lost
    chars = np.rint(np.clip(1e4 * work * rng.lognormal(0.0, 0.3, n_tests), 2, 1e8)).astype(np.int64)
    return SyntheticPool(
        stored_s=np.where(lost, np.nan, np.minimum(measured, CAP_S)),
        true_s=true,
        duration_std_s=deviation,
        slowness=slowness,
        work_s=work,
        order=np.argsort(slowness, kind="stable"),
        censored=censored,
        missing=lost,
        chars=chars,
    )
