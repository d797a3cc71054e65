"""Do stored references rank a fresh candidate as fresh references do? Before and after correction (paper C.7, C.8)."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import ArrayLike

from dmc_optim.ces.calibration.fit import Array, predict
from dmc_optim.ces.calibration.runs import ProblemRuns
from dmc_optim.ranking import References, rank_many
from schemas.enums import CalibrationFamily

Folds = dict[int, tuple[float, ...]]
"""Position of a problem → coefficients fitted without it."""


@dataclass(frozen=True)
class RankAgreement:
    """Mean percentiles of the same fresh candidates against stored and against fresh references.

    Each problem has one seeded candidate, a reference taken out of its own leaderboard (the paper has a model's
    solution there). spearman_before, spearman_after: over the problems' candidates, before and after correction;
    spearman_all_*: over every reference as candidate; None below three. bias_*: mean of (stored − fresh) in percentile
    points, and same_side_before: how many of n_problems lean to the more frequent side before correction.
    diff_std_after: the standard deviation of (corrected − fresh) over problems, points.
    """

    spearman_before: float | None
    spearman_after: float | None
    spearman_all_before: float | None
    spearman_all_after: float | None
    bias_before: float | None
    bias_after: float | None
    same_side_before: int
    diff_std_after: float | None
    n_problems: int
    n_candidates: int


def candidate_of(problem: ProblemRuns, seed: int) -> int:
    """Position of the reference that plays the candidate: seeded, among those usable on the most tests."""
    coverage = problem.usable.sum(axis=0)
    if not coverage.size:
        return 0
    best = np.flatnonzero(coverage == coverage.max())
    rng = np.random.default_rng([seed, *problem.problem_id.encode()])
    return int(best[rng.integers(best.size)])


def run_percentiles(
    fresh: Array, references: Array, candidates: Sequence[int], calibration: Callable[[Array], Array] | None = None
) -> Array:
    """(R, K) mean percentile of each candidate reference against the others, in points, 0 fastest.

    fresh: (R, T, S) seconds; candidate k of run r has the durations fresh[r, :, k]. references: (R, T, S), or (T, S)
    for the same board in every run. calibration: correction of the references, elementwise. NaN is missing: a test
    counts only where the candidate was timed and the board without it is not empty; NaN where no test counts. The
    percentile is the reward path's QAR (D.2).
    """
    boards = np.broadcast_to(references, fresh.shape)
    rows = list(candidates)
    percentiles = np.full((len(fresh), len(rows)), np.nan)
    for run, (durations, board) in enumerate(zip(fresh, boards, strict=True)):
        delta = durations[:, rows].T
        pool = References(board.T, calibration)
        ranked = rank_many(delta, pool, weights=np.isfinite(delta).astype(float), exclude=rows)
        percentiles[run] = 100.0 * ranked.qar
    return percentiles


def rank_agreement(
    problems: Sequence[ProblemRuns],
    folds: Folds,
    family: CalibrationFamily,
    seed: int = 0,
    max_candidates: int = 50,
) -> RankAgreement:
    """`rank_agreements` of one family."""
    return rank_agreements(problems, {family: folds}, seed, max_candidates)[family]


def rank_agreements(
    problems: Sequence[ProblemRuns],
    folds: Mapping[CalibrationFamily, Folds],
    seed: int = 0,
    max_candidates: int = 50,
) -> dict[CalibrationFamily, RankAgreement]:
    """How well stored references rank fresh candidates, before and after correction by each family.

    folds: family → position of a problem → coefficients fitted without it, so that no problem is corrected by a fit
    that has seen it. max_candidates bounds the references a problem contributes as candidates (seeded choice).
    """
    main: dict[CalibrationFamily, list[Array]] = {family: [np.empty((0, 3))] for family in folds}
    every: dict[CalibrationFamily, list[Array]] = {family: [np.empty((0, 3))] for family in folds}
    for position, problem in enumerate(problems):
        if not problem.usable.any():
            continue
        rows = _candidates(problem, seed, max_candidates)
        fresh = problem.usable_fresh
        stored = np.where(problem.usable, problem.stored, np.nan)
        before = _mean_over_runs(run_percentiles(fresh, stored, rows))
        truth = _mean_over_runs(run_percentiles(fresh, fresh, rows))
        for family, coefficients in folds.items():
            gamma = partial(predict, family, coefficients[position])
            after = _mean_over_runs(run_percentiles(fresh, stored, rows, gamma))
            means = np.column_stack([before, after, truth])
            main[family].append(means[:1])
            every[family].append(means)
    return {
        family: _agreement(_complete(np.concatenate(main[family])), _complete(np.concatenate(every[family])))
        for family in folds
    }


def profile(problems: Sequence[ProblemRuns], seed: int = 0) -> dict[str, float]:
    """Problem → mean percentile of its candidate among fresh references over all runs, points.

    The candidate depends only on seed, problem and usable triples; comparing two campaigns' profiles asks whether the
    same problems stay easy (paper C.8: Spearman 0.99).
    """
    values = {}
    for problem in problems:
        if problem.usable.any():
            runs = run_percentiles(problem.usable_fresh, problem.usable_fresh, [candidate_of(problem, seed)])
            if np.isfinite(runs).any():
                values[problem.problem_id] = float(np.nanmean(runs))
    return values


def spearman(x: ArrayLike, y: ArrayLike) -> float | None:
    """Spearman correlation; None below three points, and where one side is constant."""
    from scipy import stats

    a, b = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    if a.size < 3 or np.ptp(a) == 0 or np.ptp(b) == 0:
        return None
    return float(stats.spearmanr(a, b).statistic)


def _candidates(problem: ProblemRuns, seed: int, limit: int) -> list[int]:
    """The problem's candidate first, then other references."""
    chosen = candidate_of(problem, seed)
    others = [s for s in range(len(problem.solution_ids)) if s != chosen]
    if len(others) >= limit:
        rng = np.random.default_rng([seed, 1, *problem.problem_id.encode()])
        others = sorted(int(s) for s in rng.choice(others, size=limit - 1, replace=False))
    return [chosen, *others]


def _mean_over_runs(percentiles: Array) -> Array:
    known = np.isfinite(percentiles)
    runs = known.sum(axis=0)
    total = np.where(known, percentiles, 0.0).sum(axis=0)
    return np.where(runs > 0, total / np.maximum(runs, 1), np.nan)


def _complete(rows: Array) -> Array:
    return np.asarray(rows[np.isfinite(rows).all(axis=1)])


def _agreement(main: Array, every: Array) -> RankAgreement:
    before, after = main[:, 0] - main[:, 2], main[:, 1] - main[:, 2]
    n = len(main)
    return RankAgreement(
        spearman_before=spearman(main[:, 0], main[:, 2]),
        spearman_after=spearman(main[:, 1], main[:, 2]),
        spearman_all_before=spearman(every[:, 0], every[:, 2]),
        spearman_all_after=spearman(every[:, 1], every[:, 2]),
        bias_before=float(before.mean()) if n else None,
        bias_after=float(after.mean()) if n else None,
        same_side_before=int(max(np.sum(before > 0), np.sum(before < 0))) if n else 0,
        diff_std_after=float(after.std(ddof=1)) if n > 1 else None,
        n_problems=n,
        n_candidates=len(every),
    )
