"""Raw-duration baselines: seconds straight into the reward (paper D.5, Eq. 37)."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dmc_optim.errors import InvalidInputError
from dmc_optim.ranking import CAP_S


def naive(c_cor: Any, mean_s: Any, how: str) -> Any:
    """R = c_cor + m(d̄_s) − 1 (Eq. 37); a wrong but instant program comes close to 0, which is the flaw shown.

    m_lin(d̄) = clip(1 − d̄/10, 0, 1);  m_log(d̄) = clip((1 − log₁₀ max(d̄, 10⁻⁶))/3, 0, 1).

    Args:
        c_cor: 0 or 1, scalar or array.
        mean_s: d̄_s in seconds, as `mean_duration` gives it; NaN (no test at all) takes the limit.
        how: "linear" or "log".

    Raises:
        InvalidInputError: an unknown map, or a negative duration.
    """
    seconds = np.asarray(mean_s, dtype=np.float64)
    if np.any(seconds < 0):
        raise InvalidInputError("a mean duration cannot be negative")
    seconds = np.where(np.isnan(seconds), CAP_S, seconds)
    if how == "linear":
        credit = np.clip(1 - seconds / CAP_S, 0, 1)
    elif how == "log":
        credit = np.clip((1 - np.log10(np.maximum(seconds, 1e-6))) / 3, 0, 1)
    else:
        raise InvalidInputError(f"naive rewards map seconds by linear or log; got {how!r}")
    reward = np.asarray(np.asarray(c_cor, dtype=np.float64) + credit - 1)
    return float(reward) if reward.ndim == 0 else reward


def mean_duration(duration_s: ArrayLike, timed_out: ArrayLike, limit_s: float = CAP_S) -> Any:
    """d̄_s: mean over the tests of one source; time-outs, missing and non-positive durations count as the limit.

    Args:
        duration_s: (..., n) seconds on the tests of the source; NaN missing. The base source is T_0 without T_+.
        timed_out: (..., n) which of them timed out.
        limit_s: effective limit of the source, also the value of an empty source.

    Returns:
        (...) seconds.
    """
    seconds = np.asarray(duration_s, dtype=np.float64)
    if seconds.shape != np.shape(timed_out):
        raise InvalidInputError(f"durations {seconds.shape} and time-outs {np.shape(timed_out)} differ in shape")
    measured = ~np.asarray(timed_out, dtype=bool) & (seconds > 0) & np.isfinite(seconds)
    if seconds.shape[-1] == 0:
        return np.full(seconds.shape[:-1], limit_s)[()]
    return np.where(measured, seconds, limit_s).mean(axis=-1)
