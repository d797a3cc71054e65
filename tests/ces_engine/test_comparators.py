import math
import re
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dmc_optim.ces.comparators import comparator
from dmc_optim.errors import ConfigError

pieces = st.sampled_from(
    [b"a", b"b", b"1", b"-2", b"0.5", b"1e3", b"nan", b" ", b"\t", b"\n", b"\r\n", b"\r", b"\xff", b"7"]
)
texts = st.lists(pieces, max_size=14).map(b"".join)


def naive_trimmed(text: bytes) -> list[bytes]:
    lines = [re.sub(rb"[ \t\r\n\x0b\x0c]+$", b"", line) for line in text.split(b"\n")]
    while lines and not lines[-1]:
        lines.pop()
    return lines


def naive_number(token: bytes) -> float | int | None:
    text = token.decode("latin-1")
    if re.fullmatch(r"[+-]?\d+", text, re.ASCII):
        return int(text)
    if re.fullmatch(r"[+-]?(\d+\.\d*|\.\d+|\d+)([eE][+-]?\d+)?", text, re.ASCII):
        return float(text)
    return None


def naive_tokens_float(output: bytes, expected: bytes, tolerance: float) -> bool:
    left, right = output.split(), expected.split()
    if len(left) != len(right):
        return False
    for got, want in zip(left, right, strict=True):
        if got == want:
            continue
        a, b = naive_number(got), naive_number(want)
        if a is None or b is None or (isinstance(a, int) and isinstance(b, int) and a != b):
            return False
        if not (abs(a - b) <= tolerance or abs(a - b) <= tolerance * abs(b)):
            return False
    return True


@given(texts, texts)
@settings(max_examples=400, deadline=None)
def test_trimmed_agrees_with_a_naive_reading(output: bytes, expected: bytes) -> None:
    assert (comparator("trimmed")(output, expected) is None) == (naive_trimmed(output) == naive_trimmed(expected))


@given(texts, texts)
@settings(max_examples=400, deadline=None)
def test_tokens_and_exact_agree_with_a_naive_reading(output: bytes, expected: bytes) -> None:
    assert (comparator("tokens")(output, expected) is None) == (output.split() == expected.split())
    assert (comparator("exact")(output, expected) is None) == (output == expected)


@given(texts, texts, st.sampled_from([0.0, 1e-6, 0.5, 600.0]))
@settings(max_examples=400, deadline=None)
def test_tokens_float_agrees_with_a_naive_reading(output: bytes, expected: bytes, tolerance: float) -> None:
    found = comparator(f"tokens_float:{tolerance}")(output, expected) is None
    assert found == naive_tokens_float(output, expected, tolerance)


@given(st.floats(-1e6, 1e6), st.floats(-1e6, 1e6))
@settings(max_examples=200, deadline=None)
def test_tolerance_is_absolute_or_relative(a: float, b: float) -> None:
    close = comparator("tokens_float:1e-3")(f"{a:.9f}".encode(), f"{b:.9f}".encode()) is None
    left, right = float(f"{a:.9f}"), float(f"{b:.9f}")
    assert close == (
        f"{a:.9f}" == f"{b:.9f}" or math.isclose(left, right, rel_tol=0, abs_tol=1e-3 * max(1, abs(right)))
    )


@given(texts)
@settings(max_examples=100, deadline=None)
def test_every_comparator_accepts_equal_texts_and_never_raises(text: bytes) -> None:
    for name in ("exact", "trimmed", "tokens", "tokens_float:1e-9"):
        assert comparator(name)(text, text) is None
        comparator(name)(text, b"\xff\x00" + text)


@pytest.mark.parametrize(
    ("output", "expected", "name", "equal"),
    [
        (b"1 2 3  \n\n", b"1 2 3\n", "trimmed", True),
        (b"a\r\nb\r\n", b"a\nb", "trimmed", True),
        (b"\na\n", b"a\n", "trimmed", False),  # leading blank lines count
        (b" a\n", b"a\n", "trimmed", False),
        (b"ab", b"a b", "tokens", False),
        (b"89.6\n", b"89.600000\n", "tokens_float:1e-6", True),
        (b"89.6\n", b"89.600000\n", "tokens", False),
        (b"nan\n", b"1.0\n", "tokens_float:1e-6", False),
        (b"inf\n", b"1e999\n", "tokens_float:1e-6", False),
        (b"50000000000000001", b"50000000000000000", "tokens_float:1e-6", False),
        (b"+5 007", b"5 7", "tokens_float:0", True),
        (b"1_0", b"10", "tokens_float:1", False),
        ("１".encode(), b"1", "tokens_float:1", False),
        (b"2.0", b"2", "tokens_float:0", True),
    ],
)
def test_known_pairs(output: bytes, expected: bytes, name: str, equal: bool) -> None:
    assert (comparator(name)(output, expected) is None) == equal


@pytest.mark.parametrize(
    "output",
    [b"9" * 5_000_000, b" " * 5_000_000 + b"x", b"\n" * 5_000_000 + b"2", b"1\n" * 2_000_000, b"0." + b"1" * 5_000_000],
    ids=["digits", "spaces", "lines", "tokens", "decimals"],
)
@pytest.mark.parametrize("name", ["exact", "trimmed", "tokens", "tokens_float:1e-6"])
def test_hostile_outputs_cost_little(output: bytes, name: str) -> None:
    started = time.process_time()
    assert comparator(name)(output, b"8\n") is not None
    assert time.process_time() - started < 5.0  # a quadratic comparison would take minutes


@pytest.mark.parametrize(
    "name", ["", "fuzzy", "tokens_float", "tokens_float:", "tokens_float:x", "tokens_float:nan", "tokens_float:-1"]
)
def test_unknown_comparators_are_refused_in_one_line(name: str) -> None:
    with pytest.raises(ConfigError, match="comparator"):
        comparator(name)


def test_the_difference_says_where() -> None:
    assert comparator("trimmed")(b"a\nb\nX\n", b"a\nb\nc\n") == "line 3: 'X', expected 'c'"
    assert comparator("tokens")(b"1 2", b"1 2 3") == "token 3: nothing, expected '3'"
    assert comparator("exact")(b"abc", b"abd") == "byte 3: 'c', expected 'd'"
