"""Small charts as SVG text: lines, scatters with ellipses, histograms, densities. No dependency, no script.

Colours are CSS variables (`--c0` … `--c7`, `--ink`, `--muted`, `--rule`) that the page defines, so a chart follows the
page's light or dark theme.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dmc_optim.errors import InvalidInputError

Floats = NDArray[np.float64]

WIDTH, HEIGHT = 380, 260
_LEFT, _RIGHT, _TOP, _BOTTOM = 48, 12, 30, 40


@dataclass(frozen=True)
class Axis:
    """One axis. low, high: data range, from the data where None; log: base-10 scale, positive values only."""

    label: str
    low: float | None = None
    high: float | None = None
    log: bool = False

    def fitted(self, values: ArrayLike, margin: float = 0.0) -> "Axis":
        """The axis with a range that holds all finite values. margin: share of a linear range added at open ends."""
        data = np.asarray(values, dtype=np.float64).ravel()
        data = data[np.isfinite(data) & (data > 0 if self.log else True)]
        low = self.low if self.low is not None else float(data.min()) if data.size else 0.1
        high = self.high if self.high is not None else float(data.max()) if data.size else 1.0
        if not high > low:
            low, high = (low / 2, low * 2) if self.log else (low - 0.5, low + 0.5)
        pad = 0.0 if self.log else margin * (high - low)
        low, high = low - pad * (self.low is None), high + pad * (self.high is None)
        return Axis(self.label, low, high, self.log)

    def share(self, value: ArrayLike) -> Floats:
        """Position of values along the axis, 0 at `low` and 1 at `high`. Needs a fitted axis."""
        low, high = self._range()
        data = np.asarray(value, dtype=np.float64)
        if self.log:
            return np.asarray(np.log(np.maximum(data, 1e-300) / low) / np.log(high / low))
        return np.asarray((data - low) / (high - low))

    def ticks(self) -> list[float]:
        """Round values inside the range, five or so."""
        low, high = self._range()
        if self.log:
            decades = np.arange(np.floor(np.log10(low)), np.ceil(np.log10(high)) + 1)
            marks = (1.0,) if len(decades) > 3 else (1.0, 2.0, 5.0)
            values = np.array([mark * 10.0**decade for decade in decades for mark in marks])
        else:
            rough = (high - low) / 5
            base = 10.0 ** np.floor(np.log10(rough))
            step = base * min((m for m in (1, 2, 2.5, 5, 10) if m * base >= rough * 0.999), default=10)
            values = np.arange(np.ceil(low / step - 1e-9), np.floor(high / step + 1e-9) + 1) * step
        slack = 1e-9 * (high - low)
        return [float(v) for v in values if low - slack <= v <= high + slack]

    def _range(self) -> tuple[float, float]:
        if self.low is None or self.high is None:
            raise InvalidInputError(f"axis {self.label!r} has no range yet; call fitted() first")
        return self.low, self.high


@dataclass(frozen=True)
class Line:
    """A polyline. colour: index into the page's palette. marks: draw a dot at every point."""

    label: str
    x: ArrayLike
    y: ArrayLike
    colour: int = 0
    dashed: bool = False
    marks: bool = True


@dataclass(frozen=True)
class Dots:
    """Points, each with an optional ellipse of half-widths rx, ry in data units, and an optional name.

    written: write the names beside the points; otherwise they show on hover.
    """

    label: str
    x: ArrayLike
    y: ArrayLike
    colour: int = 0
    rx: ArrayLike | None = None
    ry: ArrayLike | None = None
    names: Sequence[str] = field(default_factory=tuple)
    written: bool = False


@dataclass(frozen=True)
class Guide:
    """A dotted reference line at a value of one axis ('x' or 'y'), with a few words."""

    axis: str
    value: float
    label: str = ""


def line_chart(title: str, lines: Sequence[Line], x: Axis, y: Axis, guides: Sequence[Guide] = ()) -> str:
    """Lines over a common x axis, with a legend where there are two or more."""
    frame = _Frame(title, x.fitted(_joined(line.x for line in lines)), y.fitted(_joined(line.y for line in lines)))
    parts = [frame.guide(guide) for guide in guides]
    for line in lines:
        px, py = frame.at(line.x, line.y)
        dash = ' stroke-dasharray="5 4"' if line.dashed else ""
        path = " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(px, py, strict=True))
        colour = f"var(--c{line.colour})"
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.8"{dash}/>')
        if line.marks:
            parts += [
                f'<circle cx="{a:.1f}" cy="{b:.1f}" r="2.4" fill="{colour}"><title>{escape(line.label)}: '
                f"{_number(u)}, {_number(v)}</title></circle>"
                for a, b, u, v in zip(px, py, np.asarray(line.x, float), np.asarray(line.y, float), strict=True)
            ]
    legend = [(line.label, line.colour, line.dashed) for line in lines] if len(lines) > 1 else []
    return frame.svg(parts, legend)


def scatter_chart(
    title: str,
    groups: Sequence[Dots],
    x: Axis,
    y: Axis,
    guides: Sequence[Guide] = (),
    diagonal: bool = False,
    size: tuple[int, int] = (WIDTH, HEIGHT),
) -> str:
    """Groups of points; with `diagonal`, the line y = x. size: of the drawing, in its own units."""
    x, y = x.fitted(_joined(g.x for g in groups), 0.04), y.fitted(_joined(g.y for g in groups), 0.04)
    frame = _Frame(title, x, y, size)
    parts = [frame.guide(guide) for guide in guides]
    if diagonal:
        (x0, y0), (x1, y1) = frame.point(frame.x._range()[0]), frame.point(frame.x._range()[1])
        parts.append(f'<line x1="{x0:.1f}" y1="{y0:.1f}" x2="{x1:.1f}" y2="{y1:.1f}" class="diagonal"/>')
    for group in groups:
        parts += frame.dots(group)
    parts += frame.names([group for group in groups if group.written])
    return frame.svg(parts, [(g.label, g.colour, False) for g in groups] if len(groups) > 1 else [])


def histogram(title: str, values: ArrayLike, x: Axis, bins: int = 40, guides: Sequence[Guide] = ()) -> str:
    """Share of the finite values in each bin, percent."""
    data = np.asarray(values, dtype=np.float64).ravel()
    data = data[np.isfinite(data)]
    axis = x.fitted(data)
    counts, edges = np.histogram(data, bins=bins, range=axis._range())
    heights = 100.0 * counts / max(1, data.size)
    frame = _Frame(title, axis, Axis("share of values (%)", 0.0, float(max(heights.max(initial=0), 1e-9)) * 1.08))
    parts = []
    for height, low, high in zip(heights, edges[:-1], edges[1:], strict=True):
        (x0, x1), (y0, y1) = frame.at([low, high], [0.0, height])
        parts.append(
            f'<rect x="{x0 + 0.5:.1f}" y="{y1:.1f}" width="{max(x1 - x0 - 1, 0.5):.1f}" height="{y0 - y1:.1f}" '
            f'fill="var(--c0)"><title>{_number(low)} to {_number(high)}: {height:.2f}%</title></rect>'
        )
    return frame.svg([*parts, *(frame.guide(guide) for guide in guides)], [])


def density_chart(title: str, x_values: ArrayLike, y_values: ArrayLike, x: Axis, y: Axis, bins: int = 50) -> str:
    """Two-dimensional histogram on a logarithmic colour scale, with the line y = x."""
    xs, ys = np.asarray(x_values, float).ravel(), np.asarray(y_values, float).ravel()
    frame = _Frame(title, x.fitted(xs), y.fitted(ys))
    counts, x_edges, y_edges = np.histogram2d(xs, ys, bins=bins, range=[frame.x._range(), frame.y._range()])
    depth = np.log1p(counts) / max(np.log1p(counts.max(initial=0)), 1e-9)
    parts = []
    for i, j in zip(*np.nonzero(counts), strict=True):
        (x0, x1), (y0, y1) = frame.at(x_edges[i : i + 2], y_edges[j : j + 2])
        parts.append(
            f'<rect x="{x0:.1f}" y="{y1:.1f}" width="{x1 - x0 + 0.3:.1f}" height="{y0 - y1 + 0.3:.1f}" '
            f'fill="var(--c0)" fill-opacity="{0.12 + 0.88 * depth[i, j]:.2f}"><title>{int(counts[i, j])}</title></rect>'
        )
    (x0, y0), (x1, y1) = frame.point(frame.x._range()[0]), frame.point(frame.x._range()[1])
    parts.append(f'<line x1="{x0:.1f}" y1="{y0:.1f}" x2="{x1:.1f}" y2="{y1:.1f}" class="diagonal"/>')
    return frame.svg(parts, [])


class _Frame:
    """Plot area with axes: maps data to pixels and wraps the marks."""

    def __init__(self, title: str, x: Axis, y: Axis, size: tuple[int, int] = (WIDTH, HEIGHT)) -> None:
        self.title, self.x, self.y, self.size = title, x, y, size
        self.width, self.height = size[0] - _LEFT - _RIGHT, size[1] - _TOP - _BOTTOM

    def at(self, x: ArrayLike, y: ArrayLike) -> tuple[Floats, Floats]:
        """Pixels of data points, clipped a little outside the plot area."""
        px = _LEFT + np.clip(self.x.share(x), -0.02, 1.02) * self.width
        return px, _TOP + (1 - np.clip(self.y.share(y), -0.02, 1.02)) * self.height

    def point(self, both: float) -> tuple[float, float]:
        """Pixel of the data point (both, both)."""
        px, py = self.at([both], [both])
        return float(px[0]), float(py[0])

    def dots(self, group: Dots) -> list[str]:
        """Marks of one group of points."""
        px, py = self.at(group.x, group.y)
        colour = f"var(--c{group.colour})"
        marks = []
        if group.rx is not None and group.ry is not None:
            rx = np.abs(self.x.share(np.asarray(group.x, float) + group.rx) - self.x.share(group.x)) * self.width
            ry = np.abs(self.y.share(np.asarray(group.y, float) + group.ry) - self.y.share(group.y)) * self.height
            marks += [
                f'<ellipse cx="{a:.1f}" cy="{b:.1f}" rx="{u:.1f}" ry="{v:.1f}" fill="{colour}" fill-opacity="0.12" '
                f'stroke="{colour}" stroke-opacity="0.5" stroke-width="0.7"/>'
                for a, b, u, v in zip(px, py, rx, ry, strict=True)
                if np.isfinite(a + b + u + v)
            ]
        for index, (a, b) in enumerate(zip(px, py, strict=True)):
            if np.isfinite(a + b):
                name = f"<title>{escape(group.names[index])}</title>" if index < len(group.names) else ""
                marks.append(f'<circle cx="{a:.1f}" cy="{b:.1f}" r="2.6" fill="{colour}">{name}</circle>')
        return marks

    def names(self, groups: Sequence[Dots]) -> list[str]:
        """Names beside their points, moved down where they would cover one another."""
        texts = []
        for group in groups:
            px, py = self.at(group.x, group.y)
            texts += [(b, a, name, group.colour) for a, b, name in zip(px, py, group.names, strict=True)]
        marks, taken = [], list[tuple[float, float, float]]()
        for b, a, name, colour in sorted(texts):
            width, y = 5.2 * len(name), b + 3
            left = a > _LEFT + 0.5 * self.width
            start = a - 8 - width if left else a + 8
            while any(abs(y - other) < 11 and start < end and begin < start + width for other, begin, end in taken):
                y += 2
            taken.append((y, start, start + width))
            edge = start + width if left else start
            line = f'<line x1="{a:.1f}" y1="{b:.1f}" x2="{edge:.1f}" y2="{y - 3:.1f}" stroke="var(--c{colour})"'
            marks.append(f'{line} stroke-width="0.6"/>')
            anchor = "end" if left else "start"
            marks.append(f'<text x="{edge:.1f}" y="{y:.1f}" text-anchor="{anchor}" class="note">{escape(name)}</text>')
        return marks

    def guide(self, guide: Guide) -> str:
        """A dotted line across the plot area."""
        if guide.axis == "x":
            (px,), _ = self.at([guide.value], [self.y._range()[0]])
            ends = f'x1="{px:.1f}" y1="{_TOP}" x2="{px:.1f}" y2="{_TOP + self.height}"'
            words = f'<text x="{px + 4:.1f}" y="{_TOP + 10}" class="note">{escape(guide.label)}</text>'
        else:
            _, (py,) = self.at([self.x._range()[0]], [guide.value])
            ends = f'x1="{_LEFT}" y1="{py:.1f}" x2="{_LEFT + self.width}" y2="{py:.1f}"'
            words = (
                f'<text x="{_LEFT + self.width - 2}" y="{py - 4:.1f}" text-anchor="end" class="note">'
                f"{escape(guide.label)}</text>"
            )
        return f'<line {ends} class="guide"/>{words if guide.label else ""}'

    def svg(self, marks: Sequence[str], legend: Sequence[tuple[str, int, bool]]) -> str:
        """The whole picture."""
        inner = [*self._axes(), *marks, *self._legend(legend)]
        width, height = self.size
        return (
            f'<svg class="chart" viewBox="0 0 {width} {height}" role="img" aria-label="{escape(self.title)}">'
            f'<text x="{_LEFT}" y="14" class="title">{escape(self.title)}</text>{"".join(inner)}</svg>'
        )

    def _axes(self) -> list[str]:
        bottom, right = _TOP + self.height, _LEFT + self.width
        parts = []
        for tick in self.x.ticks():
            (px,), _ = self.at([tick], [self.y._range()[0]])
            parts.append(f'<line x1="{px:.1f}" y1="{_TOP}" x2="{px:.1f}" y2="{bottom}" class="grid"/>')
            parts.append(f'<text x="{px:.1f}" y="{bottom + 14}" text-anchor="middle">{_number(tick)}</text>')
        for tick in self.y.ticks():
            _, (py,) = self.at([self.x._range()[0]], [tick])
            parts.append(f'<line x1="{_LEFT}" y1="{py:.1f}" x2="{right}" y2="{py:.1f}" class="grid"/>')
            parts.append(f'<text x="{_LEFT - 6}" y="{py + 3.5:.1f}" text-anchor="end">{_number(tick)}</text>')
        middle_x, middle_y = _LEFT + self.width / 2, _TOP + self.height / 2
        x_label, y_label = escape(self.x.label), escape(self.y.label)
        parts.append(f'<text x="{middle_x}" y="{self.size[1] - 8}" text-anchor="middle" class="label">{x_label}</text>')
        turn = f'transform="translate(12 {middle_y}) rotate(-90)"'
        parts.append(f'<text {turn} text-anchor="middle" class="label">{y_label}</text>')
        return parts

    def _legend(self, entries: Sequence[tuple[str, int, bool]]) -> list[str]:
        parts, x = [], float(_LEFT)
        for label, colour, dashed in entries:
            dash = ' stroke-dasharray="4 3"' if dashed else ""
            swatch = f'<line x1="{x:.0f}" y1="23" x2="{x + 14:.0f}" y2="23" stroke="var(--c{colour})"{dash}'
            parts.append(f'{swatch} stroke-width="2.5"/>')
            parts.append(f'<text x="{x + 18:.0f}" y="26" class="note">{escape(label)}</text>')
            x += 30 + 5.4 * len(label)
        return parts


def _joined(parts: object) -> Floats:
    arrays = [np.asarray(part, dtype=np.float64).ravel() for part in parts]  # type: ignore[attr-defined]
    return np.concatenate([np.empty(0), *arrays])


def _number(value: float) -> str:
    """A short decimal: 0, 0.05, 12.5, 1e+06."""
    return "0" if value == 0 else f"{value:.3g}" if abs(value) < 1e5 else f"{value:.0e}"
