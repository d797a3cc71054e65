"""The adaptive option's words: what a second prompt says of measurements and survivors."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dmc_optim.llm.adaptive import (
    SHOWN,
    MeasuredInput,
    Spread,
    durations_part,
    shown_survivor,
    survivor_part,
)
from dmc_optim.llm.prompts import build_prompt


def measured(*durations, method="large"):
    return [MeasuredInput(method, 100 + i, d) for i, d in enumerate(durations)]


def test_the_prompt_says_what_was_measured_and_what_is_wanted():
    part = durations_part(measured(0.5, 0.4, 0.6), Spread(0.2, 0.1, 0.5), 0.3, 0.02)
    text = build_prompt("optimization", "Add.", "print(1)", [part]).messages[1]["content"]
    lines = [line for line in text.split("\n") if line.startswith("- `large`, ")]
    assert lines == [
        f"- `large`, {n} characters: {d} s" for n, d in ((101, "0.4000"), (100, "0.5000"), (102, "0.6000"))
    ]
    assert "0.1000 s around a median of 0.5000 s, a ratio of 0.20 where at least 0.3" in text


@pytest.mark.parametrize(
    ("durations", "words"),
    [
        ((0.001, 0.002, 0.003), "Even the slowest input is too small"),
        ((0.001, 0.002, 0.003, 0.9), "Most inputs are too small to measure"),
        ((0.5, 0.51, 0.52, 0.001), "Most inputs take about the same time"),
    ],
)
def test_the_advice_follows_from_the_measurements(durations, words):
    assert words in durations_part(measured(*durations), Spread(None, 0.0, 0.0), 0.3, 0.02).text


@given(st.lists(st.floats(0, 10), min_size=1, max_size=200))
def test_a_long_list_is_thinned_and_keeps_both_ends(durations):
    text = durations_part(measured(*durations), Spread(0.1, 0.1, 1.0), 0.3, 0.02).text
    shown = [float(value) for value in re.findall(r"characters: ([0-9.]+) s", text)]
    assert 1 <= len(shown) <= SHOWN + 1 and shown == sorted(shown)
    assert shown[0] == float(f"{min(durations):.4f}") and shown[-1] == float(f"{max(durations):.4f}")


def test_the_survivor_is_shown_whatever_it_contains():
    part = survivor_part("print('```')\n")
    assert "````python\nprint('```')\n````" in part.text and part.template == "survivor"


def test_every_survivor_is_shown_before_any_is_shown_twice():
    survivors = ["c", "a", "b"]
    shown = [shown_survivor(1, "t/0", extra, survivors) for extra in range(6)]
    assert sorted(shown[:3]) == ["a", "b", "c"] and shown[3:] == shown[:3]
    assert shown == [shown_survivor(1, "t/0", extra, survivors[::-1]) for extra in range(6)]
    assert len({shown_survivor(seed, "t/0", 0, survivors) for seed in range(20)}) == 3
