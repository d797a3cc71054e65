"""Output comparators: bytes in, a verdict and the first difference out (design of CES 2.1).

exact             byte for byte
trimmed           trailing whitespace of lines and trailing blank lines ignored, CRLF = LF (default)
tokens            whitespace-separated tokens, byte for byte
tokens_float:EPS  as tokens, but two decimal tokens may differ by EPS, absolute or relative

Comparison stops at the first difference and never holds more than one line or token of either side beyond the
two texts, so that a hostile output costs no more than a pass over the expected one.
"""

import io
import math
import re
from collections.abc import Callable, Iterator

from dmc_optim.errors import ConfigError

Difference = str | None  # None: equal; otherwise where and how the first difference is
Comparator = Callable[[bytes, bytes], Difference]

DEFAULT = "trimmed"
_FLOAT_CHARS = 1200  # any float64 written out in full; parsing millions of digits is quadratic
_SMALL = 1 << 16
_PREVIEW = 24
_TOKEN = re.compile(rb"[^ \t\n\r\x0b\x0c]+")
_INTEGER = re.compile(rb"[+-]?[0-9]+")
_DECIMAL = re.compile(rb"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")


def comparator(name: str) -> Comparator:
    """The comparator of that name; its arguments are (output, expected).

    Raises ConfigError for an unknown name or an unusable tolerance.
    """
    kind, _, parameter = name.partition(":")
    if kind == "tokens_float":
        return _tokens_float(name, parameter)
    if name in _PLAIN:
        return _PLAIN[name]
    raise ConfigError(f"comparator {name!r} is unknown: use exact, trimmed, tokens or tokens_float:EPS")


def _tokens_float(name: str, parameter: str) -> Comparator:
    try:
        tolerance = float(parameter)
    except ValueError:
        tolerance = -1.0
    if not (math.isfinite(tolerance) and tolerance >= 0):
        raise ConfigError(f"comparator {name!r}: the tolerance must be a number ≥ 0, for example tokens_float:1e-6")
    return lambda output, expected: _compare_tokens(output, expected, lambda a, b: _close(a, b, tolerance))


def _exact(output: bytes, expected: bytes) -> Difference:
    if output == expected:
        return None
    length = min(len(output), len(expected))
    at = next((i for i in range(0, length, 4096) if output[i : i + 4096] != expected[i : i + 4096]), length)
    at += next((i for i in range(min(4096, length - at)) if output[at + i] != expected[at + i]), 0)
    return f"byte {at + 1}: {_shown(output[at : at + 32])}, expected {_shown(expected[at : at + 32])}"


def _trimmed(output: bytes, expected: bytes) -> Difference:
    if output == expected:
        return None
    output, expected = output.rstrip(), expected.rstrip()
    if output == expected:
        return None
    lines, wanted = io.BytesIO(output), io.BytesIO(expected)
    number = 0
    while True:
        number += 1
        got, want = lines.readline(), wanted.readline()
        if got.rstrip() != want.rstrip() or bool(got) != bool(want):
            return f"line {number}: {_shown(got.rstrip())}, expected {_shown(want.rstrip())}"
        if not got:
            return None


def _compare_tokens(output: bytes, expected: bytes, equal: Callable[[bytes, bytes], bool] | None = None) -> Difference:
    if output == expected:
        return None
    if equal is None and max(len(output), len(expected)) < _SMALL and output.split() == expected.split():
        return None
    got_tokens, want_tokens = _tokens_of(output), _tokens_of(expected)
    number = 0
    while True:
        number += 1
        got, want = next(got_tokens, None), next(want_tokens, None)
        if got is None and want is None:
            return None
        if got is None or want is None or not (got == want or (equal is not None and equal(got, want))):
            return f"token {number}: {_shown(got)}, expected {_shown(want)}"


def _tokens_of(text: bytes) -> Iterator[bytes]:
    return (match.group() for match in _TOKEN.finditer(text))


def _close(got: bytes, want: bytes, tolerance: float) -> bool:
    """Whether two unequal tokens agree as numbers; integers only when they are the same integer."""
    if len(got) > _FLOAT_CHARS or len(want) > _FLOAT_CHARS:
        return False
    if not (_DECIMAL.fullmatch(got) and _DECIMAL.fullmatch(want)):
        return False
    if _INTEGER.fullmatch(got) and _INTEGER.fullmatch(want):
        return int(got) == int(want)
    a, b = float(got), float(want)
    if not (math.isfinite(a) and math.isfinite(b)):
        return False
    return abs(a - b) <= max(tolerance, tolerance * abs(b))


def _shown(text: bytes | None) -> str:
    if text is None or text == b"":
        return "nothing"
    shown = text[:_PREVIEW].decode("utf-8", "replace")
    return repr(shown) + ("…" if len(text) > _PREVIEW else "")


_PLAIN: dict[str, Comparator] = {"exact": _exact, "trimmed": _trimmed, "tokens": _compare_tokens}
