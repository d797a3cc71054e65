"""Short-run noise, variance decomposition and rank agreement, recomputed by loops."""

import numpy as np
import pytest
from scipy import stats

from dmc_optim.ces.calibration.agreement import (
    candidate_of,
    profile,
    rank_agreement,
    run_percentiles,
    spearman,
)
from dmc_optim.ces.calibration.fit import fold_coefficients
from dmc_optim.ces.calibration.noise import decompose_variance, short_run_noise, summarize
from dmc_optim.ces.calibration.runs import ProblemRuns, pool, without_unstable_runs
from dmc_optim.errors import InvalidInputError
from schemas.enums import CalibrationFamily as F


def cube(name="p", runs=4, tests=3, solutions=5, seed=0, cv=0.05, slope=0.63, offset=0.053):
    rng = np.random.default_rng([seed, *name.encode()])
    stored = np.exp(rng.normal(-2, 0.7, (tests, solutions)))
    fresh = (slope * stored + offset) * (1 + cv * rng.normal(size=(runs, tests, solutions)))
    ids = tuple(f"t{i}" for i in range(tests)), tuple(f"s{i}" for i in range(solutions))
    return ProblemRuns(name, *ids, stored, fresh, np.zeros((tests, solutions), bool))


def with_gaps(problem):
    stored, fresh, censored = problem.stored.copy(), problem.fresh.copy(), problem.censored.copy()
    stored[0, 0] = np.nan
    fresh[:, 1, 1] = np.nan
    fresh[1:, 2, 2] = np.nan
    censored[0, 3] = True
    return ProblemRuns(problem.problem_id, problem.test_ids, problem.solution_ids, stored, fresh, censored)


def test_unusable_triples_do_not_enter():
    problem = with_gaps(cube())
    assert problem.usable.sum() == 15 - 3
    assert problem.count[2, 2] == 1
    pairs = pool([problem, cube("q")])
    assert np.bincount(pairs.problem).tolist() == [12, 15]
    assert pairs.fresh[0] == pytest.approx(problem.fresh[:, 0, 1].mean())


def test_short_run_noise_by_loops():
    problems = [with_gaps(cube()), cube("q")]
    cv, std, means = [], [], []
    for p in problems:
        for t, s in zip(*np.nonzero(p.usable), strict=True):
            values = p.fresh[:, t, s][np.isfinite(p.fresh[:, t, s])]
            means.append(values.mean())
            if len(values) > 1:
                cv.append(values.std(ddof=1) / values.mean())
                std.append(values.std(ddof=1))
    noise = short_run_noise(problems)
    assert (noise.cv.n, noise.pooled_s.n) == (26, 27)
    assert noise.cv.mean == pytest.approx(np.mean(cv))
    assert noise.cv.median == pytest.approx(np.median(cv))
    assert (noise.cv.low, noise.cv.high) == pytest.approx(tuple(np.percentile(cv, [5, 95])))
    assert noise.std_s.median == pytest.approx(np.median(std))
    assert (noise.pooled_s.low, noise.pooled_s.high) == pytest.approx((min(means), max(means)))


def test_the_planted_noise_is_recovered():
    noise = short_run_noise([cube(runs=60, tests=20, solutions=20, cv=0.08)])
    assert noise.cv.mean == pytest.approx(0.08, rel=0.03)


def test_mean_percentile_noise_by_loops():
    problem = cube(runs=6, tests=8, solutions=9, cv=0.1)
    c = candidate_of(problem, 0)
    means = []
    for run in problem.fresh:
        others = np.delete(run, c, axis=1)
        means.append(100 * np.mean([np.sum(others[t] < run[t, c]) / 8 for t in range(8)]))
    assert short_run_noise([problem]).mean_percentile_std.mean == pytest.approx(np.std(means, ddof=1))


def test_one_run_has_no_spread():
    noise = short_run_noise([cube(runs=1)])
    assert noise.cv is None
    assert noise.mean_percentile_std is None
    assert noise.pooled_s.n == 15


def test_variance_is_split_exactly():
    problems = [with_gaps(cube()), cube("q", cv=0.2)]
    raw = np.concatenate([p.fresh[:, p.usable].ravel() for p in problems])
    raw = raw[np.isfinite(raw)]
    split = decompose_variance(problems)
    assert split.total == pytest.approx(raw.var())
    assert split.total == pytest.approx(split.between + split.within)
    assert split.between_share + split.within_share == pytest.approx(1)


def test_without_noise_all_variance_is_between_and_without_spread_none():
    assert decompose_variance([cube(cv=0)]).within == pytest.approx(0, abs=1e-20)
    flat = ProblemRuns("p", ("t",), ("a", "b"), np.ones((1, 2)), np.full((3, 1, 2), 0.1), np.zeros((1, 2), bool))
    assert decompose_variance([flat]).between_share is None
    assert decompose_variance([]).total == 0


def test_summaries_leave_missing_values_out():
    assert summarize([1.0, np.nan, 3.0]).mean == 2.0
    assert summarize([np.nan]) is None
    assert summarize([]) is None


def test_percentiles_skip_missing_candidates_and_empty_boards():
    fresh = np.array([[[0.1, 0.2, 0.3], [np.nan, 0.2, 0.3], [0.1, np.nan, np.nan]]])
    values = run_percentiles(fresh, fresh, [0, 1])
    assert values[0, 0] == 0.0  # fastest on the one test where it and others were timed
    assert values[0, 1] == pytest.approx(100 * np.mean([1 / 2, 0 / 1]))


def test_agreement_improves_when_the_map_is_applied():
    maps = {"slope": 0.5, "offset": 0.01}
    problems = [cube(f"p{i}", runs=3, tests=12, solutions=12, cv=0.02, seed=i, **maps) for i in range(10)]
    agreement = rank_agreement(problems, fold_coefficients(pool(problems), F.AFFINE), F.AFFINE)
    assert agreement.n_problems == 10
    assert agreement.n_candidates == 120
    assert agreement.spearman_after > 0.97
    assert agreement.spearman_all_after > agreement.spearman_all_before
    assert abs(agreement.bias_after) < 1.5 < 10 < abs(agreement.bias_before)


def test_agreement_recomputed_with_scipy():
    problems = [cube(f"p{i}", seed=i, tests=6) for i in range(6)]
    folds = fold_coefficients(pool(problems), F.AFFINE)
    before, after, truth = [], [], []
    for i, p in enumerate(problems):
        c = candidate_of(p, 3)
        for kind, board in ((before, p.stored), (after, np.polyval(folds[i], p.stored)), (truth, None)):
            runs = []
            for run in p.fresh:
                others = np.delete(run if board is None else board, c, axis=1)
                runs.append(np.mean([np.mean(others[t] < run[t, c]) for t in range(6)]))
            kind.append(np.mean(runs))
    agreement = rank_agreement(problems, folds, F.AFFINE, seed=3)
    assert agreement.spearman_before == pytest.approx(stats.spearmanr(before, truth).statistic)
    assert agreement.spearman_after == pytest.approx(stats.spearmanr(after, truth).statistic)
    assert agreement.bias_before == pytest.approx(100 * np.mean(np.subtract(before, truth)))
    assert agreement.diff_std_after == pytest.approx(100 * np.std(np.subtract(after, truth), ddof=1))
    lean = np.sign(np.subtract(before, truth))
    assert agreement.same_side_before == max((lean > 0).sum(), (lean < 0).sum())
    assert profile(problems, 3) == pytest.approx({f"p{i}": 100 * truth[i] for i in range(6)})


def test_spearman_is_none_where_it_says_nothing():
    assert spearman([1, 2], [1, 2]) is None
    assert spearman([1, 1, 1], [1, 2, 3]) is None
    assert spearman([1, 2, 3], [3, 2, 1]) == -1


def test_unstable_runs_are_dropped_whole():
    kept, dropped = without_unstable_runs(cube(runs=4), np.array([0, 1, 0, 15]), max_share=0.05)
    assert (dropped, len(kept.fresh)) == (2, 2)
    kept, dropped = without_unstable_runs(cube(runs=4), np.array([0, 1, 0, 15]), max_share=0.07)
    assert (dropped, len(kept.fresh)) == (1, 3)
    with pytest.raises(InvalidInputError):
        without_unstable_runs(cube(runs=4), np.array([0, 1]), 0.1)


def test_shapes_are_checked():
    with pytest.raises(InvalidInputError, match="do not match"):
        ProblemRuns("p", ("t",), ("s",), np.ones((1, 2)), np.ones((1, 1, 1)), np.zeros((1, 1), bool))
