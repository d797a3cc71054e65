"""pass@k without overflow (paper Section 4)."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dmc_optim.errors import InvalidInputError


def pass_at_k(n: ArrayLike, m: ArrayLike, k: ArrayLike) -> Any:
    r"""Unbiased estimate of the chance that one of k samples passes: 1 − C(n − m, k) / C(n, k).

    The quotient is the product over j = 0 … k−1 of (n − m − j) / (n − j), which never leaves [0, 1].

    Args:
        n: samples drawn; scalars or arrays that broadcast together, whole numbers.
        m: samples that pass, 0 ≤ m ≤ n.
        k: samples looked at, 1 ≤ k ≤ n.

    Returns:
        A float for scalars, else an array.

    Raises:
        InvalidInputError: counts that are not whole, m outside [0, n], k outside [1, n].
    """
    n, m, k = np.broadcast_arrays(*(_whole(value, name) for value, name in ((n, "n"), (m, "m"), (k, "k"))))
    if np.any(m < 0) or np.any(m > n):
        raise InvalidInputError("pass@k needs 0 <= m <= n: no more samples can pass than were drawn")
    if np.any(k < 1) or np.any(k > n):
        raise InvalidInputError("pass@k needs 1 <= k <= n: draw at least k samples a problem")
    none_pass = np.ones(n.shape)
    for j in range(int(k.max(initial=0))):
        counts = j < k  # the product of an entry ends at its own k
        factor = np.maximum(n - m - j, 0) / np.where(counts, n - j, 1)
        none_pass = np.where(counts, none_pass * factor, none_pass)
    result = 1.0 - none_pass
    return float(result) if result.ndim == 0 else result


def _whole(value: ArrayLike, name: str) -> NDArray[np.int64]:
    array = np.asarray(value)
    if not np.issubdtype(array.dtype, np.number) or np.any(array != np.floor(array)) or not np.all(np.isfinite(array)):
        raise InvalidInputError(f"pass@k needs whole numbers; {name} is {value!r}")
    return array.astype(np.int64)
