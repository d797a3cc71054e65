import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dmc_optim.errors import InvalidInputError
from dmc_optim.ranking import rank, rank_many, synthetic_pool


@given(st.integers(0, 10_000), st.integers(1, 12), st.integers(1, 12), st.floats(0.2, 5))
def test_a_planted_slowness_is_recovered_exactly(seed, n_references, n_tests, slowness):
    pool = synthetic_pool(seed, n_references, n_tests, median_work_s=0.01, work_spread=0.5)
    assert not pool.censored.any()
    board = rank(pool.candidate(slowness), pool.references())
    expected = pool.faster_than(slowness) / n_references
    assert board.qar == pytest.approx(expected, abs=1e-12)
    assert board.qp == pytest.approx(expected, abs=1e-12)


def test_references_leave_out_themselves_in_planted_order():
    pool = synthetic_pool(1, 15, 20, median_work_s=0.01, work_spread=0.5)
    many = rank_many(pool.stored_s, pool.references(), exclude=np.arange(15))
    assert np.argsort(many.qp).tolist() == pool.order.tolist()
    np.testing.assert_allclose(np.sort(many.qp), np.arange(15) / 14)


def test_censoring_ties_every_slow_program():
    pool = synthetic_pool(2, 30, 40, median_work_s=5.0)
    assert 0 < pool.censored.mean() < 1
    assert np.all(pool.stored_s[pool.censored] == 10)
    board = rank(np.full(40, 10.0), pool.references())
    np.testing.assert_allclose(board.p, 1 - pool.censored.mean(axis=0), atol=1e-12)


def test_missing_cells_and_noise_are_as_asked():
    pool = synthetic_pool(3, 200, 100, noise=0.05, floor_s=0.001, missing=0.1)
    assert pool.missing.mean() == pytest.approx(0.1, abs=0.01)
    np.testing.assert_array_equal(np.isnan(pool.stored_s), pool.missing)
    clean = ~pool.missing & ~pool.censored & (pool.stored_s > 1e-4)
    z = (pool.stored_s - pool.true_s)[clean] / pool.duration_std_s[clean]
    assert z.std() == pytest.approx(1, abs=0.02)


def test_the_same_seed_gives_the_same_pool():
    first, second = synthetic_pool(9, 5, 6, missing=0.2), synthetic_pool(9, 5, 6, missing=0.2)
    np.testing.assert_array_equal(first.stored_s, second.stored_s)
    np.testing.assert_array_equal(first.chars, second.chars)


@pytest.mark.parametrize("wrong", [{"noise": -1.0}, {"missing": 1.5}, {"n_tests": -1}])
def test_impossible_pools_are_refused(wrong):
    with pytest.raises(InvalidInputError):
        synthetic_pool(**({"seed": 0, "n_references": 2, "n_tests": 2} | wrong))
