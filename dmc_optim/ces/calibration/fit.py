"""Stored-to-fresh duration correction: four families, least squares, leave-one-problem-out (Eq. 8, Table 32)."""

from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dmc_optim.errors import InvalidInputError
from schemas.enums import CalibrationFamily

Array = NDArray[np.float64]

MIN_PROBLEMS = 2  # leaving one out must leave one in

FORMULAS = {
    CalibrationFamily.MULTIPLICATIVE: "α·d",
    CalibrationFamily.POWER_LAW: "a·d^b",
    CalibrationFamily.AFFINE: "α·d + β",
    CalibrationFamily.QUADRATIC: "γ·d² + α·d + β",
}


class Weighting(StrEnum):
    """What an error counts in a fit. The power law, fitted on logarithms, is relative in either case."""

    NONE = "none"  # seconds: long tests decide (paper C.7)
    RELATIVE = "relative"  # seconds over the stored duration: short tests count as much (ours)


@dataclass(frozen=True, eq=False)
class Pairs:
    """Pooled observations, one a (problem, test, solution) triple.

    problem: (N,) integer labels of the problems, the folds of cross-validation; stored, fresh: (N,) seconds, > 0.
    Raises InvalidInputError for other shapes, and for values that are missing, infinite or not positive.
    """

    problem: NDArray[np.int64]
    stored: Array
    fresh: Array

    def __post_init__(self) -> None:
        shapes = {np.shape(self.problem), np.shape(self.stored), np.shape(self.fresh)}
        if len(shapes) != 1 or len(np.shape(self.stored)) != 1:
            raise InvalidInputError(f"pairs need three vectors of one length, got shapes {sorted(map(str, shapes))}")
        for name, values in (("stored", self.stored), ("fresh", self.fresh)):
            bad = int(np.count_nonzero(~(np.isfinite(values) & (np.asarray(values) > 0))))
            if bad:
                raise InvalidInputError(
                    f"{bad} of {len(values)} {name} durations are missing, infinite or not positive; drop those triples"
                )

    def __len__(self) -> int:
        return len(self.stored)

    @cached_property
    def problems(self) -> NDArray[np.int64]:
        """The distinct problem labels, ascending."""
        return np.unique(self.problem)


@dataclass(frozen=True)
class Fit:
    """One fitted family and how well it predicts.

    coefficients: (α,) · (a, b) · (α, β) · (γ, α, β), highest power first, in seconds. cv_r2 and cv_rmse_s are pooled
    over all held-out predictions, in seconds whatever the weighting; an R² is None where all fresh durations are equal.
    cv_relative: median of |error| / fresh duration over the same.
    """

    family: CalibrationFamily
    coefficients: tuple[float, ...]
    train_r2: float | None
    train_rmse_s: float
    cv_r2: float | None
    cv_rmse_s: float
    cv_relative: float
    n_pairs: int
    n_problems: int
    weighting: Weighting = Weighting.NONE

    def predict(self, stored: ArrayLike) -> Array:
        """Fresh duration expected for stored ones, any shape, seconds; neither sanitised nor clamped."""
        return predict(self.family, self.coefficients, stored)


def predict(family: CalibrationFamily, coefficients: tuple[float, ...], stored: ArrayLike) -> Array:
    """d̂ for stored durations d of any shape, seconds; see FORMULAS. NaN stays NaN.

    Raises InvalidInputError when the number of coefficients is not the family's.
    """
    d = np.asarray(stored, dtype=np.float64)
    if len(coefficients) != _n_coefficients(family):
        raise InvalidInputError(
            f"{family} ({FORMULAS[family]}) has {_n_coefficients(family)} coefficients, got {len(coefficients)}"
        )
    if family is CalibrationFamily.POWER_LAW:
        a, b = coefficients
        return np.asarray(a * np.power(d, b))
    if family is CalibrationFamily.MULTIPLICATIVE:
        return np.asarray(coefficients[0] * d)
    return np.asarray(np.polyval(coefficients, d))


def fit_family(pairs: Pairs, family: CalibrationFamily, weighting: Weighting = Weighting.NONE) -> Fit:
    """Least-squares fit of one family with leave-one-problem-out cross-validation (paper C.7: unweighted).

    The power law is fitted on logarithms, the other three on seconds; errors are always in seconds.
    Raises InvalidInputError with fewer than two problems, and where the stored durations cannot determine the
    family (all equal, say), in the whole or in a fold.
    """
    blocks = _blocks(pairs, family, weighting)
    if len(blocks) < MIN_PROBLEMS:
        raise InvalidInputError(
            f"calibration needs at least {MIN_PROBLEMS} problems with usable pairs, got {len(blocks)}; "
            "sample more problems or check why their executions failed"
        )
    coefficients = _solve(list(blocks.values()), family, "the stored durations")
    held_out = predict_held_out(pairs, family, fold_coefficients(pairs, family, weighting))
    train = predict(family, coefficients, pairs.stored)
    return Fit(
        family=family,
        coefficients=coefficients,
        train_r2=r_squared(pairs.fresh, train),
        train_rmse_s=rmse(pairs.fresh, train),
        cv_r2=r_squared(pairs.fresh, held_out),
        cv_rmse_s=rmse(pairs.fresh, held_out),
        cv_relative=float(np.median(np.abs(pairs.fresh - held_out) / pairs.fresh)),
        n_pairs=len(pairs),
        n_problems=len(blocks),
        weighting=weighting,
    )


def fit_families(
    pairs: Pairs, weighting: Weighting = Weighting.NONE
) -> tuple[dict[CalibrationFamily, Fit], dict[CalibrationFamily, str]]:
    """Every family that the pairs determine, and the reason for each that they do not."""
    fits, reasons = {}, {}
    for family in CalibrationFamily:
        try:
            fits[family] = fit_family(pairs, family, weighting)
        except InvalidInputError as error:
            reasons[family] = str(error)
    return fits, reasons


def fold_coefficients(
    pairs: Pairs, family: CalibrationFamily, weighting: Weighting = Weighting.NONE
) -> dict[int, tuple[float, ...]]:
    """For each problem the coefficients fitted on all other problems. Raises as `fit_family`."""
    blocks = _blocks(pairs, family, weighting)
    return {
        held_out: _solve(
            [block for problem, block in blocks.items() if problem != held_out],
            family,
            f"the stored durations without problem {held_out}",
        )
        for held_out in blocks
    }


def predict_held_out(pairs: Pairs, family: CalibrationFamily, folds: dict[int, tuple[float, ...]]) -> Array:
    """(N,) predictions, each by the fit that has not seen the pair's problem."""
    held_out = np.empty(len(pairs))
    for problem, coefficients in folds.items():
        mine = pairs.problem == problem
        held_out[mine] = predict(family, coefficients, pairs.stored[mine])
    return held_out


def r_squared(observed: Array, predicted: Array) -> float | None:
    """1 − Σ(y − ŷ)² / Σ(y − ȳ)²; None where the observations are all equal."""
    total = float(np.sum((observed - observed.mean()) ** 2))
    spread = float(np.ptp(observed))
    if spread <= 1e-12 * max(1.0, float(np.abs(observed).max())):
        return None
    return 1.0 - float(np.sum((observed - predicted) ** 2)) / total


def rmse(observed: Array, predicted: Array) -> float:
    """Root of the mean squared error, in the unit of the arguments."""
    return float(np.sqrt(np.mean((observed - predicted) ** 2)))


def _n_coefficients(family: CalibrationFamily) -> int:
    return {CalibrationFamily.MULTIPLICATIVE: 1, CalibrationFamily.QUADRATIC: 3}.get(family, 2)


def _design(family: CalibrationFamily, stored: Array, fresh: Array, weighting: Weighting) -> Array:
    """(N, k + 1) matrix [Φ | y] whose least-squares solution gives the k coefficients."""
    ones = np.ones_like(stored)
    if family is CalibrationFamily.POWER_LAW:
        return np.column_stack([ones, np.log(stored), np.log(fresh)])
    if family is CalibrationFamily.MULTIPLICATIVE:
        columns = [stored, fresh]
    elif family is CalibrationFamily.AFFINE:
        columns = [stored, ones, fresh]
    else:
        columns = [stored**2, stored, ones, fresh]
    design = np.column_stack(columns)
    return design / stored[:, None] if weighting is Weighting.RELATIVE else design


def _blocks(pairs: Pairs, family: CalibrationFamily, weighting: Weighting) -> dict[int, Array]:
    """Problem → triangular factor of its [Φ | y].

    Stacked factors have the least-squares solution of the stacked rows, so that a fold costs a few dozen rows
    instead of a million, without the squared condition number of normal equations.
    """
    design = _design(family, np.asarray(pairs.stored, float), np.asarray(pairs.fresh, float), weighting)
    return {int(p): np.asarray(np.linalg.qr(design[pairs.problem == p], mode="r")) for p in pairs.problems}


def _solve(blocks: list[Array], family: CalibrationFamily, what: str) -> tuple[float, ...]:
    stacked = np.vstack(blocks)
    phi, y = stacked[:, :-1], stacked[:, -1]
    scale = np.linalg.norm(phi, axis=0)
    k = phi.shape[1]
    solution, _, rank, _ = np.linalg.lstsq(phi / scale, y, rcond=1e-10)
    if rank < k:
        raise InvalidInputError(
            f"{family} ({FORMULAS[family]}) is not determined: {what} take too few distinct values; "
            "use tests of different lengths, or the multiplicative family"
        )
    values = solution / scale
    if family is CalibrationFamily.POWER_LAW:
        return float(np.exp(values[0])), float(values[1])
    return tuple(float(value) for value in values)
