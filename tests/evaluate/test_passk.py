from fractions import Fraction
from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dmc_optim.errors import InvalidInputError
from dmc_optim.evaluate import pass_at_k


@pytest.mark.parametrize(
    ("n", "m", "k", "value"), [(20, 0, 5, 0), (20, 20, 5, 1), (20, 7, 1, 7 / 20), (20, 1, 10, 0.5), (1, 1, 1, 1)]
)
def test_vectors(n, m, k, value):
    assert pass_at_k(n, m, k) == pytest.approx(value, abs=1e-15)


@given(st.data())
def test_exact_binomials(data):
    n = data.draw(st.integers(1, 300))
    m, k = data.draw(st.integers(0, n)), data.draw(st.integers(1, n))
    assert pass_at_k(n, m, k) == pytest.approx(float(1 - Fraction(comb(n - m, k), comb(n, k))), abs=1e-12)


@given(st.data())
def test_more_passing_samples_and_more_draws_never_hurt(data):
    n = data.draw(st.integers(2, 60))
    m, k = data.draw(st.integers(0, n - 1)), data.draw(st.integers(1, n - 1))
    assert pass_at_k(n, m + 1, k) >= pass_at_k(n, m, k)
    assert pass_at_k(n, m, k + 1) >= pass_at_k(n, m, k) - 1e-15


def test_arrays_broadcast():
    values = pass_at_k(np.array([[20], [10]]), np.array([0, 1]), np.array([1, 10]))
    np.testing.assert_allclose(values, [[0, 0.5], [0, 1]], atol=1e-15)
    assert pass_at_k(np.empty(0, int), np.empty(0, int), 1).shape == (0,)


def test_whole_floats_are_counts():
    assert pass_at_k(20.0, np.array([5.0]), 1)[0] == 0.25


@pytest.mark.parametrize(
    ("n", "m", "k", "message"),
    [
        (5, 1, 6, "1 <= k <= n"),
        (5, 1, 0, "1 <= k <= n"),
        (5, 6, 1, "0 <= m <= n"),
        (5, -1, 1, "0 <= m <= n"),
        (5, 1.5, 1, "whole numbers; m"),
        (5, 1, np.nan, "whole numbers; k"),
        ("5", 1, 1, "whole numbers; n"),
        ([5, 5], [1, 1], [1, 6], "1 <= k <= n"),
    ],
)
def test_impossible_counts_are_refused(n, m, k, message):
    with pytest.raises(InvalidInputError, match=message):
        pass_at_k(n, m, k)
