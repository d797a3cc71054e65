"""Has the service's speed changed? Slope, offset and tail of sentinel readings against a stored baseline (C.12).

A reading holds several timings of each sentinel. Against the baseline's centre c_i of snippet i, the reading's
medians follow m_i = α·c_i + β: α moves when everything gets slower in proportion, β when every run costs more. The
tail statistic moves when single runs straggle although medians stay. What counts as a move is learnt from the baseline
readings themselves, so that a noisy host needs a larger one.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dmc_optim.errors import InvalidInputError

Reading = Mapping[str, Sequence[float]]
"""Snippet → durations in seconds, one a repetition."""

PRIOR_READINGS = 8  # how many readings' weight the suite's common spread has in a snippet's own

STATISTICS = ("slope", "offset_s", "tail")


@dataclass(frozen=True, slots=True)
class Rule:
    """When a reading is called shifted.

    false_alarm: chance that one reading of an unchanged service looks shifted in any of the three statistics. The
    minima are the smallest changes worth a new epoch however certain they are: 3% of slope, 1 ms of offset, 0.15 in the
    log of (90th percentile / median). min_readings: readings a baseline needs before anything is judged.
    """

    false_alarm: float = 0.01
    min_slope: float = 0.03
    min_offset_s: float = 0.001
    min_tail: float = 0.15
    min_readings: int = 5


@dataclass(frozen=True, slots=True)
class Move:
    """One statistic: its value in the reading, the baseline's mean, and the distance beyond which it is a shift."""

    value: float
    expected: float
    limit: float

    @property
    def shifted(self) -> bool:
        """Whether the value lies outside the limit."""
        return abs(self.value - self.expected) > self.limit


@dataclass(frozen=True, slots=True)
class ShiftReport:
    """slope: unitless (1 = unchanged) · offset_s: seconds · tail: mean log ratio of 90th percentile to median."""

    slope: Move
    offset_s: Move
    tail: Move

    @property
    def shifted(self) -> tuple[str, ...]:
        """Names of the statistics that moved."""
        return tuple(name for name in STATISTICS if getattr(self, name).shifted)


def detect(baseline: Sequence[Reading], reading: Reading, rule: Rule | None = None) -> ShiftReport | None:
    """Compare a reading with the baseline; None while the baseline is too short to judge.

    A statistic is shifted when it leaves the Student prediction interval of the baseline's values (level
    false_alarm / 3 each, two-sided) and moves by at least the rule's minimum. Raises InvalidInputError when the
    snippets differ between readings or a duration is not finite and positive.
    """
    rule = rule or Rule()
    names = _snippets([*baseline, reading])
    if len(baseline) < rule.min_readings:
        return None
    medians = np.array([[np.median(r[name]) for name in names] for r in baseline])
    known = np.array([_leave_one_out(medians, k) for k in range(len(baseline))])
    slope_offset = _slope_offset(medians, np.array([np.median(reading[name]) for name in names]))
    values = np.array([*slope_offset, _tail(reading, names)])
    history = np.column_stack([known, [_tail(r, names) for r in baseline]])
    limits = _limits(history, rule)
    moves = [Move(float(v), float(h.mean()), limit) for v, h, limit in zip(values, history.T, limits, strict=True)]
    return ShiftReport(*moves)


def _limits(history: NDArray[np.float64], rule: Rule) -> list[float]:
    """Half-widths of the prediction intervals; history: (K, 3) values of the statistics in the baseline."""
    from scipy import stats

    k = len(history)
    quantile = float(stats.t.ppf(1 - rule.false_alarm / (2 * len(STATISTICS)), k - 1))
    spread = history.std(axis=0, ddof=1) * quantile * np.sqrt(1 + 1 / k)
    minima = (rule.min_slope, rule.min_offset_s, rule.min_tail)
    return [max(float(width), minimum) for width, minimum in zip(spread, minima, strict=True)]


def _slope_offset(baseline: NDArray[np.float64], medians: NDArray[np.float64]) -> tuple[float, float]:
    """(α, β) of medians = α·centre + β, weighted by how steady each snippet is. baseline: (K, n); medians: (n,)."""
    centre = np.median(baseline, axis=0)
    k = len(baseline)
    relative = baseline.var(axis=0, ddof=1) / centre**2
    # A snippet's own spread over few readings is half luck: it is drawn towards that of all snippets, and never below
    # half a percent, or the luckiest snippet would take all the weight.
    shrunk = ((k - 1) * relative + PRIOR_READINGS * np.median(relative)) / (k - 1 + PRIOR_READINGS)
    sigma = np.maximum(np.sqrt(shrunk), 0.005) * centre
    design = np.column_stack([centre, np.ones_like(centre)]) / sigma[:, None]
    alpha, beta = np.linalg.lstsq(design, medians / sigma, rcond=None)[0]
    return float(alpha), float(beta)


def _leave_one_out(medians: NDArray[np.float64], k: int) -> tuple[float, float]:
    return _slope_offset(np.delete(medians, k, axis=0), medians[k])


def _tail(reading: Reading, names: Sequence[str]) -> float:
    """Mean over snippets of log(90th percentile / median)."""
    ratios = [np.log(np.percentile(reading[name], 90) / np.median(reading[name])) for name in names]
    return float(np.mean(ratios))


def _snippets(readings: Sequence[Reading]) -> tuple[str, ...]:
    names = tuple(sorted(readings[-1]))
    if len(names) < 2:
        raise InvalidInputError(f"slope and offset need at least 2 sentinels, got {len(names)}")
    for reading in readings:
        if tuple(sorted(reading)) != names:
            raise InvalidInputError(f"readings of different suites: {sorted(reading)} and {list(names)}")
        for name, durations in reading.items():
            values = np.asarray(durations, dtype=np.float64)
            if not values.size or not np.all(np.isfinite(values) & (values > 0)):
                raise InvalidInputError(f"sentinel {name} has a duration that is missing or not positive")
    return names
