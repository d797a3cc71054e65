"""Diagnostics of a simulated pass-rate curve: AUC, steepness, variance, deviation, quality correlation (paper E.2)."""

from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dmc_optim.errors import InvalidInputError
from dmc_optim.simulator.clipped_fit import fit_clipped_lines

Floats = NDArray[np.float64]

NAMES = ("auc_raw", "auc_smooth", "steepness", "variance", "deviation", "quality_raw", "quality_smooth")

_TIE_DECIMALS = 12  # window sums of equal values in another order are one value, not two ranks


@dataclass(frozen=True)
class Diagnostics:
    """What one curve looks like. `quality_*` is None for a constant curve: nothing is ordered, which is not 0."""

    auc_raw: float
    auc_smooth: float
    steepness: float
    variance: float
    deviation: float
    quality_raw: float | None
    quality_smooth: float | None

    def as_dict(self) -> dict[str, float | None]:
        """Field name → value, in the order of `NAMES`."""
        return asdict(self)


@dataclass(frozen=True)
class DiagnosticsTable:
    """Diagnostics of C curves as columns (C,); NaN in `quality_*` marks a constant curve."""

    auc_raw: Floats
    auc_smooth: Floats
    steepness: Floats
    variance: Floats
    deviation: Floats
    quality_raw: Floats
    quality_smooth: Floats
    fit_slope: Floats
    fit_intercept: Floats

    def row(self, index: int) -> Diagnostics:
        """The diagnostics of one curve."""
        values = {name: float(getattr(self, name)[index]) for name in NAMES}
        return Diagnostics(**{name: None if np.isnan(value) else value for name, value in values.items()})  # type: ignore[arg-type]


def diagnostics(curve: ArrayLike, window: int) -> Diagnostics:
    """Diagnostics of one simulated run.

    With c_i the pass rate at x_i = i / (n − 1), c̃ its moving average over `window` = w points and m = n − w + 1:

        AUC = mean of c (raw), of c̃ (smooth)        V = (1/m) Σ (c_{i+w−1} − c̃_i)²        D = (1/n) Σ |c_i − x_i|
        S = a / (1 + |a|), a the slope of the best clip(a·x + b, 0, 1), smallest |a| among minimisers
        Q = Spearman(x, c) (raw), Spearman(x, c̃) (smooth); None when constant

    curve: (n,) values in [0, 1], n ≥ 2. Raises `InvalidInputError` for another shape or range, or a window outside
    1..n. Source: paper E.2.
    """
    values = np.asarray(curve, dtype=np.float64)
    if values.ndim != 1:
        raise InvalidInputError(f"a curve is one-dimensional; got shape {values.shape}")
    return diagnose(values[None, :], window).row(0)


def diagnose(curves: ArrayLike, window: int) -> DiagnosticsTable:
    """Diagnostics of many runs at once; the rule is that of `diagnostics`.

    curves: (C, n) values in [0, 1], n ≥ 2. Returns columns of length C. Equal curves are solved once.
    """
    values = _checked(np.asarray(curves, dtype=np.float64), window)
    unique, inverse = np.unique(values, axis=0, return_inverse=True)
    n = unique.shape[1]
    x = np.arange(n) / (n - 1)
    smooth = smoothed(unique, window)
    slope, intercept = fit_clipped_lines(unique)
    columns = {
        "auc_raw": unique.mean(axis=1),
        "auc_smooth": smooth.mean(axis=1),
        "steepness": slope / (1.0 + np.abs(slope)),
        "variance": np.square(unique[:, window - 1 :] - smooth).mean(axis=1),
        "deviation": np.abs(unique - x).mean(axis=1),
        "quality_raw": _spearman_with_index(unique),
        "quality_smooth": _spearman_with_index(smooth),
        "fit_slope": slope,
        "fit_intercept": intercept,
    }
    inverse = inverse.reshape(-1)
    return DiagnosticsTable(**{name: column[inverse] for name, column in columns.items()})


def smoothed(curves: Floats, window: int) -> Floats:
    """Moving average over `window` consecutive steps: (C, n) → (C, n − window + 1)."""
    # Windows are summed separately: a running sum would leave rounding that a flat curve must not have.
    return np.lib.stride_tricks.sliding_window_view(curves, window, axis=1).mean(axis=2)


def _checked(curves: Floats, window: int) -> Floats:
    if curves.ndim != 2 or curves.shape[1] < 2:
        raise InvalidInputError(f"curves need two steps or more, as (curves, steps); got shape {curves.shape}")
    if not 1 <= window <= curves.shape[1]:
        raise InvalidInputError(f"window {window} does not fit a curve of {curves.shape[1]} steps")
    if np.isnan(curves).any() or (curves < 0).any() or (curves > 1).any():
        raise InvalidInputError("pass rates lie in [0, 1] and are never missing")
    return curves


def _spearman_with_index(curves: Floats) -> Floats:
    """Spearman correlation of each row with its index; NaN for a constant row. (C, n) → (C,)."""
    from scipy.stats import rankdata  # here: a second that workers of a sweep need not wait

    if curves.shape[1] < 2:
        return np.full(len(curves), np.nan)
    rounded = np.round(curves, _TIE_DECIMALS)
    ranks = rankdata(rounded, axis=1) if len(curves) else rounded
    centred = ranks - ranks.mean(axis=1, keepdims=True)
    index = np.arange(curves.shape[1]) - (curves.shape[1] - 1) / 2
    with np.errstate(invalid="ignore", divide="ignore"):
        rho = centred @ index / np.sqrt(np.square(centred).sum(axis=1) * np.square(index).sum())
    return np.where(np.ptp(rounded, axis=1) == 0, np.nan, rho)
