"""Ranking-metric study: which aggregate of per-test percentiles is stable and still tells solutions apart (paper D.3).

For each problem some of its references play the candidate, each left out of its own pool. In run r a candidate has its
fresh durations, and is ranked

    among the fresh durations of the others in the same run            → x_r
    among their stored durations, uncorrected or corrected by a fit    → y_r
      that has not seen the problem

so the spread of x_r over the runs is rerun noise, and mean y − mean x is what stored durations get wrong.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dmc_optim.ces.calibration.fit import fold_coefficients, predict
from dmc_optim.ces.calibration.runs import ProblemRuns, pool
from dmc_optim.errors import InvalidInputError
from dmc_optim.ranking import METRICS, NOISE_AWARE_METRICS, References, all_metrics, noise_aware_metrics, suite_noise
from schemas.enums import CalibrationFamily

Floats = NDArray[np.float64]

NAMES = (*METRICS, *NOISE_AWARE_METRICS)
FRESH, UNCORRECTED, AFFINE, QUADRATIC = "fresh", "uncorrected", "affine", "quadratic"
SOURCES = (FRESH, UNCORRECTED, AFFINE, QUADRATIC)
WORST_TIER = 90.0  # points: a candidate here is among the slowest tenth


@dataclass(frozen=True)
class RankingStudyConfig:
    """candidates: references of a problem that play the candidate, evenly spaced from fastest to slowest."""

    candidates: int = 12

    def __post_init__(self) -> None:
        if self.candidates < 2:
            raise InvalidInputError(f"the spread within a problem needs 2 candidates or more, got {self.candidates}")


@dataclass(frozen=True, eq=False)
class ProblemScores:
    """Scores of K candidates of one problem in percentile points, 0 best and 100 worst whatever the metric.

    values: source → (metrics, R, K), NaN where a metric is not defined, in the order of NAMES. A source that cannot
    be fitted is absent. noisy_share: share of tests whose references differ
    by no more than the noise in the first run.
    """

    problem_id: str
    values: dict[str, Floats]
    noisy_share: float


@dataclass(frozen=True)
class MetricSummary:
    """One row of the study, in percentile points, means over problems; None where nothing is defined.

    rerun_std ± rerun_std_spread: standard deviation over runs, mean and standard deviation over problems.
    fixed_std: the same on a fixed leaderboard, as in training. cv_std, cv_bias: source → standard deviation and mean of
    (stored − fresh) over candidates. harshness: mean score. worst_share: candidates at 90 or worse. spread: mean of the
    slower quarter of a problem's candidates minus the mean of the faster quarter. resolution: spread / rerun_std.
    """

    name: str
    rerun_std: float | None
    rerun_std_spread: float | None
    fixed_std: float | None
    cv_std: dict[str, float | None]
    cv_bias: dict[str, float | None]
    harshness: float | None
    worst_share: float | None
    spread: float | None
    resolution: float | None


def score_problems(
    problems: tuple[ProblemRuns, ...], config: RankingStudyConfig, on_problem: Callable[[str], None] = lambda _: None
) -> list[ProblemScores]:
    """Score every problem; on_problem is told the name of each that is finished."""
    corrections = _corrections(problems)
    out = []
    for index, problem in enumerate(problems):
        out.append(_score(problem, {name: folds.get(index) for name, folds in corrections.items()}, config))
        on_problem(problem.problem_id)
    return out


def summarise(scores: list[ProblemScores]) -> list[MetricSummary]:
    """One summary a metric, in the order of NAMES."""
    return [_summary(index, name, scores) for index, name in enumerate(NAMES)]


Correction = Callable[[Floats], Floats] | None


def _corrections(problems: tuple[ProblemRuns, ...]) -> dict[str, dict[int, Correction]]:
    """Source → position of a problem → Γ fitted on all others; a family that they do not determine is absent."""
    found: dict[str, dict[int, Correction]] = {UNCORRECTED: dict.fromkeys(range(len(problems)))}
    for source, family in ((AFFINE, CalibrationFamily.AFFINE), (QUADRATIC, CalibrationFamily.QUADRATIC)):
        try:
            folds = fold_coefficients(pool(problems), family)
        except (InvalidInputError, ValueError):
            continue
        found[source] = {index: _correction(family, fit) for index, fit in folds.items()}
    return found


def _correction(family: CalibrationFamily, coefficients: tuple[float, ...]) -> Correction:
    return lambda seconds: predict(family, coefficients, seconds)


def _score(problem: ProblemRuns, corrections: dict[str, Correction], config: RankingStudyConfig) -> ProblemScores:
    usable = problem.usable.T
    kept = usable.any(axis=1)  # references with something to compare
    stored = np.where(usable, problem.stored.T, np.nan)[kept]
    fresh = np.where(usable, problem.fresh.transpose(0, 2, 1), np.nan)[:, kept]
    deviation = np.where(usable, problem.std.T, np.nan)[kept]
    chosen = _spaced(np.where(usable, problem.mean.T, np.nan)[kept], config.candidates)
    values = {FRESH: np.stack([_ranked(run[None], run, deviation, None, chosen)[:, 0] for run in fresh], axis=1)}
    for source, correction in corrections.items():
        values[source] = _ranked(fresh, stored, deviation, correction, chosen)
    noise = suite_noise(References(fresh[0], duration_std_s=deviation))
    return ProblemScores(problem.problem_id, values, float(noise.within_noise().mean()))


def _spaced(mean_s: Floats, candidates: int) -> NDArray[np.intp]:
    """Rows evenly spaced in the order of mean percentile."""
    references = References(mean_s)
    rows = np.arange(len(mean_s))
    order = np.argsort(all_metrics(mean_s, references, exclude=rows)["mean"], kind="stable")
    places = np.unique(np.rint(np.linspace(0, len(rows) - 1, min(candidates, len(rows)))).astype(int))
    return np.asarray(order[places])


def _ranked(
    fresh: Floats, board: Floats, deviation: Floats, correction: Correction, chosen: NDArray[np.intp]
) -> Floats:
    """Scores (metrics, R, K) of the chosen rows of fresh (R, S, T) among the other rows of board (S, T)."""
    n_runs, n_chosen = len(fresh), len(chosen)
    delta = fresh[:, chosen].reshape(n_runs * n_chosen, -1)
    references = References(board, correction, duration_std_s=deviation)
    plain = all_metrics(delta, references, exclude=np.tile(chosen, n_runs))
    scores = np.stack([_points(name, plain[name]) for name in METRICS]).reshape(len(METRICS), n_runs, n_chosen)
    aware = np.empty((len(NOISE_AWARE_METRICS), n_runs, n_chosen))
    for k, row in enumerate(chosen):
        others = np.arange(len(board)) != row
        left = References(board[others], correction, duration_std_s=deviation[others])
        found = noise_aware_metrics(fresh[:, row], left, delta_std_s=deviation[row])
        aware[:, :, k] = [_points(name, found[name]) for name in NOISE_AWARE_METRICS]
    return np.concatenate([scores, aware])


def _points(name: str, values: Floats) -> Floats:
    """A metric in percentile points with 0 best."""
    metric = {**METRICS, **NOISE_AWARE_METRICS}[name]
    points = values * metric.points
    return 100.0 - points if metric.higher_is_better else points


def _summary(index: int, name: str, scores: list[ProblemScores]) -> MetricSummary:
    noise = [_over_runs(score.values[FRESH][index], np.nanstd) for score in scores]
    fixed = [_over_runs(score.values[AFFINE][index], np.nanstd) for score in scores if AFFINE in score.values]
    x = [_over_runs(score.values[FRESH][index], np.nanmean) for score in scores]
    differences = {
        source: np.concatenate(
            [
                _over_runs(score.values[source][index], np.nanmean) - mine
                for score, mine in zip(scores, x, strict=True)
                if source in score.values
            ]
            or [np.empty(0)]
        )
        for source in SOURCES[1:]
    }
    per_problem = np.array([_mean(values) for values in noise], dtype=np.float64)
    spread = _mean(np.array([_spread(values) for values in x], dtype=np.float64))
    rerun = _mean(per_problem)
    pooled = np.concatenate(x)
    pooled = pooled[np.isfinite(pooled)]
    return MetricSummary(
        name=name,
        rerun_std=rerun,
        rerun_std_spread=_std(per_problem),
        fixed_std=_mean(np.array([_mean(values) for values in fixed], dtype=np.float64)),
        cv_std={source: _std(values) for source, values in differences.items()},
        cv_bias={source: _mean(values) for source, values in differences.items()},
        harshness=_mean(pooled),
        worst_share=float((pooled >= WORST_TIER).mean()) if len(pooled) else None,
        spread=spread,
        resolution=None if spread is None or not rerun else spread / rerun,
    )


def _over_runs(values: Floats, how: Callable[..., Floats]) -> Floats:
    """(K,) mean or sample standard deviation over the runs; NaN with too few of them."""
    known = np.isfinite(values).sum(axis=0)
    enough = known >= (2 if how is np.nanstd else 1)
    out = np.full(values.shape[1], np.nan)
    if enough.any():
        extra = {"ddof": 1} if how is np.nanstd else {}
        out[enough] = how(values[:, enough], axis=0, **extra)
    return out


def _spread(values: Floats) -> float:
    """Mean of the slower quarter minus mean of the faster quarter, one candidate at least."""
    ascending = np.sort(values[np.isfinite(values)])
    if len(ascending) < 2:
        return float("nan")
    quarter = max(1, len(ascending) // 4)
    return float(ascending[-quarter:].mean() - ascending[:quarter].mean())


def _mean(values: Floats) -> float | None:
    finite = values[np.isfinite(values)]
    return float(finite.mean()) if len(finite) else None


def _std(values: Floats) -> float | None:
    finite = values[np.isfinite(values)]
    return float(finite.std(ddof=1)) if len(finite) > 1 else None
