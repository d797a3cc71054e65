"""Durations of the retained tests: pooled quantiles, per-problem tails, CCDFs (paper Tables 21, 22; Figures 23, 24).

A test's duration is its mean over the reference solutions of its problem, a timeout counting as the time limit.
"""

from dataclasses import dataclass

import duckdb
import numpy as np
from numpy.typing import NDArray

from dmc_optim.report.measures import Chart, Curve, Measure, Section

Connection = duckdb.DuckDBPyConnection
Floats = NDArray[np.float64]
GROUPS = ("original", "correctness", "optimization")
CATEGORIES = ("public", "private", "generated", "correctness", "optimization")
GRID = tuple(float(x) for x in np.geomspace(1e-4, 10.0, 76))
_PAPER_POOLED: dict[str, dict[str, float]] = {
    "original": {"tests": 106_974, "mean": 0.088, "p90": 0.090, "p95": 0.145, "p99": 0.463, "over_1": 0.0042},
    "correctness": {"tests": 118_551, "mean": 0.137, "p90": 0.209, "p95": 0.407, "p99": 1.378, "over_1": 0.0154},
    "optimization": {"tests": 119_420, "mean": 0.334, "p90": 0.736, "p95": 1.296, "p99": 3.710, "over_1": 0.0687},
}
_PAPER_TAIL = {
    (0.5, "original"): 0.025,
    (0.5, "correctness"): 0.148,
    (0.5, "optimization"): 0.394,
    (1.0, "original"): 0.012,
    (1.0, "correctness"): 0.052,
    (1.0, "optimization"): 0.189,
}
_SHORT = {"correctness": "correct.", "optimization": "optim."}  # five names share one legend line
_PAPER_CHARS = {"public": 18, "private": 24, "generated": 31, "correctness": 36, "optimization": 928}


@dataclass(frozen=True)
class Durations:
    """One entry a test. problem: index of its problem; category: index into CATEGORIES; d: seconds; chars: size."""

    problem: NDArray[np.int64]
    category: NDArray[np.int64]
    d: Floats
    chars: Floats

    def group(self, name: str) -> NDArray[np.bool_]:
        """Mask of a test group or a single category; `original` pools three."""
        if name == "original":
            return self.category < CATEGORIES.index("correctness")
        return self.category == CATEGORIES.index(name)


def test_durations(connection: Connection, scope: str, time_limit_s: float) -> Durations:
    """Mean duration of every retained test. scope: `train` (RL pool, train split) or `cleaned` (whole corpus)."""
    where = "pool = 'rl' AND split = 'train'" if scope == "train" else "true"
    arrays = connection.execute(
        f"""
        SELECT dense_rank() OVER (ORDER BY problem_id) - 1 AS problem,
               list_position({list(CATEGORIES)!r}, category) - 1 AS category, d, n_chars::DOUBLE AS chars
        FROM (SELECT r.problem_id, r.test_id, t.category, t.n_chars,
                     avg(CASE WHEN r.status = 'timeout' THEN {time_limit_s!r} ELSE r.duration_s END) AS d
              FROM reference_durations r JOIN splits USING (problem_id) JOIN tests t USING (problem_id, test_id)
              WHERE {where} AND r.status IN ('success', 'timeout') GROUP BY ALL)
        """
    ).fetchnumpy()
    return Durations(
        np.asarray(arrays["problem"], dtype=np.int64),
        np.asarray(arrays["category"], dtype=np.int64),
        np.asarray(arrays["d"], dtype=np.float64),
        np.asarray(arrays["chars"], dtype=np.float64),
    )


test_durations.__test__ = False  # type: ignore[attr-defined]  # not a pytest function


def timing_sections(connection: Connection, time_limit_s: float) -> list[Section]:
    """The train split beside the paper, then the whole cleaned corpus for scale."""
    sections = []
    for scope, words in (("train", "RL train split"), ("cleaned", "whole cleaned corpus")):
        durations = test_durations(connection, scope, time_limit_s)
        sections += [_pooled(durations, scope, words), _tails(durations, scope, words)]
    return sections


def _pooled(durations: Durations, scope: str, words: str) -> Section:
    measures = []
    for group in GROUPS:
        d = durations.d[durations.group(group)]
        quantiles = np.quantile(d, [0.90, 0.95, 0.99]) if d.size else [None] * 3
        ours: dict[str, float | None] = {
            "tests": d.size,
            "mean": float(d.mean()) if d.size else None,
            **{f"p{p}": None if q is None else float(q) for p, q in zip((90, 95, 99), quantiles, strict=True)},
            "over_1": float((d > 1).mean()) if d.size else None,
        }
        labels = {
            "tests": "tests",
            "mean": "mean",
            "p90": "p90",
            "p95": "p95",
            "p99": "p99",
            "over_1": "share over 1 s",
        }
        units = {"tests": "count", "over_1": "share"}
        for key, label in labels.items():
            paper = _PAPER_POOLED[group][key] if scope == "train" else None
            measures.append(Measure(f"{group}_{key}", f"{group}: {label}", ours[key], paper, units.get(key, "s")))
    for category in CATEGORIES:
        chars = durations.chars[durations.group(category)]
        paper = _PAPER_CHARS[category] if scope == "train" else None
        ours_chars = float(np.median(chars)) if chars.size else None
        measures.append(Measure(f"{category}_chars", f"{category}: median input + output", ours_chars, paper, "chars"))
    note = "The paper's durations hold about 0.065 s of fixed cost a run; ours are the program's own time."
    charts = _ccdf_charts(durations) if durations.d.size else []
    return Section(
        f"durations_{scope}", f"Pooled durations, {words}", "Table 21, Figure 24a", measures, charts=charts, note=note
    )


def _tails(durations: Durations, scope: str, words: str) -> Section:
    n_problems = int(durations.problem.max()) + 1 if durations.problem.size else 0
    measures = [Measure("problems", "problems", n_problems, 1_000 if scope == "train" else None)]
    for threshold in (0.5, 1.0):
        for group in GROUPS:
            share = _share_over(durations, group, threshold)
            for key, label, ours, paper in (
                ("some", "with some test", share > 0, None),
                ("tenth", "with at least 10% of tests", share >= 0.1, _PAPER_TAIL[threshold, group]),
            ):
                value = float(ours.mean()) if share.size else None
                measures.append(
                    Measure(
                        f"{group}_{key}_{threshold:g}",
                        f"{group}: problems {label} over {threshold:g} s",
                        value,
                        paper if scope == "train" else None,
                        "share",
                    )
                )
    charts = _tail_charts(durations) if n_problems else []
    return Section(
        f"tails_{scope}", f"Per-problem tails, {words}", "Table 22, Figures 23, 24b", measures, charts=charts
    )


def _share_over(durations: Durations, group: str, threshold: float) -> Floats:
    """Per problem that has tests of the group: the share of them over the threshold."""
    mask = durations.group(group)
    if not mask.any():
        return np.empty(0)
    problems, d = durations.problem[mask], durations.d[mask]
    counts = np.bincount(problems)
    over = np.bincount(problems, weights=d > threshold, minlength=len(counts))
    return np.asarray(over[counts > 0] / counts[counts > 0])


def _ccdf_charts(durations: Durations) -> list[Chart]:
    curves = []
    for category in CATEGORIES:
        d = np.sort(durations.d[durations.group(category)])
        if d.size:
            over = 1 - np.searchsorted(d, GRID, side="right") / d.size
            curves.append(Curve(_SHORT.get(category, category), GRID, over.tolist()))
    log_curves = [Curve(c.label, *_positive(c.x, c.y)) for c in curves]
    return [
        Chart("Share of tests over a duration", "seconds", "share of tests", curves, log_x=True),
        Chart("The same, logarithmic", "seconds", "share of tests", log_curves, log_x=True, log_y=True),
    ]


def _positive(x: object, y: object) -> tuple[list[float], list[float]]:
    xs, ys = np.asarray(x, float), np.asarray(y, float)
    return xs[ys > 0].tolist(), ys[ys > 0].tolist()


def _tail_charts(durations: Durations) -> list[Chart]:
    mean_tail, prevalence, quantiles = [], [], []
    for group in GROUPS:
        if not durations.group(group).any():
            continue
        shares = [_share_over(durations, group, threshold) for threshold in GRID]
        mean_tail.append(Curve(group, GRID, [float(share.mean()) for share in shares]))
        prevalence.append(Curve(group, GRID, [float((share >= 0.1).mean()) for share in shares]))
        quantiles.append(Curve(group, *_problem_quantile(durations, group, 0.9)))
    return [
        Chart(
            "Mean over problems of the share of slow tests", "threshold (s)", "share of tests", mean_tail, log_x=True
        ),
        Chart("Problems with at least 10% slow tests", "threshold (s)", "share of problems", prevalence, log_x=True),
        Chart("p90 of each problem's tests, sorted", "problem", "seconds", quantiles, log_y=True),
    ]


def _problem_quantile(durations: Durations, group: str, q: float) -> tuple[list[float], list[float]]:
    mask = durations.group(group)
    problems, d = durations.problem[mask], durations.d[mask]
    values = sorted((float(np.quantile(d[problems == p], q)) for p in np.unique(problems)), reverse=True)
    return [float(i + 1) for i in range(len(values))], [max(v, 1e-4) for v in values]
