"""Corrected durations at load time: stored durations in the present service's time (paper Eq. 8, Eq. 10)."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike

from dmc_optim.artifacts.layout import Layout
from dmc_optim.ces.calibration.fit import Array, predict
from dmc_optim.errors import ArtifactError, InvalidInputError
from dmc_optim.ranking import References
from schemas.enums import CalibrationFamily


@dataclass(frozen=True)
class Calibration:
    """A versioned fit: maps durations stored in from_epoch to those of to_epoch."""

    fit_id: str
    family: CalibrationFamily
    coefficients: tuple[float, ...]
    from_epoch: int
    to_epoch: int

    def apply(self, stored: ArrayLike) -> Array:
        """Corrected durations of any shape: see `corrected`."""
        return corrected(stored, self)


def corrected(stored: ArrayLike, calibration: Calibration | None) -> Array:
    """min(10, max(0, Γ(ψ(d)))) with ψ(d) = d if d > 0 else 10 (Eq. 10), seconds, same shape; NaN stays missing.

    calibration: Γ, None for the identity. The rule itself is that of `ranking.References`, which rewards use, so that
    durations corrected at load and inside a ranking agree.
    """
    d = np.asarray(stored, dtype=np.float64)
    if calibration is None:
        return References(d.reshape(1, -1)).durations.reshape(d.shape)
    family, coefficients = calibration.family, calibration.coefficients
    return References(d.reshape(1, -1), lambda values: predict(family, coefficients, values)).durations.reshape(d.shape)


def read_calibrations(layout: Layout, family: CalibrationFamily | None = None) -> list[Calibration]:
    """Fits of an artifact in order of fit_id, so that the newest campaign is last; of one family, if given.

    Raises ArtifactError for a row whose coefficients are not its family's.
    """
    fits = []
    for row in sorted(layout.rows("calibrations"), key=lambda row: row["fit_id"]):
        try:
            fit = Calibration(
                row["fit_id"],
                CalibrationFamily(row["family"]),
                tuple(row["coefficients"]),
                row["from_epoch"],
                row["to_epoch"],
            )
            fit.apply(1.0)
        except (ValueError, InvalidInputError) as error:
            raise ArtifactError(f"{layout.out}: calibration {row['fit_id']} is not usable: {error}") from error
        if family in (None, fit.family):
            fits.append(fit)
    return fits


def select(fits: list[Calibration], from_epoch: int, to_epoch: int) -> Calibration | None:
    """The newest fit between two epochs; None when they are the same and no fit is needed.

    A fit inside one epoch (from = to) is used when there is one. Raises ArtifactError when durations of one epoch are
    wanted in another and nothing maps them.
    """
    matching = [fit for fit in fits if (fit.from_epoch, fit.to_epoch) == (from_epoch, to_epoch)]
    if matching:
        return matching[-1]
    if from_epoch == to_epoch:
        return None
    raise ArtifactError(
        f"no calibration maps durations of epoch {from_epoch} to epoch {to_epoch}; "
        "run `dmc-optim ces calibrate` against the present service"
    )


def corrected_references(
    references: pa.Table,
    fits: list[Calibration],
    to_epoch: int,
) -> Array:
    """duration_s of `reference_durations` rows as (N,) corrected seconds, each row by the fit of its own epoch.

    references: rows with duration_s and epoch. Null becomes NaN, missing. Raises ArtifactError as `select`.
    """
    stored = references["duration_s"].to_numpy(zero_copy_only=False).astype(np.float64)
    epochs = references["epoch"].to_numpy()
    result = np.empty(len(stored))
    for epoch in np.unique(epochs):
        rows = epochs == epoch
        result[rows] = corrected(stored[rows], select(fits, int(epoch), to_epoch))
    return result
