"""Diagnostics against the specification's vectors, exact fractions, scipy and a multi-start optimiser."""

from fractions import Fraction
from itertools import combinations_with_replacement

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.optimize import minimize
from scipy.stats import spearmanr

from dmc_optim.errors import InvalidInputError
from dmc_optim.simulator import diagnose, diagnostics

GRID = np.arange(101) / 100
curve_arrays = arrays(np.float64, st.integers(4, 24), elements=st.integers(0, 16).map(lambda k: k / 16))


def loss(slope, intercept, curve):
    x = np.arange(len(curve)) / (len(curve) - 1)
    return float(np.square(np.clip(slope * x + intercept, 0, 1) - curve).sum())


def test_diagonal_vector():
    found = diagnostics(GRID, window=5)
    assert found.deviation == pytest.approx(0, abs=1e-15)
    assert found.quality_raw == 1
    assert found.quality_smooth == 1
    assert found.steepness == pytest.approx(0.5, abs=1e-12)
    assert found.variance == pytest.approx(4e-4, abs=1e-15)


def test_saturated_vector():
    found = diagnostics(np.ones(101), window=5)
    assert (found.auc_raw, found.auc_smooth, found.steepness) == (1, 1, 0)
    assert found.deviation == pytest.approx(0.5, abs=1e-15)
    assert found.quality_raw is None
    assert found.quality_smooth is None


@pytest.mark.parametrize("level", [0.0, 0.1, 0.7, 1 / 3])
def test_constant_curve_orders_nothing(level):
    found = diagnostics(np.full(50, level), window=7)
    assert found.quality_raw is None
    assert found.quality_smooth is None
    assert found.variance < 1e-30
    assert found.steepness == 0


@pytest.mark.parametrize(
    ("curve", "slope"),
    [
        ([0, 0, 1, 1], 3),  # a step: the smallest slope that jumps over one gap
        ([1, 1, 0, 0], -3),
        ([0, 0, 0.5, 1, 1], 2),  # one point between the clamps: a line of solutions, the smallest slope
        ([0, 0, 0.25, 1, 1], 3),
        ([0, 1], 1),
        ([0.25, 0.75], 0.5),
    ],
)
def test_smallest_slope_among_minimisers(curve, slope):
    assert diagnostics(curve, window=1).steepness == pytest.approx(slope / (1 + abs(slope)), abs=1e-12)


def exact_best_slope(curve):
    """Smallest |a| of the exact minimum, by fractions: every monotone split of the points, least squares inside."""
    n = len(curve)
    x = [Fraction(i, n - 1) for i in range(n)]
    options = []
    for low, high in combinations_with_replacement(range(n + 1), 2):
        for sign in (1, -1):
            c = curve if sign == 1 else curve[::-1]
            middle = range(low, high)
            size = len(middle)
            if size >= 2:
                mean_x, mean_c = sum(x[i] for i in middle) / size, sum(c[i] for i in middle) / size
                slope = sum((x[i] - mean_x) * (c[i] - mean_c) for i in middle) / sum(
                    (x[i] - mean_x) ** 2 for i in middle
                )
                intercept = mean_c - slope * mean_x
            elif size == 1:
                left = c[low] * (n - 1) if low > 0 else Fraction(0)
                right = (1 - c[low]) * (n - 1) if high < n else Fraction(0)
                slope = max(left, right)
                intercept = c[low] - slope * x[low]
            else:
                slope = Fraction(n - 1) if 0 < low < n else Fraction(0)
                intercept = Fraction(1) if low == 0 else -slope * x[low - 1]
            if slope >= 0:
                predicted = [min(max(slope * x[i] + intercept, Fraction(0)), Fraction(1)) for i in range(n)]
                options.append((sum((p - v) ** 2 for p, v in zip(predicted, c, strict=True)), slope, sign))
    lowest = min(option[0] for option in options)
    best = min((option for option in options if option[0] == lowest), key=lambda option: option[1])
    return best[1] * best[2]


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(0, 8).map(lambda k: Fraction(k, 8)), min_size=3, max_size=9))
def test_slope_equals_exact_enumeration(curve):
    expected = exact_best_slope(curve)
    slope = diagnose([[float(value) for value in curve]], 1).fit_slope[0]
    assert abs(slope) == pytest.approx(float(abs(expected)), abs=1e-9)


def test_no_other_optimiser_finds_a_better_line():
    rng = np.random.default_rng(5)
    noise = 0.2 * rng.standard_normal((12, 41))
    x = np.arange(41) / 40
    curves = np.clip(rng.normal(0, 3, (12, 1)) * x + rng.normal(0.5, 1, (12, 1)) + noise, 0, 1)
    table = diagnose(curves, 5)
    starts = [(a, b) for a in (-6, -1.5, 0.1, 1.5, 6) for b in (-2, 0, 1, 3)]
    for index, curve in enumerate(curves):
        runs = [
            minimize(lambda p, c=curve: loss(p[0], p[1], c), s, method="Nelder-Mead", options={"maxiter": 400})
            for s in starts
        ]
        assert loss(table.fit_slope[index], table.fit_intercept[index], curve) <= min(r.fun for r in runs) + 1e-9


@settings(max_examples=60, deadline=None)
@given(curve_arrays, st.integers(1, 4))
def test_closed_forms_against_naive_loops(curve, window):
    n, m = len(curve), len(curve) - window + 1
    exact = [Fraction(value) for value in curve]
    smooth = [sum(exact[i : i + window]) / window for i in range(m)]
    found = diagnostics(curve, window=window)
    assert found.auc_raw == pytest.approx(float(sum(exact) / n), abs=1e-12)
    assert found.auc_smooth == pytest.approx(float(sum(smooth) / m), abs=1e-12)
    variance = sum((exact[i + window - 1] - smooth[i]) ** 2 for i in range(m)) / m
    assert found.variance == pytest.approx(float(variance), abs=1e-12)
    deviation = sum(abs(exact[i] - Fraction(i, n - 1)) for i in range(n)) / n
    assert found.deviation == pytest.approx(float(deviation), abs=1e-12)
    for name, values in (("quality_raw", exact), ("quality_smooth", smooth)):
        # Ranks of exact values: equal windows are ties, whatever the order their floats were added in.
        expected = None if len(set(values)) < 2 else spearmanr(range(len(values)), dense(values)).statistic
        actual = getattr(found, name)
        assert (actual is None) == (expected is None)
        if expected is not None:
            assert actual == pytest.approx(expected, abs=1e-12)


def dense(values):
    order = {value: place for place, value in enumerate(sorted(set(values)))}
    return [order[value] for value in values]


@settings(max_examples=40, deadline=None)
@given(curve_arrays)
def test_reversing_a_curve_flips_its_direction(curve):
    forward, backward = diagnostics(curve, window=2), diagnostics(curve[::-1].copy(), window=2)
    assert abs(forward.steepness) == pytest.approx(abs(backward.steepness), abs=1e-9)
    if forward.quality_raw is not None:
        assert forward.quality_raw == pytest.approx(-backward.quality_raw, abs=1e-12)


def test_batch_equals_single():
    curves = np.random.default_rng(3).random((9, 30))
    curves[4] = curves[2]
    table = diagnose(curves, 4)
    for index, curve in enumerate(curves):
        assert table.row(index) == diagnostics(curve, window=4)


@pytest.mark.parametrize(
    ("curve", "window", "says"),
    [
        ([0.5], 1, "two steps"),
        ([[0.5, 0.5]], 1, "one-dimensional"),
        ([0.1, 0.2], 3, "window 3"),
        ([0.1, 0.2], 0, "window 0"),
        ([0.1, float("nan")], 1, "never missing"),
        ([0.1, 1.1], 1, "[0, 1]"),
    ],
)
def test_bad_curves_are_refused(curve, window, says):
    with pytest.raises(InvalidInputError) as caught:
        diagnostics(curve, window=window)
    assert says in str(caught.value)
