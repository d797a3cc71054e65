"""Correction at load: Eq. 10's vectors, agreement with the ranking's own rule, choice of a fit."""

import numpy as np
import pyarrow as pa
import pytest

from dmc_optim.ces.calibration.apply import Calibration, corrected, corrected_references, read_calibrations, select
from dmc_optim.errors import ArtifactError
from dmc_optim.ranking import References
from schemas.enums import CalibrationFamily as F
from tests.ces_calibration.artifact import write_table

PAPER = Calibration("c", F.AFFINE, (0.6306, 0.0529), 0, 1)


@pytest.mark.parametrize(("stored", "expected"), [(0, 6.3589), (-1, 6.3589), (20, 10), (1, 0.6835)])
def test_vectors_of_eq_10(stored, expected):
    assert corrected(stored, PAPER) == pytest.approx(expected, abs=1e-12)


def test_missing_stays_missing_and_infinite_is_invalid():
    values = PAPER.apply([np.nan, np.inf, 0.5])
    assert np.isnan(values[0])
    assert values[1:] == pytest.approx([6.3589, 0.6306 * 0.5 + 0.0529])


def test_identity_only_sanitises():
    assert corrected([0.3, -2, 12, np.inf], None) == pytest.approx([0.3, 10, 10, 10])


def test_negative_predictions_are_clamped_to_zero():
    assert corrected(0.01, Calibration("c", F.AFFINE, (1.0, -0.5), 0, 1)) == 0.0


def test_load_time_and_ranking_agree():
    stored = np.array([[0.1, np.nan, -3], [0.4, 2.0, 25], [np.inf, 0.0, 1e-5]])
    assert np.array_equal(corrected(stored, PAPER), References(stored, (0.6306, 0.0529)).durations, equal_nan=True)


def test_quadratic_fits_are_applied_too():
    assert corrected(2.0, Calibration("c", F.QUADRATIC, (0.1, 0.5, 0.2), 0, 1)) == pytest.approx(1.6)


def fits():
    return [
        Calibration("campaign-001", F.AFFINE, (0.9, 0.0), 0, 1),
        Calibration("campaign-002", F.AFFINE, (0.8, 0.0), 0, 1),
        Calibration("campaign-002b", F.AFFINE, (0.7, 0.0), 2, 1),
    ]


def test_the_newest_fit_between_the_epochs_is_used():
    assert select(fits(), 0, 1).fit_id == "campaign-002"
    assert select(fits(), 1, 1) is None
    with pytest.raises(ArtifactError, match="epoch 5 to epoch 1"):
        select(fits(), 5, 1)


def test_each_reference_is_corrected_by_its_own_epoch():
    table = pa.table({"duration_s": [1.0, 1.0, 1.0, None], "epoch": [0, 2, 1, 0]})
    values = corrected_references(table, fits(), to_epoch=1)
    assert values[:3] == pytest.approx([0.8, 0.7, 1.0])
    assert np.isnan(values[3])


def row(fit_id, family, coefficients):
    figures = {"cv_r2": 0.9, "cv_rmse_s": 0.1, "train_r2": 0.9, "from_epoch": 0, "to_epoch": 1, "n_pairs": 10}
    return {"fit_id": fit_id, "family": family, "coefficients": coefficients, **figures}


def test_fits_are_read_by_family(layout):
    assert read_calibrations(layout) == []
    write_table(
        layout, "calibrations", [row("b", "affine", [1.0, 0.1]), row("a", "multiplicative", [0.9])], "calibrate"
    )
    assert [fit.fit_id for fit in read_calibrations(layout)] == ["a", "b"]
    assert [fit.fit_id for fit in read_calibrations(layout, F.AFFINE)] == ["b"]


def test_a_row_of_the_wrong_shape_is_refused(layout):
    write_table(layout, "calibrations", [row("b", "affine", [1.0])], "calibrate")
    with pytest.raises(ArtifactError, match="calibration b is not usable"):
        read_calibrations(layout)
