import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dmc_optim.errors import InvalidInputError
from dmc_optim.ranking import Pool, References, StrongReferences
from dmc_optim.ranking.pool import share_ceil, share_floor
from tests.ranking import oracle
from tests.ranking.strategies import tables

percents = st.sampled_from([1, 10, 12.5, 30, 33.3, 50, 70, 80, 90, 99])


def _pools(raw, row):
    """The pool without a row, by exclusion and by deletion."""
    return Pool(References(raw), [row]), np.delete(raw, row, axis=0)


@given(st.data(), tables(), st.sampled_from(["mean", "median"]))
def test_aggregates_are_exact(data, raw, how):
    rows = oracle.table(raw)
    pool = Pool(References(raw))
    for t, value in enumerate(pool.aggregate(how)[0]):
        expected = getattr(oracle, how)(oracle.column(rows, t))
        assert np.isnan(value) if expected is None else abs(value - float(expected)) <= 1e-12


@given(tables(), percents)
def test_quantiles_are_exact(raw, percent):
    rows = oracle.table(raw)
    for t, value in enumerate(Pool(References(raw)).quantile(percent)[0]):
        values = oracle.column(rows, t)
        assert abs(value - float(oracle.quantile(values, percent))) <= 1e-12 if values else np.isnan(value)


@given(tables(min_references=1, max_references=30, min_tests=1, max_tests=3), percents)
def test_quantiles_and_medians_are_those_of_numpy_to_the_bit(raw, percent):
    refs = References(raw)
    some = refs.counts > 0
    durations = refs.durations[:, some]
    np.testing.assert_array_equal(Pool(refs).quantile(percent)[0][some], np.nanpercentile(durations, percent, axis=0))
    np.testing.assert_array_equal(Pool(refs).aggregate("median")[0][some], np.nanmedian(durations, axis=0))


def test_quantiles_at_an_order_statistic_are_that_duration():
    values = np.random.default_rng(0).lognormal(size=61)
    pool = Pool(References(values[:, None]))
    for percent in range(0, 101, 10):
        assert pool.quantile(percent)[0, 0] == np.minimum(np.sort(values), 10)[60 * percent // 100]


@given(st.data(), tables(min_references=1), percents)
def test_a_pool_without_a_row_is_the_pool_of_the_others(data, raw, percent):
    row = data.draw(st.integers(0, len(raw) - 1))
    pool, others = _pools(raw, row)
    whole = Pool(References(others))
    np.testing.assert_array_equal(pool.counts, whole.counts)
    for how in ("mean", "median"):
        np.testing.assert_allclose(pool.aggregate(how), whole.aggregate(how), atol=1e-12)
    np.testing.assert_allclose(pool.quantile(percent), whole.quantile(percent), atol=1e-12)


@given(st.data(), tables(), percents, st.sampled_from(["max", "median"]))
def test_ranked_limits_by_loops(data, raw, percent, how):
    n_tests = raw.shape[1]
    used = data.draw(st.lists(st.booleans(), min_size=n_tests, max_size=n_tests))
    limits = StrongReferences(Pool(References(raw)), np.array([used], dtype=bool)).limits(percent, how)[0]
    rows = oracle.table(raw)
    best = oracle.best_references(rows, [t for t in range(n_tests) if used[t]], percent)
    for t, limit in enumerate(limits):
        durations = [rows[h][t] for h in best if rows[h][t] is not None]
        if durations:
            assert abs(limit - float(max(durations) if how == "max" else oracle.median(durations))) <= 1e-12
        else:
            assert np.isnan(limit)


@given(st.data(), tables(min_references=1), percents, st.sampled_from(["max", "median"]))
def test_ranked_limits_without_a_row(data, raw, percent, how):
    row = data.draw(st.integers(0, len(raw) - 1))
    pool, others = _pools(raw, row)
    used = np.ones((1, raw.shape[1]), dtype=bool)
    expected = StrongReferences(Pool(References(others)), used).limits(percent, how)
    np.testing.assert_allclose(StrongReferences(pool, used).limits(percent, how), expected, atol=1e-12)


def test_ties_of_average_rank_go_to_the_first_row():
    refs = References([[2.0, 1.0], [1.0, 2.0], [3.0, 3.0]])
    strong = StrongReferences(Pool(refs), np.ones((1, 2), dtype=bool))
    assert strong.order.tolist() == [[0, 1, 2]]
    np.testing.assert_array_equal(strong.limits(10, "max"), [[2.0, 1.0]])


def test_many_ties_of_average_rank_stay_in_order():
    strong = StrongReferences(Pool(References(np.ones((60, 2)))), np.ones((1, 2), dtype=bool))
    assert strong.order.tolist() == [list(range(60))]


def test_the_best_share_rounds_up_to_at_least_one():
    refs = References(np.arange(1.0, 8.0)[:, None])
    strong = StrongReferences(Pool(refs), np.ones((1, 1), dtype=bool))
    assert [int(strong.size(p)[0]) for p in (1, 14, 15, 50, 99)] == [1, 1, 2, 4, 7]


def test_shares_are_exact_in_the_decimals_written():
    n = np.array([1000, 300])
    assert share_floor(33.3, n).tolist() == [333, 99]  # 33.3 * 1000 / 100 is 332.99999999999994 in floats
    assert share_ceil(55, np.array([100, 20])).tolist() == [55, 11]  # 0.55 * 100 is 55.00000000000001


@pytest.mark.parametrize(
    "call",
    [
        lambda: Pool(References([[1.0]])).aggregate("mode"),
        lambda: StrongReferences(Pool(References([[1.0]])), np.ones((1, 1), bool)).limits(50, "min"),
        lambda: Pool(References([[1.0]]), [[0]]),
        lambda: Pool(References([[1.0]]), [-2]),
    ],
)
def test_unusable_requests_are_refused(call):
    with pytest.raises(InvalidInputError):
        call()
