from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats

from dmc_optim.errors import InvalidInputError
from dmc_optim.ranking import METRICS, References, all_metrics, percentiles
from dmc_optim.ranking.metrics import scalar_percentile
from tests.ranking import oracle
from tests.ranking.strategies import COMMON, rows, tables

holes = st.one_of(st.sampled_from(COMMON), st.floats(0.01, 10.0), st.just(float("nan")))
whole_seconds = st.sampled_from([1.0, 2.0, 3.0, 4.0, 5.0, 7.0, 10.0, float("nan")])


def _tests(delta, refs):
    return [t for t in range(len(delta)) if not np.isnan(delta[t]) and refs.counts[t] > 0]


def test_the_seventeen_are_named():
    assert len(METRICS) == 17
    assert list(all_metrics([1.0], References([[1.0]]))) == list(METRICS)
    assert {name for name, metric in METRICS.items() if metric.higher_is_better} == {
        "top25_share",
        "top50_share",
        "win_rate_mean",
        "win_rate_median",
    }


def test_vector_of_the_tied_percentile():
    np.testing.assert_allclose(percentiles([2, 3], References([[1, 1], [2, 2], [2, 4]])), [[200 / 3, 200 / 3]])


@given(st.data(), tables(min_tests=1))
def test_percentiles_are_average_ranks_of_scipy(data, raw):
    delta = data.draw(rows(raw.shape[1], holes))
    refs = References(raw)
    p = percentiles(delta, refs)[0]
    for t in range(len(delta)):
        if t not in _tests(delta, refs):
            assert np.isnan(p[t])
            continue
        inserted = np.append(refs.durations[refs.valid[:, t], t], delta[t])
        assert p[t] == pytest.approx(100 * (stats.rankdata(inserted)[-1] - 1) / (len(inserted) - 1), abs=1e-12)


@given(st.data(), tables(min_tests=1, max_tests=12, cell=whole_seconds))
def test_direct_and_filtered_metrics_by_loops(data, raw):
    delta = data.draw(rows(raw.shape[1], whole_seconds))
    refs, table = References(raw), oracle.table(raw)
    tests = _tests(delta, refs)
    values = {name: value[0] for name, value in all_metrics(delta, refs).items()}
    p = {t: oracle.tied_percentile(Fraction(delta[t]), oracle.column(table, t)) for t in tests}
    n = len(tests)
    ascending = sorted(p.values())
    drop = max(1, n // 10)
    hardness = sorted(tests, key=lambda t: (oracle.mean(oracle.column(table, t)), t))
    expected = {
        "mean": oracle.mean(p.values()),
        "log_mean": oracle.mean(p.values()),
        "median": oracle.median(p.values()),
        "trimmed_mean": oracle.mean(ascending[drop : n - drop]) if n >= 5 else None,
        "top25_share": _share(p[t] < 25 for t in tests),
        "top50_share": _share(p[t] < 50 for t in tests),
        "win_rate_mean": _rate(delta[t] < oracle.mean(oracle.column(table, t)) for t in tests),
        "win_rate_median": _rate(delta[t] < oracle.median(oracle.column(table, t)) for t in tests),
    }
    for name, kept in {
        "drop_easiest_10": hardness[max(1, n // 10) :],
        "drop_hardest_25": hardness[: max(0, n - max(1, n // 4))],
        "drop_hardest_50": hardness[: max(0, n - max(1, n // 2))],
    }.items():
        expected[f"mean_{name}"] = oracle.mean(p[t] for t in kept)
        expected[f"median_{name}"] = oracle.median(p[t] for t in kept)
    for name, value in expected.items():
        assert np.isnan(values[name]) if value is None else abs(values[name] - float(value)) <= 1e-11, name


def _rate(hits):
    return oracle.mean(Fraction(int(hit)) for hit in hits)


def _share(hits):
    rate = _rate(hits)
    return None if rate is None else 100 * rate


@pytest.mark.parametrize(("n_tests", "dropped"), [(4, None), (5, 1), (19, 1), (20, 2), (39, 3)])
def test_a_tenth_is_trimmed_at_each_end(n_tests, dropped):
    raw = np.random.default_rng(n_tests).lognormal(size=(8, n_tests))
    delta = np.random.default_rng(1).lognormal(size=n_tests)
    p = np.sort(percentiles(delta, References(raw))[0])
    expected = np.nan if dropped is None else stats.trim_mean(p, dropped / n_tests)
    np.testing.assert_allclose(all_metrics(delta, References(raw))["trimmed_mean"], [expected], atol=1e-12)


@given(st.data(), tables(min_tests=1, cell=whole_seconds))
def test_total_by_loops(data, raw):
    delta = data.draw(rows(raw.shape[1], whole_seconds))
    refs, table = References(raw), oracle.table(raw)
    tests = _tests(delta, refs)
    totals = [sum(row[t] for t in tests if row[t] is not None) for row in table if any(row[t] for t in tests)]
    value = all_metrics(delta, refs)["total"][0]
    if not tests:
        assert np.isnan(value)
    else:
        assert value == pytest.approx(
            float(oracle.tied_percentile(sum(Fraction(delta[t]) for t in tests), totals)), abs=1e-12
        )


@pytest.mark.parametrize("calibration", [None, (0.63, 0.05)])
@pytest.mark.parametrize("seed", range(5))
def test_slopes_by_scipy(seed, calibration):
    rng = np.random.default_rng(seed)
    raw = rng.lognormal(-1, 1, (7, 9))
    raw[rng.random(raw.shape) < 0.2] = np.nan
    delta = rng.lognormal(-1, 1, 9)
    delta[rng.random(9) < 0.2] = np.nan
    refs = References(raw, calibration)
    w = np.nanmedian(np.minimum(raw, 10), axis=0)  # stored durations, not calibrated
    with_intercept, through_zero = [], []
    for row in [*refs.durations, delta]:
        there = ~np.isnan(row) & ~np.isnan(delta)
        with_intercept.append(stats.linregress(w[there], row[there]).slope)
        through_zero.append(np.linalg.lstsq(w[there][:, None], row[there], rcond=None)[0][0])
    values = all_metrics(delta, refs)
    for name, slopes in (("slope", with_intercept), ("slope_zero_intercept", through_zero)):
        assert values[name][0] == pytest.approx(100 * (stats.rankdata(slopes)[-1] - 1) / 7, abs=1e-12)


def test_slopes_need_tests_of_different_difficulty():
    refs = References([[1.0, 1.0, 1.0], [0.1, 0.1, 0.1]])
    values = all_metrics([0.3, 0.4, 0.5], refs)
    assert np.isnan(values["slope"][0])
    assert values["slope_zero_intercept"][0] == 50.0
    assert np.isnan(all_metrics([1.0], References([[1.0]]))["slope"][0])


@given(st.data(), tables(min_references=1, min_tests=1, cell=st.floats(0.01, 10)))
def test_log_space_mean_is_the_mean(data, raw):
    """log is increasing, so a rank percentile cannot change; shown by ranking the logarithms themselves."""
    delta = data.draw(rows(raw.shape[1], st.floats(0.01, 10)))
    everything = np.vstack([raw, delta])
    assume(all(len(set(np.log(c))) == len(set(c)) for c in everything.T))  # log may round two floats together
    of_logs = [(stats.rankdata(np.log(c))[-1] - 1) / len(raw) for c in everything.T]
    assert all_metrics(delta, References(raw))["log_mean"][0] == pytest.approx(100 * np.mean(of_logs), abs=1e-9)


@given(st.data(), tables(max_tests=8))
def test_a_batch_is_its_rows(data, raw):
    n_tests = raw.shape[1]
    batch = data.draw(st.lists(rows(n_tests, holes), min_size=2, max_size=4))
    many = all_metrics(np.array(batch).reshape(len(batch), n_tests), References(raw))
    for k, delta in enumerate(batch):
        for name, value in all_metrics(delta, References(raw)).items():
            np.testing.assert_allclose(many[name][k], value[0], atol=1e-12, err_msg=name)


@given(st.data(), tables(min_references=1, max_tests=8))
def test_leaving_a_reference_out_is_deleting_its_row(data, raw):
    row = data.draw(st.integers(0, len(raw) - 1))
    delta = data.draw(rows(raw.shape[1], holes))
    left_out = all_metrics(delta, References(raw), exclude=[row])
    for name, value in all_metrics(delta, References(np.delete(raw, row, axis=0))).items():
        np.testing.assert_allclose(left_out[name], value, atol=1e-9, err_msg=name)


def test_a_scalar_among_none_has_no_percentile():
    np.testing.assert_array_equal(scalar_percentile(np.array([1.0]), np.array([[np.nan]])), [np.nan])
    np.testing.assert_array_equal(scalar_percentile(np.array([2.0]), np.array([[1.0, 2.0, 3.0]])), [50.0])


def test_no_usable_test_leaves_every_metric_undefined():
    for delta, refs in (([np.nan], References([[1.0]])), ([1.0], References([[np.nan]])), ([], References.empty(0))):
        assert all(np.isnan(value[0]) for value in all_metrics(delta, refs).values())


@pytest.mark.parametrize(
    ("delta", "exclude", "message"),
    [([1.0, 2.0], None, "one value"), ([-1.0], None, "negative"), ([[1.0], [2.0]], [0], "one row")],
)
def test_unusable_candidates_are_refused(delta, exclude, message):
    with pytest.raises(InvalidInputError, match=message):
        all_metrics(delta, References([[1.0]]), exclude=exclude)
