"""Maps of the graded signal q to credit (paper D.4, Eqs. 34-36)."""

from collections.abc import Callable
from typing import Any

import numpy as np


def bucketed(q: Any) -> Any:
    """m_bucket(q) = 1 if q = 0 else max(0, 0.9 − 0.1·⌊10(q − 10⁻⁶)⌋)."""
    q = np.asarray(q, dtype=np.float64)
    return np.where(q == 0, 1.0, np.maximum(0.0, 0.9 - 0.1 * np.floor(10 * (q - 1e-6))))


def linear(q: Any) -> Any:
    """m_linear(q) = 1 − q."""
    return 1 - np.asarray(q, dtype=np.float64)


def range_1_3(q: Any) -> Any:
    """m_[1/3, 1](q) = 1/3 + 2/3·(1 − q) (Eq. 35)."""
    return _compressed(q, 1 / 3)


def range_1_2(q: Any) -> Any:
    """m_[1/2, 1](q) = 1/2 + 1/2·(1 − q) (Eq. 35)."""
    return _compressed(q, 1 / 2)


def signed(z: Any) -> Any:
    """m_signed(z) = 2z − 1, from [0, 1] to [−1, 1] (Eq. 36)."""
    return 2 * np.asarray(z, dtype=np.float64) - 1


def _compressed(q: Any, low: float) -> Any:
    return low + (1 - low) * (1 - np.asarray(q, dtype=np.float64))


MAPS: dict[str, Callable[[Any], Any]] = {
    "bucketed": bucketed,
    "linear": linear,
    "range_1_3": range_1_3,
    "range_1_2": range_1_2,
}
BINARY = "binary"
