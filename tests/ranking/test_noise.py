import numpy as np
import pytest
from scipy.stats import norm

from dmc_optim.errors import InvalidInputError
from dmc_optim.ranking import (
    NOISE_AWARE_METRICS,
    References,
    all_metrics,
    noise_aware_metrics,
    noise_aware_rank,
    rank,
    suite_noise,
    synthetic_pool,
)
from dmc_optim.ranking.noise import MODES


def _mixed_pool(seed=0):
    """40 references on 10 informative tests and 20 whose spread is measurement noise alone."""
    rng = np.random.default_rng(seed)
    speed = rng.lognormal(0, 0.5, 40)
    signal = rng.uniform(1, 2, 10) * speed[:, None]
    flat = np.full((40, 20), 0.02)
    std = np.hstack([np.full((40, 10), 0.01), np.full((40, 20), 0.005)])
    true = np.hstack([signal, flat])
    return true, std, rng


def test_noise_spread_and_reliability():
    refs = References([[1.0, 1.0, 2.0], [3.0, 1.0, np.nan]], duration_std_s=[[0.3, 0.1, 0.1], [0.4, 0.1, 0.1]])
    noise = suite_noise(refs)
    np.testing.assert_allclose(noise.noise_s, [np.sqrt((0.09 + 0.16) / 2), 0.1, 0.1])
    np.testing.assert_allclose(noise.spread_s, [np.sqrt(2), 0.0, np.nan])
    np.testing.assert_allclose(noise.reliability, [1 - 0.125 / 2, 0.0, 0.0])
    assert noise.within_noise().tolist() == [False, True, True]


def test_a_test_of_unknown_noise_is_trusted():
    noise = suite_noise(References([[1.0], [1.1]], duration_std_s=[[np.nan], [np.nan]]))
    assert noise.reliability.tolist() == [1.0]
    assert noise.within_noise().tolist() == [False]


def test_noisy_tests_are_dropped_and_the_others_kept():
    true, std, rng = _mixed_pool()
    refs = References(true + std * rng.standard_normal(true.shape), duration_std_s=std)
    assert suite_noise(refs).within_noise().tolist() == [False] * 10 + [True] * 20
    delta = true[0]
    assert noise_aware_rank(delta, refs, "drop").qar == pytest.approx(rank(delta[:10], _first(refs, 10)).qar)


def _first(refs, n):
    return References(refs.durations[:, :n])


@pytest.mark.parametrize("name", sorted(NOISE_AWARE_METRICS))
def test_rerun_noise_falls_below_that_of_the_plain_mean(name):
    true, std, rng = _mixed_pool()
    refs = References(true + std * rng.standard_normal(true.shape), duration_std_s=std)
    reruns = true[5] + std[5] * rng.standard_normal((200, true.shape[1]))
    plain = all_metrics(reruns, refs)["mean"].std()
    assert noise_aware_metrics(reruns, refs)[name].std() < plain


def test_soft_percentiles_by_loops():
    pool = synthetic_pool(3, 6, 5, noise=0.2, missing=0.2)
    refs = pool.references((0.6, 0.05))
    delta, sigma = pool.candidate(1.0), np.full(5, 0.03)
    board = noise_aware_rank(delta, refs, "soft", delta_std_s=sigma)

    def chance(a, sa, b, sb):  # a is truly faster than b
        return norm.cdf((b - a) / np.hypot(sa, sb))

    d, s = refs.durations, refs.duration_std_s
    for t in range(5):
        there = np.flatnonzero(refs.valid[:, t])
        expected = np.mean([chance(d[h, t], s[h, t], delta[t], sigma[t]) for h in there])
        assert board.p[t] == pytest.approx(expected, abs=1e-12)
    a = []
    for h in range(6):
        own = []
        for t in np.flatnonzero(refs.valid[h]):
            others = [i for i in np.flatnonzero(refs.valid[:, t]) if i != h]
            ahead = sum(chance(d[i, t], s[i, t], d[h, t], s[h, t]) for i in others)
            own.append((ahead + chance(delta[t], sigma[t], d[h, t], s[h, t])) / refs.counts[t])
        a.append(np.mean(own))
    assert board.qar == pytest.approx(np.mean(board.p), abs=1e-12)
    assert board.qp == (np.array(a) < board.qar).sum() / 6


def test_without_noise_soft_is_the_tied_percentile():
    raw = np.array([[1.0, 2.0], [2.0, 2.0], [4.0, np.nan]])
    refs = References(raw, duration_std_s=np.zeros_like(raw))
    delta = [2.0, 3.0]
    values = noise_aware_metrics(delta, refs)
    assert values["mean_soft"][0] == pytest.approx(all_metrics(delta, refs)["mean"][0], abs=1e-12)
    assert noise_aware_rank(delta, refs, "soft").qar == pytest.approx(values["mean_soft"][0] / 100)


def test_without_noise_dropping_and_weighting_change_nothing():
    pool = synthetic_pool(5, 9, 8)
    refs, delta = pool.references(), pool.candidate(0.9)
    plain = rank(delta, refs)
    for mode in ("drop", "weight"):
        board = noise_aware_rank(delta, refs, mode)
        assert (board.qar, board.qp) == (pytest.approx(plain.qar), plain.qp)


@pytest.mark.parametrize("mode", MODES)
def test_nothing_left_to_rank_is_none(mode):
    refs = References([[1.0], [1.0]], duration_std_s=[[0.5], [0.5]])
    board = noise_aware_rank([1.0], refs, mode)
    assert (board.qar is None) == (mode != "soft")
    no_reference = References(np.empty((0, 1)), duration_std_s=np.empty((0, 1)))
    assert noise_aware_rank([1.0], no_reference, mode).qp is None


def test_a_batch_is_its_rows():
    pool = synthetic_pool(7, 8, 6, noise=0.1, missing=0.1)
    refs = pool.references()
    batch = np.array([pool.candidate(s) for s in (0.5, 1.0, 2.0)])
    batch[1, 2] = np.nan
    many = noise_aware_metrics(batch, refs)
    for k, delta in enumerate(batch):
        for name, value in noise_aware_metrics(delta, refs).items():
            assert many[name][k] == pytest.approx(value[0], abs=1e-12)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: suite_noise(References([[1.0]])), "duration_std_s"),
        (lambda: noise_aware_rank([1.0], References([[1.0]], duration_std_s=[[0.1]]), "soft-ish"), "unknown"),
        (
            lambda: noise_aware_rank([1.0], References([[1.0]], duration_std_s=[[0.1]]), "soft", delta_std_s=[1, 2]),
            "one value",
        ),
    ],
)
def test_unusable_requests_are_refused(call, message):
    with pytest.raises(InvalidInputError, match=message):
        call()
