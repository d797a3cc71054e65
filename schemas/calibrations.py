"""Table `calibrations`: fits that map stored durations to the service's present speed (paper Eq. 8)."""

import pyarrow as pa

from schemas.table import Column, Table

CALIBRATIONS = Table(
    name="calibrations",
    key=("fit_id",),
    description="Calibration campaigns (paper Tables 32 and 33); empty until `dmc-optim ces calibrate` has run.",
    columns=(
        Column("fit_id", pa.string(), "Name of the fit."),
        Column(
            "family",
            pa.string(),
            "Shape of the fitted function.",
            accepted=("multiplicative", "power_law", "affine", "quadratic"),
        ),
        Column("coefficients", pa.list_(pa.float64()), "Coefficients in the family's order."),
        Column("cv_r2", pa.float64(), "R² under leave-one-problem-out cross-validation.", nullable=True, maximum=1),
        Column(
            "cv_rmse_s", pa.float64(), "Root mean square error under the same, in seconds.", nullable=True, minimum=0
        ),
        Column("train_r2", pa.float64(), "R² on the fitted pairs.", nullable=True, maximum=1),
        Column("from_epoch", pa.int64(), "Epoch of the stored durations.", minimum=0),
        Column("to_epoch", pa.int64(), "Epoch of the fresh durations.", minimum=0),
        Column("n_pairs", pa.int64(), "(problem, test, solution) triples behind the fit.", minimum=0),
    ),
)
