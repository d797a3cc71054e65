"""Aligned plain text, for terminals, pipes and log files alike."""

import math
from collections.abc import Sequence
from typing import Any

CELL = 100  # longer cells are cut


def text_table(names: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """Header, rule and rows; numbers to the right. None is a dash: it was not measured."""
    cells = [[_cell(value) for value in row] for row in rows]
    widths = [max([len(name), *(len(row[i]) for row in cells)]) for i, name in enumerate(names)]
    numeric = [any(_is_number(row[i]) for row in rows) for i in range(len(names))]

    def line(values: Sequence[str]) -> str:
        aligned = zip(values, widths, numeric, strict=True)
        return "  ".join(v.rjust(w) if right else v.ljust(w) for v, w, right in aligned).rstrip()

    header = line(list(names))
    return "\n".join([header, "─" * len(header), *(line(row) for row in cells)])


def markdown_table(names: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """The same as GitHub-flavoured Markdown."""
    numeric = [any(_is_number(row[i]) for row in rows) for i in range(len(names))]
    lines = [list(names), ["---:" if right else "---" for right in numeric]]
    lines += [[_text(value).replace("|", "\\|") for value in row] for row in rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def number(value: float) -> str:
    """A short decimal: counts with thousands separators, others with four significant digits."""
    if isinstance(value, int):
        return f"{value:,}"
    if not math.isfinite(value):
        return str(value)
    return f"{value:,.0f}" if value == round(value) and abs(value) < 1e15 else f"{value:.4g}"


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _text(value: Any) -> str:
    if value is None:
        return "–"
    return number(value) if _is_number(value) else str(value).replace("\n", "⏎")


def _cell(value: Any) -> str:
    text = _text(value)
    return text if len(text) <= CELL else text[: CELL - 1] + "…"
