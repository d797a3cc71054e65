from fractions import Fraction
from math import floor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dmc_optim.rewards import MAPS
from dmc_optim.rewards.maps import bucketed, signed

unit = st.floats(0, 1)


@pytest.mark.parametrize(
    ("name", "best", "half", "worst"),
    [
        ("bucketed", 1, 0.5, 0),
        ("linear", 1, 0.5, 0),
        ("range_1_3", 1, 2 / 3, 1 / 3),
        ("range_1_2", 1, 0.75, 0.5),
    ],
)
def test_vectors_of_table_40(name, best, half, worst):
    values = MAPS[name](np.array([0, 0.5, 1]))
    np.testing.assert_allclose(values, [best, half, worst], atol=1e-12)


@pytest.mark.parametrize(("name", "gap"), [("bucketed", 1), ("linear", 1), ("range_1_3", 4 / 3), ("range_1_2", 1.5)])
def test_gap_between_the_worst_passing_and_a_failing_program(name, gap):
    assert MAPS[name](1.0) - -1 == pytest.approx(gap)


@given(unit)
def test_buckets_by_exact_arithmetic(q):
    expected = Fraction(1) if q == 0 else max(Fraction(0), Fraction(9, 10) - Fraction(floor(10 * (q - 1e-6)), 10))
    assert abs(float(bucketed(q)) - float(expected)) <= 1e-12


def test_buckets_are_ten_and_close_on_the_right():
    edges = np.arange(11) / 10
    np.testing.assert_allclose(bucketed(edges), [1, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1, 0], atol=1e-12)
    assert bucketed(0.1 + 2e-6) == pytest.approx(0.8)


@pytest.mark.parametrize("name", sorted(MAPS))
@given(unit, unit)
def test_maps_fall_and_stay_in_range(name, first, second):
    low, high = sorted((first, second))
    better, worse = float(MAPS[name](low)), float(MAPS[name](high))
    assert 1 + 1e-12 >= better >= worse >= -1e-12


def test_signed_units():
    np.testing.assert_array_equal(signed(np.array([True, False, 0.5])), [1, -1, 0])
