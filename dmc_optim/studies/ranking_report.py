"""Table 39 and Figure 40 of the ranking-metric study, with the noise-aware variants beside the 17 metrics."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from dmc_optim.ranking import METRICS
from dmc_optim.studies.charts import Axis, Dots, scatter_chart
from dmc_optim.studies.ranking import (
    AFFINE,
    FRESH,
    NAMES,
    QUADRATIC,
    SOURCES,
    UNCORRECTED,
    MetricSummary,
    ProblemScores,
    RankingStudyConfig,
)
from dmc_optim.studies.repeated import Repeated
from dmc_optim.studies.report import Column, Figure, StudyReport, Table

LABELS = {
    "mean": "Mean percentile",
    "median": "Median percentile",
    "trimmed_mean": "Trimmed mean percentile",
    "log_mean": "Log-space mean (the same ranks)",
    "top25_share": "Top-25 share",
    "top50_share": "Top-50 share",
    "total": "Total-duration percentile",
    "slope": "Slope, with intercept",
    "slope_zero_intercept": "Slope, zero intercept",
    "win_rate_mean": "Win rate against the mean",
    "win_rate_median": "Win rate against the median",
    "mean_drop_easiest_10": "Mean, easiest 10% dropped",
    "mean_drop_hardest_25": "Mean, hardest 25% dropped",
    "mean_drop_hardest_50": "Mean, hardest 50% dropped",
    "median_drop_easiest_10": "Median, easiest 10% dropped",
    "median_drop_hardest_25": "Median, hardest 25% dropped",
    "median_drop_hardest_50": "Median, hardest 50% dropped",
    "mean_drop_noisy": "Mean, tests within noise dropped",
    "mean_weighted": "Mean, weighted by reliability",
    "mean_soft": "Mean, soft comparisons",
    "mean_soft_weighted": "Mean, soft and weighted",
}
_COLUMNS = (
    Column("label", "Metric"),
    Column("cv_std_affine", "CV std affine", ".1f"),
    Column("cv_std_quadratic", "CV std poly", ".1f"),
    Column("cv_std_uncorrected", "CV std none", ".1f"),
    Column("rerun_text", "Noise"),
    Column("fixed_std", "Fixed board", ".1f"),
    Column("harshness", "Mean", ".1f"),
    Column("worst_share", "Worst tenth", ".0%"),
    Column("spread", "Spread", ".1f"),
    Column("resolution", "Spread/noise", ".1f"),
)
_READING = (
    "CV std: standard deviation of stored minus fresh score. Noise: standard deviation over runs, re-ranked in each "
    "run; fixed board: among stored durations"
)


def ranking_report(
    repeated: Repeated, config: RankingStudyConfig, scores: Sequence[ProblemScores], summaries: Sequence[MetricSummary]
) -> StudyReport:
    """The study as tables, figures and facts."""
    rows = [_row(summary) for summary in summaries]
    mean = next(summary for summary in summaries if summary.name == "mean")
    noisy = float(np.mean([score.noisy_share for score in scores]))
    runs = [len(problem.fresh) for problem in repeated.problems]
    return StudyReport(
        title="Which ranking score is stable, and still tells solutions apart?",
        lead=(
            "References play the candidate, each ranked among the others; all scores are percentile points with 0 "
            f"best. Timings: {repeated.origin}."
        ),
        settings={"candidates": config.candidates, "problems": len(scores), "runs": f"{min(runs)}–{max(runs)}"},
        facts=[
            ("problems", f"{len(scores)}"),
            ("runs a problem", f"{min(runs)}" if min(runs) == max(runs) else f"{min(runs)}–{max(runs)}"),
            ("rerun noise of the mean percentile, points", _text(mean.rerun_std)),
            ("its spread between strong and weak candidates, points", _text(mean.spread)),
            ("tests whose spread is within the noise", f"{noisy:.0%}"),
        ],
        tables=[
            Table(
                "metrics", f"The 17 metrics (Table 39). {_READING}", _COLUMNS, [r for r in rows if r["name"] in METRICS]
            ),
            Table("noise_aware", "Noise-aware variants", _COLUMNS, [r for r in rows if r["name"] not in METRICS]),
            Table("scores", "Every problem", _SCORE_COLUMNS, _score_rows(scores), True),
        ],
        figures=_figures(scores, summaries),
        main_table="scores",
        summary={"metrics": [asdict(summary) for summary in summaries], "noisy_test_share": noisy},
    )


def _text(value: float | None) -> str:
    return "–" if value is None else f"{value:.1f}"


def _row(summary: MetricSummary) -> dict[str, Any]:
    row = {key: value for key, value in asdict(summary).items() if not key.startswith("cv_")}
    row |= {f"cv_std_{source}": value for source, value in summary.cv_std.items()}
    row |= {f"cv_bias_{source}": value for source, value in summary.cv_bias.items()}
    spread = "" if summary.rerun_std_spread is None else f" ± {summary.rerun_std_spread:.1f}"
    text = "–" if summary.rerun_std is None else f"{summary.rerun_std:.1f}{spread}"
    return {"label": LABELS[summary.name], **row, "rerun_text": text}


_SCORE_COLUMNS = (
    Column("problem_id", "Problem"),
    Column("metric", "Metric"),
    Column("source", "Compared with"),
    Column("mean", "Mean score", ".1f"),
    Column("rerun_std", "Rerun noise", ".2f"),
)


def _score_rows(scores: Sequence[ProblemScores]) -> list[dict[str, Any]]:
    rows = []
    for score in scores:
        for source, values in score.values.items():
            mean, std = _moments(values)
            for index, name in enumerate(NAMES):
                rows.append(
                    {
                        "problem_id": score.problem_id,
                        "metric": name,
                        "source": source,
                        "mean": _finite_mean(mean[index]),
                        "rerun_std": _finite_mean(std[index]),
                        "candidates": mean[index].tolist(),
                    }
                )
    return rows


def _moments(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and sample standard deviation over the runs, (metrics, K); NaN where a run is not defined."""
    return values.mean(axis=1), values.std(axis=1, ddof=1)


def _finite_mean(values: np.ndarray) -> float | None:
    finite = values[np.isfinite(values)]
    return float(finite.mean()) if len(finite) else None


def _figures(scores: Sequence[ProblemScores], summaries: Sequence[MetricSummary]) -> list[Figure]:
    sources = [source for source in SOURCES[1:] if all(source in score.values for score in scores)]
    grid = [_panel(scores, index, source) for index in range(len(NAMES)) for source in sources]
    words = {UNCORRECTED: "uncorrected", AFFINE: "affine", QUADRATIC: "quadratic"}
    return [
        Figure(
            "Noise against spread",
            "A good score is to the right (it tells solutions apart) and low (a rerun gives the same number).",
            [_overview(summaries)],
            columns=1,
        ),
        Figure(
            "Stored against fresh (Figure 40)",
            "A dot is one candidate of one problem: its score among fresh durations across, among stored ones up. "
            "Ellipses are one standard deviation over the runs. Good panels are close to the diagonal, have small "
            f"ellipses and use the whole axis. Corrections, in order: {', '.join(words[s] for s in sources)}; "
            "fits have not seen the problem.",
            grid,
            columns=len(sources),
        ),
    ]


def _overview(summaries: Sequence[MetricSummary]) -> str:
    groups = []
    for label, colour, chosen in (
        ("the 17 metrics", 0, [s for s in summaries if s.name in METRICS and s.name != "log_mean"]),
        ("noise-aware", 1, [s for s in summaries if s.name not in METRICS]),
    ):
        known = [s for s in chosen if s.spread is not None and s.rerun_std is not None]
        x, y = [s.spread for s in known], [s.rerun_std for s in known]
        groups.append(
            Dots(label, np.array(x, float), np.array(y, float), colour, names=[s.name for s in known], written=True)
        )
    x_axis = Axis("spread between strong and weak candidates (points)")
    return scatter_chart("All scores", groups, x_axis, Axis("rerun noise (points)", low=0), size=(760, 460))


def _panel(scores: Sequence[ProblemScores], index: int, source: str) -> str:
    """One candidate a problem; problem after problem takes the next one, so that strong and weak ones are shown."""
    points = []
    for place, score in enumerate(scores):
        fresh, stored = score.values[FRESH][index], score.values[source][index]
        k = place % fresh.shape[1]
        points.append((fresh[:, k].mean(), stored[:, k].mean(), fresh[:, k].std(ddof=1), stored[:, k].std(ddof=1)))
    x, y, rx, ry = np.array(points, dtype=np.float64).T
    dots = Dots("", x, y, 0, rx, ry, [score.problem_id for score in scores])
    return scatter_chart(
        f"{LABELS[NAMES[index]]}, {source}", [dots], Axis("fresh", 0, 100), Axis("stored", 0, 100), diagonal=True
    )
