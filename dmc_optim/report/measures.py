"""What a statistic is: one figure of ours, the paper's beside it, with a unit; grouped in sections."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from dmc_optim.report.text import number


@dataclass(frozen=True)
class Measure:
    """One figure. ours is None when nothing was measured; paper is None when the paper does not say.

    unit: `count`, `share` (0 to 1), `points` (percentage points), `s`, `chars`, `usd` or `ratio`.
    """

    key: str
    label: str
    ours: float | None
    paper: float | None = None
    unit: str = "count"

    @property
    def ours_text(self) -> str:
        """Our figure with its unit."""
        return with_unit(self.ours, self.unit)

    @property
    def paper_text(self) -> str:
        """The paper's figure with its unit."""
        return with_unit(self.paper, self.unit)


@dataclass(frozen=True)
class Listing:
    """Problems named one by one. rows: cells of any kind, in the order of `names`."""

    title: str
    names: Sequence[str]
    rows: Sequence[Sequence[Any]]


@dataclass(frozen=True)
class Curve:
    """One line of a figure."""

    label: str
    x: Sequence[float]
    y: Sequence[float]


@dataclass(frozen=True)
class Chart:
    """Curves over a common axis. log_x, log_y: base-10 scales."""

    title: str
    x_label: str
    y_label: str
    curves: Sequence[Curve]
    log_x: bool = False
    log_y: bool = False


@dataclass(frozen=True)
class Section:
    """One table or figure of the paper on our data. source: which one. note: what to know before comparing.

    listed: the measures are printed one by one; False where a listing shows them all (they stay in the JSON).
    """

    key: str
    title: str
    source: str
    measures: Sequence[Measure] = ()
    listings: Sequence[Listing] = ()
    charts: Sequence[Chart] = ()
    note: str = ""
    listed: bool = True


@dataclass(frozen=True)
class Statistics:
    """All sections of a build."""

    sections: Sequence[Section] = field(default_factory=tuple)

    def __getitem__(self, key: str) -> Measure:
        """The measure `section.key`. Raises KeyError."""
        for section, measure in self.measures():
            if f"{section.key}.{measure.key}" == key:
                return measure
        raise KeyError(key)

    def measures(self) -> Iterator[tuple[Section, Measure]]:
        """Every figure with its section."""
        for section in self.sections:
            for measure in section.measures:
                yield section, measure

    def as_json(self) -> dict[str, Any]:
        """{section: {title, source, note, measures: {key: {label, ours, paper, unit}}, listings}}."""
        return {
            section.key: {
                "title": section.title,
                "source": section.source,
                "note": section.note,
                "measures": {
                    m.key: {"label": m.label, "ours": finite(m.ours), "paper": m.paper, "unit": m.unit}
                    for m in section.measures
                },
                "listings": {
                    listing.title: [dict(zip(listing.names, row, strict=True)) for row in listing.rows]
                    for listing in section.listings
                },
            }
            for section in self.sections
        }


def finite(value: float | None) -> float | None:
    """The value, or None when it is not a finite number."""
    return None if value is None or not math.isfinite(value) else value


def with_unit(value: float | None, unit: str) -> str:
    """A figure as people write it; a dash for what was not measured."""
    if value is None or not math.isfinite(value):
        return "–"
    if unit == "share":
        return f"{100 * value:.2f}%"
    if unit == "points":
        return f"{100 * value:.2f} pp"
    if unit == "s":
        return f"{value:,.1f} s" if value >= 100 else f"{value:.3g} s"
    if unit == "chars":
        return f"{number(value)} chars"
    if unit == "usd":
        return f"${value:,.2f}"
    return number(value)
