"""Calibration campaigns as tables and plots: the paper's Tables 31-33, Figure 32, beside the paper's own figures."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from dmc_optim.ces.calibration.agreement import spearman
from dmc_optim.ces.calibration.analysis import Analysis
from dmc_optim.ces.calibration.fit import FORMULAS, Fit
from dmc_optim.ces.calibration.grid import PAPER_CAMPAIGN_1, PAPER_CAMPAIGN_2
from dmc_optim.ces.calibration.noise import Summary
from dmc_optim.studies.charts import Axis, Dots, Guide, Line, line_chart, scatter_chart
from dmc_optim.studies.report import Column, Figure, StudyReport, Table
from schemas.enums import CalibrationFamily

Row = dict[str, Any]

PAPER_NOISE = {
    "Duration CV across runs (%)": ("9.1", "8.2", "3.5 – 18.0"),
    "Duration std. across runs (ms)": ("12.4", "9.9", "6.2 – 26.7"),
    "Pooled duration (s)": ("0.160", "0.108", "0.080 – 6.38"),
    "Mean-percentile std. across runs (points)": ("2.1", "2.0", "1.1 – 4.5"),
}
PAPER_FAMILIES = {  # what the text says; the table itself is not in it
    CalibrationFamily.MULTIPLICATIVE: "CV R² 0.900",
    CalibrationFamily.AFFINE: "α 0.6306, β 0.0529, CV R² 0.9933, 13.9 ms",
    CalibrationFamily.QUADRATIC: "CV R² 0.9936, 13.7 ms",
}


def calibration_report(analyses: Sequence[Analysis], extra: Sequence[Table] = ()) -> StudyReport:
    """One report for one or more campaigns, oldest first; the tables are those of the last, and the change over all.

    extra: further tables, put behind. Raises ArtifactError when the chosen family of the last could not be fitted.
    """
    last = analyses[-1]
    fit = last.fit
    tables = [
        Table("families", f"Correction families, {_name(last)} (Table 32)", _FAMILY_COLUMNS, family_rows(last)),
        Table("short_run_noise", f"Short-run noise, {_name(last)} (Table 31)", _NOISE_COLUMNS, noise_rows(last)),
        Table("variance", "Variance decomposition of raw durations (C.7)", _VARIANCE_COLUMNS, variance_rows(last)),
        Table("ranking", "Ranking of fresh candidates by stored references (C.7)", _RANK_COLUMNS, rank_rows(last)),
        Table("campaigns", "Campaigns", _CAMPAIGN_COLUMNS, [campaign_row(a) for a in analyses]),
    ]
    first = _before(analyses)
    if first is not None:
        names = (Column("first", _name(first), ".5g"), Column("second", _name(last), ".5g"))
        columns = (Column("parameter", "Parameter"), *names, *_STABILITY_COLUMNS)
        tables.insert(
            2, Table("stability", "Change between campaigns (Table 33)", columns, stability_rows(first, last))
        )
    return StudyReport(
        title=f"Calibration of stored durations, {_name(last)}",
        lead=(
            "Stored reference durations beside fresh ones of the same (problem, test, solution) triples, averaged"
            " over repeated runs. Every error is of predictions for problems that the fit has not seen."
        ),
        settings={"campaign": last.loaded.campaign, "chosen": last.chosen.value, "weighting": fit.weighting.value},
        facts=_facts(last, fit),
        tables=[*tables, *extra],
        figures=_figures(analyses),
        main_table="families",
        summary=_summary(last, fit),
    )


_FAMILY_COLUMNS = (
    Column("family", "Family"),
    Column("formula", "d̂(d)"),
    Column("coefficients", "Coefficients"),
    Column("cv_r2", "CV R²", ".4f"),
    Column("cv_rmse_ms", "CV RMSE (ms)", ".2f"),
    Column("cv_relative", "CV error (rel.)", ".1%"),
    Column("train_r2", "Train R²", ".4f"),
    Column("spearman", "Spearman", ".3f"),
    Column("bias", "Bias (points)", "+.1f"),
    Column("n_pairs", "Pairs", ",d"),
    Column("note", "Note"),
    Column("paper", "Paper"),
)
_NOISE_COLUMNS = (
    Column("statistic", "Statistic"),
    Column("mean", "Mean", ".3f"),
    Column("median", "Median", ".3f"),
    Column("low", "p5 or min", ".3f"),
    Column("high", "p95 or max", ".3f"),
    Column("n", "n", ",d"),
    Column("paper_mean", "Paper: mean"),
    Column("paper_median", "median"),
    Column("paper_range", "range"),
)
_VARIANCE_COLUMNS = (
    Column("part", "Part"),
    Column("variance_s2", "Variance (s²)", ".3e"),
    Column("share", "Share", ".2%"),
    Column("paper_s2", "Paper (s²)", ".5f"),
    Column("paper_share", "Paper: share", ".1%"),
)
_RANK_COLUMNS = (Column("figure", "Figure"), Column("value", "Ours", ".3f"), Column("paper", "Paper"))
_CAMPAIGN_COLUMNS = (
    Column("campaign", "Campaign"),
    Column("epochs", "Epochs"),
    Column("problems", "Problems", "d"),
    Column("references", "References", ",d"),
    Column("tests", "Tests", ",d"),
    Column("problem_runs", "Problem runs", ",d"),
    Column("dropped_runs", "dropped", ",d"),
    Column("raw_pairs", "Raw pairs", ",d"),
    Column("n_pairs", "Pooled", ",d"),
    Column("short_share", "Under 1 ms", ".0%"),
    Column("censored_pairs", "Timed out", ",d"),
    Column("failed", "Failed", ",d"),
    Column("inconclusive", "No verdict", ",d"),
    Column("other_epoch", "Other epoch", ",d"),
)
_STABILITY_COLUMNS = (
    Column("delta", "Δ", "+.4g"),
    Column("relative", "Δ (%)", "+.1%"),
    Column("paper", "Paper: 1 → 2"),
)


def family_rows(analysis: Analysis) -> list[Row]:
    """Table 32: one row a family, also for one that could not be fitted."""
    rows = []
    for family in CalibrationFamily:
        row: Row = {"family": family.value, "formula": FORMULAS[family], "paper": PAPER_FAMILIES.get(family)}
        fit = analysis.fits.get(family)
        if fit is None:
            row |= {"note": analysis.unfitted[family], "coefficients": None}
        else:
            row |= {
                "coefficients": ", ".join(f"{value:.6g}" for value in fit.coefficients),
                "values": list(fit.coefficients),
                "cv_r2": fit.cv_r2,
                "cv_rmse_ms": 1000 * fit.cv_rmse_s,
                "cv_relative": fit.cv_relative,
                "train_r2": fit.train_r2,
                "spearman": analysis.agreements[family].spearman_all_after,
                "bias": analysis.agreements[family].bias_after,
                "n_pairs": fit.n_pairs,
                "note": "chosen" if family is analysis.chosen else "",
            }
        rows.append(row)
    return rows


def noise_rows(analysis: Analysis) -> list[Row]:
    """Table 31."""
    noise = analysis.noise
    values = (
        ("Duration CV across runs (%)", noise.cv, 100.0),
        ("Duration std. across runs (ms)", noise.std_s, 1000.0),
        ("Pooled duration (s)", noise.pooled_s, 1.0),
        ("Mean-percentile std. across runs (points)", noise.mean_percentile_std, 1.0),
    )
    return [_noise_row(name, summary, scale) for name, summary, scale in values]


def variance_rows(analysis: Analysis) -> list[Row]:
    """Between and within triples; the paper's parts were computed apart and do not add up exactly."""
    v = analysis.variance
    shares = (v.between_share, v.within_share, 1.0 if v.total > 0 else None)
    paper = ((0.02906, 0.971), (0.00027, 0.009), (0.02994, 1.0))
    names = ("between triples", "within triples (repeated runs)", "total")
    return [
        {"part": name, "variance_s2": value, "share": share, "paper_s2": theirs, "paper_share": their_share}
        for name, value, share, (theirs, their_share) in zip(
            names, (v.between, v.within, v.total), shares, paper, strict=True
        )
    ]


def rank_rows(analysis: Analysis) -> list[Row]:
    """Agreement of stored with fresh rankings."""
    a = analysis.agreement
    if a is None:
        return []
    biased = f"{a.same_side_before} of {a.n_problems}"
    return [
        {"figure": "Spearman before correction, one candidate a problem", "value": a.spearman_before, "paper": "0.54"},
        {"figure": "Spearman after correction", "value": a.spearman_after, "paper": "0.96"},
        {"figure": f"Spearman before, {a.n_candidates} references as candidates", "value": a.spearman_all_before},
        {"figure": "Spearman after, the same", "value": a.spearman_all_after},
        {"figure": "Mean bias before (points)", "value": a.bias_before, "paper": "19.6 (size)"},
        {"figure": "Mean bias after (points)", "value": a.bias_after},
        {"figure": "Problems biased to one side before", "value": biased, "paper": "29 of 33"},
        {"figure": "Std. of (corrected − fresh) over problems (points)", "value": a.diff_std_after, "paper": "3.8"},
    ]


def campaign_row(analysis: Analysis) -> Row:
    """What the campaign ran, and what entered the fit."""
    loaded, problems = analysis.loaded, analysis.loaded.problems
    short = sum(int((p.mean[p.usable] < 1e-3).sum()) for p in problems)
    return {
        "campaign": loaded.campaign,
        "epochs": f"{loaded.from_epoch} → {loaded.to_epoch}",
        "problems": sum(bool(p.usable.any()) for p in problems),
        "references": sum(int(p.usable.any(axis=0).sum()) for p in problems),
        "tests": sum(int(p.usable.any(axis=1).sum()) for p in problems),
        "problem_runs": loaded.problem_runs,
        "dropped_runs": loaded.dropped_runs,
        "raw_pairs": loaded.raw,
        "n_pairs": analysis.n_pairs,
        "short_share": short / analysis.n_pairs if analysis.n_pairs else None,
        "censored_pairs": analysis.censored_pairs,
        "failed": loaded.failed,
        "inconclusive": loaded.inconclusive,
        "other_epoch": loaded.other_epoch,
        "fresh_to_stored": analysis.ratio,
    }


def stability_rows(first: Analysis, second: Analysis) -> list[Row]:
    """Table 33 between two campaigns, with the rank correlation of their candidates' profiles (C.8)."""
    one, two = first.fits.get(CalibrationFamily.AFFINE), second.fits.get(CalibrationFamily.AFFINE)
    rows = []
    if one is not None and two is not None:
        paper = (PAPER_CAMPAIGN_1, PAPER_CAMPAIGN_2)
        rows = [
            _change("α (slope)", one.coefficients[0], two.coefficients[0], f"{paper[0].alpha} → {paper[1].alpha}"),
            _change("β (intercept, s)", one.coefficients[1], two.coefficients[1], "0.053 → 0.038"),
            _change("Train R²", one.train_r2, two.train_r2, "0.9945 → 0.9858"),
            _change("CV R²", one.cv_r2, two.cv_r2, "0.9933 → 0.9820"),
            _change("CV RMSE (s)", one.cv_rmse_s, two.cv_rmse_s, "0.014 → 0.023"),
        ]
    common = sorted(first.profile.keys() & second.profile.keys())
    rho = spearman([first.profile[p] for p in common], [second.profile[p] for p in common])
    return [*rows, {"parameter": f"Spearman of {len(common)} profiles", "second": rho, "paper": "0.99"}]


def _noise_row(name: str, summary: Summary | None, scale: float) -> Row:
    mean, median, span = PAPER_NOISE[name]
    paper = {"paper_mean": mean, "paper_median": median, "paper_range": span}
    if summary is None:
        return {"statistic": name, "n": 0, **paper}
    values = {key: value * scale for key, value in asdict(summary).items() if key != "n"}
    return {"statistic": name, **values, "n": summary.n, **paper}


def _change(name: str, one: float | None, two: float | None, paper: str) -> Row:
    delta = two - one if one is not None and two is not None else None
    relative = delta / abs(one) if delta is not None and one else None
    return {"parameter": name, "first": one, "second": two, "delta": delta, "relative": relative, "paper": paper}


def _before(analyses: Sequence[Analysis]) -> Analysis | None:
    """The last analysis of an earlier campaign."""
    earlier = [a for a in analyses if a.loaded.campaign != analyses[-1].loaded.campaign]
    return earlier[-1] if earlier else None


def _name(analysis: Analysis) -> str:
    return f"{analysis.loaded.campaign} (epoch {analysis.loaded.from_epoch} → {analysis.loaded.to_epoch})"


def _facts(analysis: Analysis, fit: Fit) -> list[tuple[str, str]]:
    facts = [
        (f"{fit.family.value} correction, {FORMULAS[fit.family]}", ", ".join(f"{c:.6g}" for c in fit.coefficients)),
        ("R² on unseen problems", "–" if fit.cv_r2 is None else f"{fit.cv_r2:.4f}"),
        ("error on unseen problems", f"{1000 * fit.cv_rmse_s:.2f} ms"),
        ("pooled pairs", f"{fit.n_pairs:,}"),
    ]
    if analysis.warning is not None:
        facts.append(("warning", analysis.warning))
    if analysis.noise.cv is not None:
        facts.append(("duration CV over runs, median", f"{analysis.noise.cv.median:.2%}"))
    return facts


def _summary(analysis: Analysis, fit: Fit) -> Row:
    return {
        "campaign": analysis.loaded.campaign,
        "from_epoch": analysis.loaded.from_epoch,
        "to_epoch": analysis.loaded.to_epoch,
        "chosen": {**asdict(fit), "coefficients": list(fit.coefficients)},
        "variance": asdict(analysis.variance),
        "noise": asdict(analysis.noise),
        "warning": analysis.warning,
        "agreement": asdict(analysis.agreement) if analysis.agreement else None,
        "profile": analysis.profile,
    }


def _figures(analyses: Sequence[Analysis]) -> list[Figure]:
    last = analyses[-1]
    stored, fresh = last.residuals
    x = Axis("stored duration (s)", log=True)
    lowest, highest = float(stored.min()), float(stored.max())
    grid = np.geomspace(lowest, highest if highest > lowest else lowest * 2, 60)
    curves = [
        Line(family.value, grid, fit.predict(grid), colour, marks=False)
        for colour, (family, fit) in enumerate(last.fits.items())
    ]
    residuals = [
        scatter_chart(
            f"{family.value}: fresh − fitted",
            [Dots(family.value, stored, 1000 * (fresh - fit.predict(stored)), colour)],
            x,
            _residual_axis(last),
            [Guide("y", 0.0)],
        )
        for colour, (family, fit) in enumerate(last.fits.items())
    ]
    y = Axis("fresh duration (s)", log=True)
    figures = [
        Figure(
            "Stored against fresh durations",
            f"{len(stored):,} of {last.n_pairs:,} pairs, fresh ones averaged over the runs; and the fitted curves.",
            [scatter_chart("Pairs", [Dots("pair", stored, fresh)], x, y), line_chart("Fits", curves, x, y)],
        ),
        Figure(
            "Residuals by family (Figure 32)",
            "A family with structure left in its residuals misses something that the service does.",
            residuals,
        ),
    ]
    first = _before(analyses)
    if first is not None:
        figures.append(_profile_figure(first, last))
    return figures


def _residual_axis(analysis: Analysis) -> Axis:
    """One scale for all families, wide enough for nearly all residuals of the worst."""
    stored, fresh = analysis.residuals
    worst = [float(np.percentile(np.abs(fresh - fit.predict(stored)), 99.5)) for fit in analysis.fits.values()]
    limit = 1000 * max(max(worst), 1e-6)
    return Axis("residual (ms)", -limit, limit)


def _profile_figure(first: Analysis, second: Analysis) -> Figure:
    common = sorted(first.profile.keys() & second.profile.keys())
    dots = Dots("problem", [first.profile[p] for p in common], [second.profile[p] for p in common], names=common)
    x, y = Axis(f"{first.loaded.campaign} (%)", 0.0, 100.0), Axis(f"{second.loaded.campaign} (%)", 0.0, 100.0)
    return Figure(
        "The same problems stay easy (C.8)",
        "Mean percentile of each problem's candidate among fresh references, in two campaigns.",
        [scatter_chart("Mean percentile of the candidate", [dots], x, y, diagonal=True)],
    )
