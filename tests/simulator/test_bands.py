"""Quality bands: quantiles, bands, draws, and that every step and problem has its weight."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dmc_optim.errors import InvalidInputError
from dmc_optim.ranking import synthetic_pool
from dmc_optim.simulator.bands import BandConfig, draw, quality_quantiles
from dmc_optim.simulator.pool import make_pool
from tests.simulator.problems import stored_problem

quantile_lists = st.lists(
    st.integers(2, 9).flatmap(lambda n: st.permutations([i / (n - 1) for i in range(n)])), min_size=1, max_size=4
)


def naive_band(quantiles, x, width):
    inside = [k for k, q in enumerate(quantiles) if abs(q - x) <= width / 2 + 1e-12]
    if inside:
        return inside
    nearest = min(abs(q - x) for q in quantiles)
    return [k for k, q in enumerate(quantiles) if abs(q - x) <= nearest + 1e-12]


@given(quantile_lists, st.integers(2, 12), st.sampled_from([0.05, 0.1, 0.25, 1.0]))
def test_even_weights_equal_the_naive_band(lists, steps, width):
    quantiles = [np.array(values) for values in lists]
    schedule = draw(quantiles, BandConfig(steps=steps, draws=None, width=width, window=1))
    for index, values in enumerate(lists):
        weights = schedule.weights(index)
        for step in range(steps):
            band = naive_band(values, step / (steps - 1), width)
            expected = [1 / len(band) if k in band else 0 for k in range(len(values))]
            assert weights[:, step] == pytest.approx(expected, abs=1e-15)
    assert schedule.total == len(lists)


@given(quantile_lists, st.integers(2, 12), st.integers(0, 5))
def test_draws_stay_in_their_band_and_add_up(lists, steps, seed):
    quantiles = [np.array(values) for values in lists]
    config = BandConfig(steps=steps, draws=7, width=0.3, window=1, seed=seed)
    schedule = draw(quantiles, config)
    assert sum(schedule.weights(i).sum(axis=0) for i in range(len(lists))) == pytest.approx(np.full(steps, 7.0))
    for index, values in enumerate(lists):
        for k, step in zip(*np.nonzero(schedule.weights(index)), strict=True):
            assert k in naive_band(values, step / (steps - 1), 0.3)


def test_many_draws_approach_the_even_weights():
    quantiles = [np.linspace(0, 1, 7), np.linspace(0, 1, 3)[::-1]]
    even = draw(quantiles, BandConfig(steps=5, draws=None, width=0.4, window=1))
    many = draw(quantiles, BandConfig(steps=5, draws=40_000, width=0.4, window=1))
    for index in range(2):
        assert many.weights(index) / 40_000 * 2 == pytest.approx(even.weights(index), abs=0.02)


def test_same_seed_same_draws():
    quantiles = [np.linspace(0, 1, 9)] * 3
    first, second, other = (draw(quantiles, BandConfig(seed=seed)) for seed in (1, 1, 2))
    assert all((a == b).all() for a, b in zip(first.per_problem, second.per_problem, strict=True))
    assert any((a != b).any() for a, b in zip(first.per_problem, other.per_problem, strict=True))


def test_quantiles_follow_the_planted_speed_order():
    drawn = synthetic_pool(3, 11, 20)
    pool = make_pool([stored_problem("p", drawn.stored_s)])
    (quantiles,) = quality_quantiles(pool)
    slowest_first = np.argsort(-drawn.slowness)
    assert quantiles[slowest_first] == pytest.approx(np.arange(11) / 10, abs=1e-15)


def test_equal_references_share_a_quantile():
    pool = make_pool([stored_problem("p", [[1.0, 1.0], [1.0, 1.0], [3.0, 3.0]])])
    assert quality_quantiles(pool)[0].tolist() == [0.75, 0.75, 0.0]


@pytest.mark.parametrize(
    "bad",
    [{"steps": 1}, {"draws": 0}, {"width": 0.0}, {"width": 1.5}, {"window": 0}, {"window": 102}, {"seed": -1}],
)
def test_bad_settings_are_refused(bad):
    with pytest.raises(InvalidInputError):
        BandConfig(**bad)


def test_nothing_to_draw_from():
    with pytest.raises(InvalidInputError):
        draw([], BandConfig())
