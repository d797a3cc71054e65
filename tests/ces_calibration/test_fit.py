"""Families, least squares and leave-one-problem-out, recomputed with numpy.polyfit and by leaving out by hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dmc_optim.ces.calibration.fit import (
    Pairs,
    Weighting,
    fit_families,
    fit_family,
    fold_coefficients,
    predict,
    predict_held_out,
)
from dmc_optim.errors import InvalidInputError
from schemas.enums import CalibrationFamily as F


def noisy(n=600, problems=5, seed=0):
    rng = np.random.default_rng(seed)
    stored = np.exp(rng.normal(-2, 0.8, n))
    fresh = np.maximum((0.63 * stored + 0.053) * np.exp(rng.normal(0, 0.05, n)), 1e-4)
    return Pairs(rng.integers(0, problems, n), stored, fresh)


def by_hand(family, stored, fresh):
    """Coefficients by another route."""
    if family is F.MULTIPLICATIVE:
        return (float(stored @ fresh / (stored @ stored)),)
    if family is F.POWER_LAW:
        b, log_a = np.polyfit(np.log(stored), np.log(fresh), 1)
        return float(np.exp(log_a)), float(b)
    return tuple(float(c) for c in np.polyfit(stored, fresh, 1 if family is F.AFFINE else 2))


@pytest.mark.parametrize("family", F)
def test_coefficients_are_those_of_an_independent_least_squares(family):
    pairs = noisy()
    assert fit_family(pairs, family).coefficients == pytest.approx(by_hand(family, pairs.stored, pairs.fresh), rel=1e-9)


@pytest.mark.parametrize("family", F)
def test_each_fold_is_a_fit_without_that_problem(family):
    pairs = noisy()
    folds = fold_coefficients(pairs, family)
    assert sorted(folds) == [0, 1, 2, 3, 4]
    for problem, coefficients in folds.items():
        others = pairs.problem != problem
        assert coefficients == pytest.approx(by_hand(family, pairs.stored[others], pairs.fresh[others]), rel=1e-9)


@pytest.mark.parametrize("family", F)
def test_cross_validated_figures_pool_all_held_out_predictions(family):
    pairs = noisy()
    predicted = np.empty(len(pairs))
    for problem in range(5):
        mine = pairs.problem == problem
        coefficients = by_hand(family, pairs.stored[~mine], pairs.fresh[~mine])
        predicted[mine] = predict(family, coefficients, pairs.stored[mine])
    errors = pairs.fresh - predicted
    fit = fit_family(pairs, family)
    assert fit.cv_rmse_s == pytest.approx(np.sqrt(np.mean(errors**2)), rel=1e-9)
    assert fit.cv_r2 == pytest.approx(1 - np.mean(errors**2) / np.var(pairs.fresh), rel=1e-9)
    assert np.allclose(predict_held_out(pairs, family, fold_coefficients(pairs, family)), predicted, rtol=1e-9)


@pytest.mark.parametrize("family", F)
def test_relative_weighting_is_least_squares_of_relative_errors(family):
    pairs = noisy()
    d, y = pairs.stored, pairs.fresh
    if family is F.MULTIPLICATIVE:
        expected = (float(np.mean(y / d)),)
    elif family is F.POWER_LAW:
        expected = by_hand(family, d, y)  # relative already
    else:
        expected = tuple(np.polyfit(d, y, 1 if family is F.AFFINE else 2, w=1 / d))
    fit = fit_family(pairs, family, Weighting.RELATIVE)
    assert fit.coefficients == pytest.approx(expected, rel=1e-8)
    assert fit.weighting is Weighting.RELATIVE
    folds = fold_coefficients(pairs, family, Weighting.RELATIVE)
    errors = np.abs(y - predict_held_out(pairs, family, folds))
    assert fit.cv_relative == pytest.approx(np.median(errors / y))
    assert fit.cv_rmse_s == pytest.approx(np.sqrt(np.mean(errors**2)))


def test_the_papers_error_and_variance_give_its_r2():
    # C.7: between-triple variance 0.02906 s², CV RMSE 13.9 ms affine and 13.7 ms quadratic; R² 0.9933 and 0.9936.
    affine, quadratic = (1 - rmse_s**2 / 0.02906 for rmse_s in (0.0139, 0.0137))
    assert affine == pytest.approx(0.9933, abs=1e-4)
    assert quadratic == pytest.approx(0.9936, abs=1e-4)


@pytest.mark.parametrize(
    ("family", "truth"),
    [
        (F.MULTIPLICATIVE, (0.63,)),
        (F.POWER_LAW, (0.7, 0.8)),
        (F.AFFINE, (0.6306, 0.0529)),
        (F.QUADRATIC, (0.02, 0.6, 0.05)),
    ],
)
def test_planted_coefficients_are_recovered(family, truth):
    stored = np.linspace(0.01, 6, 300)
    fit = fit_family(Pairs(np.arange(300) % 3, stored, predict(family, truth, stored)), family)
    assert fit.coefficients == pytest.approx(truth, abs=1e-9)
    assert fit.cv_r2 == pytest.approx(1, abs=1e-12)
    assert fit.cv_rmse_s == pytest.approx(0, abs=1e-9)
    assert (fit.n_pairs, fit.n_problems) == (300, 3)


def test_an_offset_is_what_the_multiplicative_family_misses():
    fits, reasons = fit_families(noisy())
    assert not reasons
    assert fits[F.MULTIPLICATIVE].cv_r2 < fits[F.AFFINE].cv_r2 - 0.02
    assert abs(fits[F.QUADRATIC].cv_r2 - fits[F.AFFINE].cv_r2) < 0.002


def test_one_problem_cannot_be_left_out():
    with pytest.raises(InvalidInputError, match="at least 2 problems with usable pairs, got 1"):
        fit_family(noisy(problems=1), F.AFFINE)
    with pytest.raises(InvalidInputError, match="got 0"):
        fit_family(Pairs(np.empty(0, int), np.empty(0), np.empty(0)), F.AFFINE)


def test_constant_stored_durations_determine_only_the_multiplicative_family():
    pairs = Pairs(np.array([0, 0, 1, 1]), np.full(4, 0.1), np.array([0.1, 0.11, 0.12, 0.13]))
    fits, reasons = fit_families(pairs)
    assert set(fits) == {F.MULTIPLICATIVE}
    assert "too few distinct values" in reasons[F.AFFINE]


def test_a_fold_that_determines_nothing_is_named():
    pairs = Pairs(np.array([0, 0, 1, 1]), np.array([0.1, 0.1, 0.2, 0.3]), np.array([0.1, 0.11, 0.2, 0.3]))
    with pytest.raises(InvalidInputError, match="without problem 1"):
        fit_family(pairs, F.AFFINE)


def test_constant_fresh_durations_have_no_r2():
    fit = fit_family(Pairs(np.array([0, 0, 1, 1]), np.array([0.1, 0.2, 0.3, 0.4]), np.full(4, 0.5)), F.AFFINE)
    assert fit.cv_r2 is None
    assert fit.train_r2 is None
    assert fit.cv_rmse_s == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("bad", [np.nan, np.inf, 0.0, -1.0])
def test_unusable_durations_are_refused_and_counted(bad):
    with pytest.raises(InvalidInputError, match="1 of 3 fresh durations"):
        Pairs(np.array([0, 1, 2]), np.array([0.1, 0.2, 0.3]), np.array([0.1, bad, 0.3]))


def test_shapes_must_agree():
    with pytest.raises(InvalidInputError, match="three vectors of one length"):
        Pairs(np.array([0, 1]), np.array([0.1, 0.2, 0.3]), np.array([0.1, 0.2, 0.3]))
    with pytest.raises(InvalidInputError, match="has 2 coefficients, got 1"):
        predict(F.AFFINE, (1.0,), 0.1)


@given(st.floats(0.1, 2), st.floats(0, 0.2), st.floats(0.5, 3))
def test_affine_fits_follow_a_change_of_unit(alpha, beta, unit):
    stored = np.array([0.05, 0.1, 0.4, 0.9, 1.5, 3.0])
    fresh = alpha * stored + beta + np.array([0.01, -0.005, 0.008, 0.0, -0.01, 0.004]) + 0.02
    one = fit_family(Pairs(np.array([0, 0, 1, 1, 2, 2]), stored, fresh), F.AFFINE)
    other = fit_family(Pairs(np.array([0, 0, 1, 1, 2, 2]), stored * unit, fresh * unit), F.AFFINE)
    assert other.coefficients[0] == pytest.approx(one.coefficients[0], rel=1e-6, abs=1e-9)
    assert other.coefficients[1] == pytest.approx(one.coefficients[1] * unit, rel=1e-6, abs=1e-9)
    assert other.cv_r2 == pytest.approx(one.cv_r2, rel=1e-6)
