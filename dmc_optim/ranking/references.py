"""Reference durations of one problem: sanitising, calibration and what every ranking shares (paper Eq. 10)."""

from collections.abc import Callable
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dmc_optim.errors import InvalidInputError

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Calibration = tuple[float, float] | Callable[[Floats], Floats] | None

CAP_S = 10.0  # the service cap: no stored or live execution lasts longer
TOLERANCE = 1e-12  # computed averages closer than this are equal


class References:
    r"""Sanitised durations d̃ of the reference solutions of one problem.

    Eq. 10:  ψ(d) = d if d > 0 else 10;  d̃ = min(10, max(0, Γ(ψ(d)))).  A NaN cell is missing and enters no D_t;
    +inf is not a measurement and is treated like d ≤ 0.

    Args:
        durations: (H, T) seconds, one row a reference solution, one column an optimization test. Rows in order of
            solution_id and columns in order of test_id: ties that the definitions break by identifier are broken
            by position. H = 0 and T = 0 are allowed.
        calibration: Γ. None for the identity, (α, β) for α·d + β, or any elementwise function of seconds (the
            polynomial families of Table 39).
        duration_std_s: (H, T) seconds, standard deviation of each stored duration over repetitions, for the
            noise-aware rankings; scaled by α under an affine Γ. NaN is unknown.

    Raises:
        InvalidInputError: wrong rank or shape, a calibration that is not finite or decreasing, a negative deviation.

    Source: paper Appendix D.2, Eq. 10.
    """

    def __init__(
        self, durations: ArrayLike, calibration: Calibration = None, *, duration_std_s: ArrayLike | None = None
    ) -> None:
        raw = np.array(durations, dtype=np.float64)
        if raw.ndim != 2:
            raise InvalidInputError(
                f"reference durations must be a (references, tests) table; got an array of shape {raw.shape}"
            )
        self.calibration = calibration
        self.stored = _psi(raw)
        self.durations = np.clip(_gamma(calibration)(self.stored), 0.0, CAP_S)
        self.valid: Bools = ~np.isnan(raw)
        self.duration_std_s = None if duration_std_s is None else _deviations(duration_std_s, raw.shape, calibration)
        for array in (self.stored, self.durations, self.valid):
            array.setflags(write=False)

    @classmethod
    def empty(cls, n_tests: int) -> "References":
        """No reference at all for a problem of n_tests optimization tests: nothing can be ranked."""
        return cls(np.empty((0, n_tests)))

    @property
    def n_references(self) -> int:
        """H, rows of the table."""
        return int(self.durations.shape[0])

    @property
    def n_tests(self) -> int:
        """T, columns of the table."""
        return int(self.durations.shape[1])

    @cached_property
    def counts(self) -> Ints:
        """|D_t|, (T,): references with a duration on each test."""
        return np.asarray(self.valid.sum(axis=0), dtype=np.int64)

    @cached_property
    def order(self) -> Ints:
        """(H, T): row at each place of a column sorted from fastest to slowest; missing cells last."""
        return np.argsort(self.durations, axis=0, kind="stable")

    @cached_property
    def sorted(self) -> Floats:
        """(H, T) d̃, each column ascending, missing cells last."""
        return np.take_along_axis(self.durations, self.order, axis=0)

    @cached_property
    def place(self) -> Ints:
        """(H, T): place of each cell in its sorted column, the inverse of `order`."""
        place = np.empty_like(self.order)
        np.put_along_axis(place, self.order, np.arange(self.n_references)[:, None], axis=0)
        return place

    @cached_property
    def faster(self) -> Floats:
        """(H, T): number of references strictly faster than this one on the test; 0 where it is missing."""
        ascending = self.sorted
        first = np.ones(ascending.shape, dtype=bool)
        first[1:] = ascending[1:] != ascending[:-1]
        start = np.maximum.accumulate(np.where(first, np.arange(self.n_references)[:, None], 0), axis=0)
        faster = np.empty(ascending.shape)
        np.put_along_axis(faster, self.order, start, axis=0)
        faster[~self.valid] = 0.0
        return faster

    @cached_property
    def total(self) -> Floats:
        """(T,) Σ D_t in seconds, added in ascending order so that equal multisets have equal sums."""
        return np.asarray(np.where(np.isnan(self.sorted), 0.0, self.sorted).sum(axis=0))

    @cached_property
    def uncalibrated(self) -> "References":
        """The same references with ψ but without Γ: the stored durations of Eq. 31."""
        return self if self.calibration is None else References(np.where(self.valid, self.stored, np.nan))

    @cached_property
    def valid_columns(self) -> Floats:
        """(T, H) one where a reference has a duration, as floats ready for a matrix product."""
        return np.ascontiguousarray(self.valid.T, dtype=np.float64)


def candidate_durations(delta: ArrayLike, n_tests: int) -> Floats:
    """Durations of K candidates as (K, T); a missing one (NaN, +inf) takes the cap, others are never transformed.

    Args:
        delta: (T,) or (K, T) seconds.
        n_tests: T.

    Raises:
        InvalidInputError: another shape, or a negative duration.
    """
    array = np.asarray(delta, dtype=np.float64)
    if array.ndim == 1:
        array = array[None]
    if array.ndim != 2 or array.shape[1] != n_tests:
        raise InvalidInputError(
            f"candidate durations must have one value for each of the {n_tests} tests; got shape {np.shape(delta)}"
        )
    if np.any(array < 0):
        raise InvalidInputError("candidate durations must not be negative; mark a missing one as NaN")
    return np.where(np.isfinite(array), array, CAP_S)


def _psi(raw: Floats) -> Floats:
    unusable = (raw <= 0) | np.isposinf(raw)  # NaN compares false and stays NaN
    return np.where(unusable, CAP_S, raw)


def _gamma(calibration: Calibration) -> Callable[[Floats], Floats]:
    if calibration is None:
        return lambda seconds: seconds
    if callable(calibration):
        return calibration
    if len(calibration) != 2 or not np.all(np.isfinite(calibration)):
        raise InvalidInputError(f"calibration must be two finite numbers (alpha, beta); got {calibration!r}")
    alpha, beta = (float(value) for value in calibration)
    if alpha < 0:
        raise InvalidInputError(f"calibration slope must not be negative, it would reverse every order; got {alpha}")
    return lambda seconds: alpha * seconds + beta


def _deviations(std: ArrayLike, shape: tuple[int, ...], calibration: Calibration) -> Floats:
    deviations = np.array(std, dtype=np.float64)
    if deviations.shape != shape:
        raise InvalidInputError(f"duration_std_s must have the shape of the durations {shape}; got {deviations.shape}")
    if np.any(deviations < 0):
        raise InvalidInputError("duration_std_s must not be negative")
    scale = calibration[0] if isinstance(calibration, tuple | list) else 1.0
    return deviations * scale
