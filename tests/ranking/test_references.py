import numpy as np
import pytest
from hypothesis import given

from dmc_optim.errors import InvalidInputError
from dmc_optim.ranking import References, rank
from dmc_optim.ranking.references import candidate_durations
from tests.ranking import oracle
from tests.ranking.strategies import calibrations, tables

AFFINE = (0.6306, 0.0529)


@pytest.mark.parametrize(
    ("raw", "sanitised"),
    [(0.0, 6.3589), (-1.0, 6.3589), (20.0, 10.0), (1.0, 0.6835), (np.inf, 6.3589), (-np.inf, 6.3589)],
)
def test_vectors_of_equation_10(raw, sanitised):
    assert References([[raw]], AFFINE).durations[0, 0] == pytest.approx(sanitised, abs=1e-12)


def test_identity_calibration_caps_and_replaces_the_unusable():
    durations = References([[0.0, -3.0, 20.0, 1.0, np.inf, np.nan]]).durations[0]
    np.testing.assert_array_equal(durations, [10, 10, 10, 1, 10, np.nan])


def test_negative_corrections_are_cut_at_zero():
    assert References([[0.2, 2.0]], (1.0, -1.0)).durations.tolist() == [[0.0, 1.0]]


def test_any_function_can_correct_durations():
    quadratic = References([[1.0, 2.0, 20.0, np.nan]], lambda s: 0.1 * s**2 + 0.5 * s)
    np.testing.assert_allclose(quadratic.durations, [[0.6, 1.4, 10.0, np.nan]], atol=1e-12)


@given(tables(), calibrations)
def test_sanitising_agrees_with_exact_fractions(raw, calibration):
    refs = References(raw, calibration)
    for row, expected in zip(refs.durations, oracle.table(raw, calibration), strict=True):
        for cell, exact in zip(row, expected, strict=True):
            assert np.isnan(cell) if exact is None else abs(cell - float(exact)) <= 1e-12
    assert refs.valid.tolist() == (~np.isnan(raw)).tolist()


@given(tables())
def test_places_and_counts_of_each_column(raw):
    refs = References(raw)
    for t in range(refs.n_tests):
        values = refs.durations[refs.valid[:, t], t]
        assert refs.counts[t] == len(values)
        np.testing.assert_array_equal(refs.sorted[: len(values), t], np.sort(values))
        for h in np.flatnonzero(refs.valid[:, t]):
            assert refs.faster[h, t] == (values < refs.durations[h, t]).sum()
            assert refs.sorted[refs.place[h, t], t] == refs.durations[h, t]


def test_the_table_cannot_be_changed_from_outside():
    raw = np.ones((2, 2))
    refs = References(raw)
    raw[0, 0] = 5
    assert refs.durations[0, 0] == 1
    with pytest.raises(ValueError, match="read-only"):
        refs.durations[0, 0] = 3


def test_deviations_follow_the_slope():
    refs = References([[1.0, 2.0]], (0.5, 3.0), duration_std_s=[[0.1, np.nan]])
    np.testing.assert_allclose(refs.duration_std_s, [[0.05, np.nan]])


@pytest.mark.parametrize(
    ("durations", "calibration", "message"),
    [
        ([1.0, 2.0], None, r"\(references, tests\) table"),
        ([[[1.0]]], None, "table"),
        ([[1.0]], (np.nan, 0.0), "finite"),
        ([[1.0]], (1.0,), "two finite numbers"),
        ([[1.0]], (-1.0, 0.0), "reverse"),
    ],
)
def test_unusable_references_are_refused(durations, calibration, message):
    with pytest.raises(InvalidInputError, match=message):
        References(durations, calibration)


@pytest.mark.parametrize(("std", "message"), [([[0.1, 0.2]], "shape"), ([[-0.1]], "negative")])
def test_unusable_deviations_are_refused(std, message):
    with pytest.raises(InvalidInputError, match=message):
        References([[1.0]], duration_std_s=std)


def test_missing_candidate_durations_take_the_cap():
    np.testing.assert_array_equal(candidate_durations([1.0, np.nan, np.inf, 12.0], 4), [[1, 10, 10, 12]])


@pytest.mark.parametrize(
    ("delta", "message"), [([1.0], "one value for each of the 2 tests"), ([1.0, -0.5], "negative")]
)
def test_unusable_candidates_are_refused(delta, message):
    with pytest.raises(InvalidInputError, match=message):
        rank(delta, References([[1.0, 2.0]]))
