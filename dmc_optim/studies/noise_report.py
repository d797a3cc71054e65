"""Figures 11–13 and the headline figures of the timing-noise study."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict

import numpy as np

from dmc_optim.studies.charts import Axis, Guide, Line, line_chart
from dmc_optim.studies.noise import LCB_LIKE, NoiseKind, NoisePoint, NoiseStudyConfig
from dmc_optim.studies.report import Column, Figure, StudyReport, Table

_ACCURACY = Axis("accuracy", 0.4, 1.02)
_CHANCE = Guide("y", 0.5, "chance")

_COLUMNS = (
    Column("regime", "Regime"),
    Column("noise", "Noise"),
    Column("sigma", "σ", ".3g"),
    Column("n_tests", "Tests", "d"),
    Column("best_threshold", "Timeout, best fixed τ", ".3f"),
    Column("timeout_accuracy", "Timeout, oracle τ", ".3f"),
    Column("win_rate_accuracy", "Win rate", ".3f"),
)


def noise_report(config: NoiseStudyConfig, points: Sequence[NoisePoint]) -> StudyReport:
    """The study as tables, figures and facts."""
    headline = [_headline(points, regime.name, kind, config) for regime in config.regimes for kind in NoiseKind]
    facts = []
    for row in headline:
        if row["regime"] == LCB_LIKE.name and row["noise"] == NoiseKind.ADDITIVE:
            facts = [
                (f"timeout with an oracle threshold, {row['regime']}, σ = {row['sigma']:g} s", _share(row, "timeout")),
                (f"win rate, {row['regime']}, σ = {row['sigma']:g} s", _share(row, "win_rate")),
            ]
    return StudyReport(
        title="Can noisy timings tell the faster program?",
        lead=(
            "Two correct programs, one 20% slower on average, are timed with noise. How often does a timeout, and how "
            "often a win rate, name the faster one? 0.5 is chance; a metric that cannot decide scores one half."
        ),
        settings={k: v for k, v in asdict(config).items() if k in ("trials", "seed", "gap", "variability")},
        facts=[*facts, ("trials a point", f"{config.trials:,}")],
        tables=[
            Table("summary", "Accuracy at the regime's own test count", _COLUMNS, headline),
            Table("points", "Every point", _POINT_COLUMNS, [asdict(point) for point in points], True),
        ],
        figures=_figures(config, points),
        main_table="points",
        summary={"headline": headline},
    )


_POINT_COLUMNS = (
    Column("figure", "Figure", "d"),
    Column("regime", "Regime"),
    Column("noise", "Noise"),
    Column("sigma", "σ", ".3g"),
    Column("n_tests", "Tests", "d"),
    Column("threshold_s", "τ (s)", ".3g"),
    Column("timeout_accuracy", "Timeout", ".3f"),
    Column("win_rate_accuracy", "Win rate", ".3f"),
)


def _share(row: dict[str, object], metric: str) -> str:
    return f"{row[f'{metric}_accuracy']:.3f}"


def _chosen(points: Iterable[NoisePoint], figure: int, regime: str, kind: NoiseKind) -> list[NoisePoint]:
    return [p for p in points if p.figure == figure and p.regime == regime and p.noise == kind]


def _headline(
    points: Sequence[NoisePoint], regime: str, kind: NoiseKind, config: NoiseStudyConfig
) -> dict[str, object]:
    """The noise level of Figures 11 and 12 at the regime's own number of tests."""
    swept = _chosen(points, 11, regime, kind)
    level = swept[0].sigma
    oracle = min(_chosen(points, 13, regime, kind), key=lambda point: abs(point.sigma - level))
    return {
        "regime": regime,
        "noise": kind.value,
        "sigma": oracle.sigma,
        "n_tests": oracle.n_tests,
        "best_threshold": max(point.timeout_accuracy for point in swept),
        "timeout_accuracy": oracle.timeout_accuracy,
        "win_rate_accuracy": oracle.win_rate_accuracy,
    }


def _figures(config: NoiseStudyConfig, points: Sequence[NoisePoint]) -> list[Figure]:
    panels: dict[int, list[str]] = {11: [], 12: [], 13: []}
    for regime in config.regimes:
        for kind in NoiseKind:
            unit = "s" if kind is NoiseKind.ADDITIVE else "of the duration"
            axes = {
                11: (Axis("threshold τ (s)", log=True), "threshold_s", False),
                12: (Axis("tests a problem", log=True), "n_tests", True),
                13: (Axis(f"noise σ ({unit})"), "sigma", True),
            }
            for figure, (axis, key, marks) in axes.items():
                chosen = _chosen(points, figure, regime.name, kind)
                x = [float(getattr(point, key)) for point in chosen]
                if figure == 13:
                    axis, x = _even(axis, x)
                lines = [
                    Line("win rate", x, [p.win_rate_accuracy for p in chosen], 0, marks=marks),
                    Line("timeout", x, [p.timeout_accuracy for p in chosen], 1, marks=marks, dashed=True),
                ]
                panels[figure].append(line_chart(f"{regime.name}, {kind} noise", lines, axis, _ACCURACY, [_CHANCE]))
    levels = f"σ = {config.additive_s:g} s additive, {config.multiplicative:.0%} multiplicative"
    return [
        Figure(
            "Threshold fragility (Figure 11)",
            f"The win rate has no threshold; the timeout works in a narrow band at best. {levels}.",
            panels[11],
        ),
        Figure(
            "More tests help, but not equally (Figure 12)",
            f"The timeout is given an oracle threshold in every trial, so its curve is optimistic. {levels}.",
            panels[12],
        ),
        Figure(
            "The regimes part under additive noise (Figure 13)",
            "Noise grows along the axis (logarithmic steps; the leftmost point has none).",
            panels[13],
        ),
    ]


def _even(axis: Axis, sigmas: list[float]) -> tuple[Axis, list[float]]:
    """A logarithmic axis that also shows σ = 0, at half the smallest positive value."""
    positive = [sigma for sigma in sigmas if sigma > 0]
    floor = min(positive, default=1.0) / 2
    return Axis(axis.label, log=True), np.maximum(sigmas, floor).tolist()
