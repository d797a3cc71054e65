import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dmc_optim.errors import InvalidInputError
from dmc_optim.rewards import mean_duration, naive


@pytest.mark.parametrize(
    ("c_cor", "seconds", "how", "reward"),
    [
        (1, 10, "linear", 0),
        (1, 1, "linear", 0.9),
        (0, 0, "linear", 0),
        (0, 1e-4, "linear", -1e-5),
        (1, 10, "log", 0),
        (1, 1, "log", 1 / 3),
        (1, 0.01, "log", 1),
        (1, 0, "log", 1),
        (1, 25, "linear", 0),
        (0, 25, "log", -1),
        (1, np.nan, "linear", 0),
    ],
)
def test_vectors(c_cor, seconds, how, reward):
    assert naive(c_cor, seconds, how) == pytest.approx(reward, abs=1e-12)


@given(st.booleans(), st.floats(0, 20))
def test_equation_37_written_out(c_cor, seconds):
    assert naive(c_cor, seconds, "linear") == pytest.approx(c_cor + min(1, max(0, 1 - seconds / 10)) - 1, abs=1e-12)
    log = (1 - math.log10(max(seconds, 1e-6))) / 3
    assert naive(c_cor, seconds, "log") == pytest.approx(c_cor + min(1, max(0, log)) - 1, abs=1e-12)
    assert -1 <= naive(c_cor, seconds, "log") <= 1


def test_arrays():
    np.testing.assert_allclose(naive(np.array([True, False]), np.array([1.0, 1.0]), "linear"), [0.9, -0.1], atol=1e-12)


@pytest.mark.parametrize(("seconds", "how"), [(1.0, "sqrt"), (-1.0, "linear")])
def test_unusable_arguments_are_refused(seconds, how):
    with pytest.raises(InvalidInputError):
        naive(1, seconds, how)


def test_mean_duration_replaces_what_is_no_measurement():
    assert mean_duration([1.0, 2.0, np.nan, 0.0, -1.0, 3.0], [False] * 5 + [True]) == pytest.approx((1 + 2 + 40) / 6)
    assert mean_duration([1.0, 2.0], [False, True], limit_s=4.0) == 2.5
    assert mean_duration([np.inf], [False]) == 10


def test_mean_duration_of_no_test_is_the_limit():
    assert mean_duration([], []) == 10
    np.testing.assert_array_equal(mean_duration(np.empty((2, 0)), np.empty((2, 0))), [10, 10])


def test_mean_duration_of_a_batch():
    np.testing.assert_allclose(
        mean_duration([[1.0, 3.0], [2.0, np.nan]], [[False, False], [False, False]]), [2.0, 6.0], atol=1e-12
    )


def test_lengths_must_agree():
    with pytest.raises(InvalidInputError, match="differ in shape"):
        mean_duration([1.0], [True, False])
