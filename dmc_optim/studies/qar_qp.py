"""QAR against QP: the same ranking information on two scales (paper D.3, Figure 41).

Each reference is the candidate against the others of its problem, so N_rank = |H|. Both scalars come from the
environments that reward with them.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import pearsonr, spearmanr

from dmc_optim.environments import Grid, parse
from dmc_optim.errors import ArtifactError
from dmc_optim.simulator.pool import SimulationPool
from dmc_optim.studies.charts import Axis, Guide, density_chart, histogram
from dmc_optim.studies.report import Column, Figure, StudyReport, Table

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class ProblemScalars:
    """qar, qp: (K,) in percentile points of a problem's references. n_tests: optimization tests; n_ranked: |H|."""

    problem_id: str
    qar: Floats
    qp: Floats
    n_tests: int
    n_ranked: int


@dataclass(frozen=True)
class Comparison:
    """Agreement over all references of all problems; points of 100. None where one scalar is constant."""

    references: int
    problems: int
    spearman: float | None
    pearson: float | None
    mean_difference: float
    percentile_90: float
    percentile_95: float
    mean_tests: float
    median_tests: float
    median_ranked: float
    median_resolution: float


def score_pool(pool: SimulationPool) -> list[ProblemScalars]:
    """Both scalars of every drawable reference, problem by problem."""
    grid = Grid([parse("qar(p=1)"), parse("qp(p=1)")])
    out = []
    for problem in pool.problems:
        signals = grid.evaluate(*problem.build(pool.calibration))
        qar, qp = 100 * signals.qar[0], 100 * signals.qp[1]
        n_references, n_tests = problem.duration_s.shape
        out.append(ProblemScalars(problem.problem_id, qar, qp, n_tests, n_references))
    return out


def compare(scores: Iterable[ProblemScalars]) -> Comparison:
    """Figure 41's statistics. Raises ArtifactError where nothing is ranked."""
    listed = list(scores)
    qar, qp = (np.concatenate([np.empty(0), *(getattr(s, name) for s in listed)]) for name in ("qar", "qp"))
    ranked = ~np.isnan(qar) & ~np.isnan(qp)
    qar, qp = qar[ranked], qp[ranked]
    if not len(qar):
        raise ArtifactError("no reference can be ranked: no problem has optimization tests with two references")
    difference = np.abs(qar - qp)
    varied = len(qar) > 2 and np.ptp(qar) > 0 and np.ptp(qp) > 0
    return Comparison(
        references=len(qar),
        problems=len(listed),
        spearman=float(spearmanr(qar, qp).statistic) if varied else None,
        pearson=float(pearsonr(qar, qp).statistic) if varied else None,
        mean_difference=float(difference.mean()),
        percentile_90=float(np.percentile(difference, 90)),
        percentile_95=float(np.percentile(difference, 95)),
        mean_tests=float(np.mean([s.n_tests for s in listed])),
        median_tests=float(np.median([s.n_tests for s in listed])),
        median_ranked=float(np.median([s.n_ranked for s in listed])),
        median_resolution=float(np.median([100 / max(1, s.n_ranked - 1) for s in listed])),
    )


def qar_qp_report(scores: list[ProblemScalars], comparison: Comparison, settings: dict[str, object]) -> StudyReport:
    """The comparison as tables, figures and facts."""
    qar, qp = (np.concatenate([getattr(s, name) for s in scores]) for name in ("qar", "qp"))
    row = vars(comparison)
    return StudyReport(
        title="Two scalars from one ranking: QAR and QP",
        lead=(
            "QAR is the mean per-test percentile a(y); QP the place that it gives on the problem's leaderboard. Each "
            "reference is ranked among the others of its problem; 0 is fastest."
        ),
        settings=settings,
        facts=[
            ("Spearman", _text(comparison.spearman)),
            ("Pearson", _text(comparison.pearson)),
            ("mean absolute difference, points", f"{comparison.mean_difference:.1f}"),
            ("references", f"{comparison.references:,}"),
            ("problems", f"{comparison.problems:,}"),
        ],
        tables=[
            Table("comparison", "Agreement", _COLUMNS, [row]),
            Table("problems", "Every problem", _PROBLEM_COLUMNS, [_problem_row(score) for score in scores], True),
        ],
        figures=[
            Figure(
                "The same order on two scales (Figure 41)",
                "Left: QP against QAR, darker where there are more references. Right: how far they are apart.",
                [
                    density_chart("QP against QAR", qar, qp, Axis("QAR", 0, 100), Axis("QP", 0, 100)),
                    histogram(
                        "|QAR − QP|",
                        np.abs(qar - qp),
                        Axis("points", low=0),
                        guides=[Guide("x", comparison.mean_difference, f"mean {comparison.mean_difference:.1f}")],
                    ),
                ],
                columns=2,
            )
        ],
        main_table="problems",
        summary=row,
    )


_COLUMNS = (
    Column("spearman", "Spearman", ".4f"),
    Column("pearson", "Pearson", ".4f"),
    Column("mean_difference", "Mean |QAR − QP|", ".1f"),
    Column("percentile_90", "90th", ".1f"),
    Column("percentile_95", "95th", ".1f"),
    Column("mean_tests", "Tests, mean", ".1f"),
    Column("median_tests", "median", ".0f"),
    Column("median_ranked", "Ranked, median", ".0f"),
    Column("median_resolution", "Resolution", ".2f"),
)
_PROBLEM_COLUMNS = (
    Column("problem_id", "Problem"),
    Column("n_tests", "Tests", "d"),
    Column("n_ranked", "Ranked", "d"),
    Column("mean_difference", "Mean |QAR − QP|", ".1f"),
)


def _text(value: float | None) -> str:
    return "–" if value is None else f"{value:.4f}"


def _problem_row(score: ProblemScalars) -> dict[str, object]:
    difference = np.abs(score.qar - score.qp)
    return {
        "problem_id": score.problem_id,
        "n_tests": score.n_tests,
        "n_ranked": score.n_ranked,
        "mean_difference": float(difference.mean()),
        "qar": score.qar.tolist(),
        "qp": score.qp.tolist(),
    }
