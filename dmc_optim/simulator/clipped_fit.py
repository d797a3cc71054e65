"""Least-squares fit of ``clip(a·x + b, 0, 1)`` to curves (paper Appendix E.2, the fit behind steepness).

The objective is piecewise quadratic in (a, b). A point that crosses 0 or 1 changes its share of the gradient by a
non-positive jump along the crossing, so a kink never holds a minimum: every minimiser is a stationary point of the
quadratic that belongs to its own split of the points into low (clamped to 0), middle and high (clamped to 1). There
are O(n²) splits for each sign of the slope, and each has a closed form:

    middle of two points or more   ordinary least squares on the middle, kept when it induces that very split
    middle of one point            a line of solutions through that point; the smallest slope is taken
    empty middle                   a step; the smallest slope that realises it is one over the gap

Enumerating them gives the global minimum, not a local one, and among equal minima the smallest |a|.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]

_CONSISTENT = 1e-9  # slack when asking whether a fit induces its own split
_SHORTLIST = 1e-9  # losses from prefix sums this close to the best are recomputed directly
_TIE = 1e-13  # directly computed losses this close are one minimum
_CHUNK = 32  # curves per block: 64 rows × 5,050 splits of 101 points stay near the cache
_FIELDS = ("loss", "slope", "intercept", "low", "high")


@dataclass(frozen=True)
class _Candidates:
    """Stationary points of rising fits: per curve and split (C, K), and the middle [low, high) of each split (K,)."""

    loss: Floats  # inf where the line does not induce its split
    slope: Floats
    intercept: Floats
    low: Indices
    high: Indices


def fit_clipped_lines(curves: Floats) -> tuple[Floats, Floats]:
    """Slope and intercept of the best clipped line for each curve.

    ``min_{a, b} Σ_i (clip(a·x_i + b, 0, 1) − c_i)²`` with ``x_i = i / (n − 1)``.

    curves: (C, n), values in [0, 1], n ≥ 2. Returns a (C,), b (C,). Among minimisers the smallest |a| is returned.
    Source: paper E.2; the tie rule is ours.
    """
    n_curves, _ = curves.shape
    slope, intercept = np.zeros(n_curves), np.zeros(n_curves)
    for start in range(0, n_curves, _CHUNK):
        block = slice(start, start + _CHUNK)
        slope[block], intercept[block] = _fit_block(curves[block])
    return slope, intercept


def _fit_block(curves: Floats) -> tuple[Floats, Floats]:
    n_curves, n = curves.shape
    x = np.arange(n) / (n - 1)
    # x is symmetric, so a falling fit is a rising one of the reversed curve: rows C.. are the reversed curves.
    both = np.concatenate([curves, curves[:, ::-1]])
    found = _rising_candidates(x, both)
    lowest = found.loss.min(axis=1).reshape(2, n_curves).min(axis=0)
    row, column = np.nonzero(found.loss <= np.tile(lowest, 2)[:, None] + _SHORTLIST)
    owner = row % n_curves
    varied = np.ptp(curves, axis=1)[owner] > 0
    row, column, owner = row[varied], column[varied], owner[varied]

    a, b = _polished(x, both[row], found, row, column)
    loss = np.square(np.clip(a[:, None] * x + b[:, None], 0.0, 1.0) - both[row]).sum(axis=1)
    best = np.full(n_curves, np.inf)
    np.minimum.at(best, owner, loss)
    tied = loss <= best[owner] + _TIE
    row, owner, a, b = row[tied], owner[tied], a[tied], b[tied]
    order = np.lexsort((a, owner))
    first = order[np.unique(owner[order], return_index=True)[1]]
    falling = row[first] >= n_curves

    slope, intercept = np.zeros(n_curves), curves[:, 0].copy()  # right for a constant curve
    slope[owner[first]] = np.where(falling, -a[first], a[first])
    intercept[owner[first]] = np.where(falling, a[first] + b[first], b[first])
    return slope, intercept


def _polished(x: Floats, curves: Floats, found: _Candidates, row: Indices, column: Indices) -> tuple[Floats, Floats]:
    """Slopes and intercepts of the shortlist, least squares recomputed on centred points (prefix sums cancel)."""
    low, high = found.low[column, None], found.high[column, None]
    middle = (np.arange(len(x)) >= low) & (np.arange(len(x)) < high)
    many = middle.sum(axis=1) >= 2
    size = np.maximum(middle.sum(axis=1), 1)
    mean_x, mean_c = (middle * x).sum(axis=1) / size, (middle * curves).sum(axis=1) / size
    centred = np.where(middle, x - mean_x[:, None], 0.0)
    spread = np.where(many, np.square(centred).sum(axis=1), 1.0)
    slope = np.where(many, (centred * (curves - mean_c[:, None])).sum(axis=1) / spread, found.slope[row, column])
    return slope, np.where(many, mean_c - slope * mean_x, found.intercept[row, column])


def _rising_candidates(x: Floats, curves: Floats) -> _Candidates:
    parts = [_middle_of_many(x, curves), _middle_of_one(x, curves), _empty_middle(x, curves)]
    joined = {name: np.concatenate([getattr(part, name) for part in parts], axis=-1) for name in _FIELDS}
    return _Candidates(**joined)


def _prefix(values: Floats) -> Floats:
    """Prefix sums along the last axis with a leading zero: (..., n) → (..., n + 1)."""
    return np.concatenate([np.zeros((*values.shape[:-1], 1)), np.cumsum(values, axis=-1)], axis=-1)


def _clamped_loss(curves: Floats, low: Indices, high: Indices) -> Floats:
    """Loss of the points before `low` (predicted 0) and from `high` on (predicted 1): (C, len(low))."""
    below, above = _prefix(np.square(curves)), _prefix(np.square(1.0 - curves))
    return below[:, low] + above[:, -1:] - above[:, high]


def _middle_of_many(x: Floats, curves: Floats) -> _Candidates:
    n = len(x)
    low, high = np.triu_indices(n + 1, k=2)  # the middle is [low, high)
    size = high - low
    total_x, total_xx = _prefix(x), _prefix(np.square(x))
    mean_x = (total_x[high] - total_x[low]) / size
    var_x = (total_xx[high] - total_xx[low]) - size * np.square(mean_x)

    total_c, total_cc, total_xc = _prefix(curves), _prefix(np.square(curves)), _prefix(curves * x)
    sum_c = total_c[:, high] - total_c[:, low]
    mean_c = sum_c / size
    covariance = total_xc[:, high] - total_xc[:, low] - mean_x * sum_c
    slope = covariance / var_x
    intercept = mean_c - slope * mean_x
    residual = total_cc[:, high] - total_cc[:, low] - mean_c * sum_c - slope * covariance

    at = [slope * x[index] + intercept for index in (np.maximum(low - 1, 0), low, high - 1, np.minimum(high, n - 1))]
    valid = (at[1] >= -_CONSISTENT) & (at[2] <= 1 + _CONSISTENT) & (slope >= 0)
    valid &= (low == 0) | (at[0] <= _CONSISTENT)
    valid &= (high == n) | (at[3] >= 1 - _CONSISTENT)
    loss = np.where(valid, residual + _clamped_loss(curves, low, high), np.inf)
    return _Candidates(loss, slope, intercept, low, high)


def _middle_of_one(x: Floats, curves: Floats) -> _Candidates:
    n = len(x)
    middle = np.arange(n)
    gap = 1.0 / (n - 1)
    to_zero = np.where(middle > 0, curves / gap, 0.0)
    to_one = np.where(middle < n - 1, (1.0 - curves) / gap, 0.0)
    slope = np.maximum(to_zero, to_one)
    return _Candidates(_clamped_loss(curves, middle, middle + 1), slope, curves - slope * x, middle, middle + 1)


def _empty_middle(x: Floats, curves: Floats) -> _Candidates:
    n = len(x)
    first_high = np.arange(n + 1)
    slope = np.where((first_high > 0) & (first_high < n), float(n - 1), 0.0)
    intercept = np.where(first_high == 0, 1.0, -slope * x[np.maximum(first_high - 1, 0)])
    shape = (len(curves), n + 1)
    loss = _clamped_loss(curves, first_high, first_high)
    return _Candidates(loss, np.broadcast_to(slope, shape), np.broadcast_to(intercept, shape), first_high, first_high)
