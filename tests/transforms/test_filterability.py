"""Eq. 6 and its floor, recomputed; reasons in their order; time-outs as the cap."""

import statistics

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dmc_optim.config import FilterabilityConfig
from schemas.enums import Reason
from transforms.filterability import assess, mean_durations

CONFIG = FilterabilityConfig()


def quantile(values: list[float], q: float) -> float:
    """Linear interpolation between order statistics, written out."""
    ordered = sorted(values)
    position = q * (len(ordered) - 1)
    low = int(position)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (position - low) * (ordered[high] - ordered[low])


@given(st.lists(st.floats(1e-4, 10), min_size=2, max_size=30))
def test_robust_cv_equals_its_definition(durations: list[float]) -> None:
    means = {f"t{i:02d}": d for i, d in enumerate(durations)}
    figures, drop = assess(means, {t: i for i, t in enumerate(means)}, CONFIG)
    iqr = quantile(durations, 0.75) - quantile(durations, 0.25)
    cv = iqr / quantile(durations, 0.5)
    assert figures["robust_cv"] == pytest.approx(cv, rel=1e-9, abs=1e-12)
    assert figures["iqr_s"] == pytest.approx(iqr, rel=1e-9, abs=1e-12)
    if abs(cv - 0.3) > 1e-9 and abs(iqr - 0.02) > 1e-9:
        assert (drop is None) == (cv >= 0.3 and iqr >= 0.02)


def test_reasons_in_their_order() -> None:
    def reason(*durations: float) -> str | None:
        means = {f"t{i}": d for i, d in enumerate(durations)}
        drop = assess(means, dict.fromkeys(means, 1), CONFIG)[1]
        return None if drop is None else drop.reason

    assert reason() == Reason.TOO_FEW_TESTS
    assert reason(1.0) == Reason.TOO_FEW_TESTS
    assert reason(0.0, 0.0, 0.0) == Reason.ZERO_MEDIAN
    assert reason(1.0, 1.0, 1.1) == Reason.LOW_CV
    assert reason(0.004, 0.008, 0.012) == Reason.BELOW_RESOLUTION
    assert reason(0.1, 0.2, 0.3) is None


def test_the_thresholds_themselves_are_filterable() -> None:
    means = {"a": 1.0, "b": 2.0, "c": 3.0}  # IQR 1, median 2
    assert assess(means, dict.fromkeys(means, 1), FilterabilityConfig(robust_cv=0.5, min_iqr_s=1.0))[1] is None


def test_a_timeout_counts_as_the_cap_and_is_reported() -> None:
    rows = [
        {"test_id": "t", "solution_id": "a", "status": "success", "duration_s": 2.0},
        {"test_id": "t", "solution_id": "b", "status": "timeout", "duration_s": 10.4},
        {"test_id": "t", "solution_id": "c", "status": "infrastructure", "duration_s": None},
        {"test_id": "t", "solution_id": "dropped", "status": "success", "duration_s": 9.0},
        {"test_id": "removed", "solution_id": "a", "status": "success", "duration_s": 9.0},
    ]
    assert mean_durations(rows, {"t"}, {"a", "b", "c"}, 10.0) == ({"t": 6.0}, 0.5)
    assert mean_durations([], {"t"}, {"a"}, 10.0) == ({}, None)


def test_length_filterable_is_pearson_and_none_where_constant() -> None:
    means = {"a": 0.1, "b": 0.2, "c": 0.4}
    lengths = {"a": 10, "b": 19, "c": 41}
    figures, _ = assess(means, lengths, CONFIG)
    assert figures["pearson_r"] == pytest.approx(statistics.correlation([10, 19, 41], [0.1, 0.2, 0.4]))
    assert figures["length_filterable"]
    constant, _ = assess(means, dict.fromkeys(means, 7), CONFIG)
    assert constant["pearson_r"] is None
    assert not constant["length_filterable"]
    assert not np.isnan(figures["robust_cv"])
