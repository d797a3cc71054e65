"""The ranking-metric study: repeated timings from every source, scores against naive loops, the command."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from scipy.stats import rankdata

from dmc_optim.ces.calibration.runs import ProblemRuns
from dmc_optim.cli.study import study
from dmc_optim.errors import ArtifactError, DmcOptimError, InvalidInputError, SourceError
from dmc_optim.ranking import METRICS, NOISE_AWARE_METRICS
from dmc_optim.simulator.stored import Selection
from dmc_optim.studies.ranking import (
    AFFINE,
    FRESH,
    NAMES,
    QUADRATIC,
    UNCORRECTED,
    RankingStudyConfig,
    score_problems,
    summarise,
)
from dmc_optim.studies.repeated import read_repeated, runs_of_parquet, runs_of_spreads
from tests.simulator.problems import stored_problem
from tests.simulator.synthetic_build import SyntheticBuild

ALPHA, BETA = 0.63, 0.053


def campaign(problems=4, runs=5, tests=8, solutions=7, seed=0, noise=0.05):
    """Problems whose stored durations are an affine image of the fresh ones."""
    rng = np.random.default_rng(seed)
    out = []
    for index in range(problems):
        true = rng.lognormal(-1, 0.8, (tests, 1)) * rng.lognormal(0, 0.5, solutions) + 0.06
        fresh = true * (1 + noise * rng.standard_normal((runs, tests, solutions)))
        stored = (true - BETA) / ALPHA
        ids = (f"p{index}", tuple(f"t{t}" for t in range(tests)), tuple(f"s{h}" for h in range(solutions)))
        out.append(ProblemRuns(*ids, stored, fresh, np.zeros((tests, solutions), dtype=bool)))
    return tuple(out)


def naive_mean_percentile(candidate, board):
    """Eq. 27 and 28 with scipy's average ranks, one test at a time."""
    points = []
    for t in range(len(candidate)):
        ranks = rankdata([candidate[t], *board[:, t]])
        points.append(100 * (ranks[0] - 1) / (len(ranks) - 1))
    return np.mean(points)


def affine_without(problems, index):
    x = np.concatenate([p.stored.ravel() for i, p in enumerate(problems) if i != index])
    y = np.concatenate([p.fresh.mean(axis=0).ravel() for i, p in enumerate(problems) if i != index])
    return np.polyfit(x, y, 1)


def test_mean_percentile_of_every_source_equals_naive_loops():
    problems = campaign()
    scores = score_problems(problems, RankingStudyConfig(candidates=7))
    row = NAMES.index("mean")
    for index, (problem, score) in enumerate(zip(problems, scores, strict=True)):
        fresh = problem.fresh.transpose(0, 2, 1)
        overall = [
            naive_mean_percentile(fresh.mean(axis=0)[h], np.delete(fresh.mean(axis=0), h, axis=0)) for h in range(7)
        ]
        order = np.argsort(overall, kind="stable")
        corrected = np.clip(np.polyval(affine_without(problems, index), problem.stored), 0, 10).T
        for k, h in enumerate(order):
            for r in range(len(fresh)):
                expected = naive_mean_percentile(fresh[r, h], np.delete(fresh[r], h, axis=0))
                assert score.values[FRESH][row, r, k] == pytest.approx(expected, abs=1e-9)
                expected = naive_mean_percentile(fresh[r, h], np.delete(corrected, h, axis=0))
                assert score.values[AFFINE][row, r, k] == pytest.approx(expected, abs=1e-9)
                expected = naive_mean_percentile(fresh[r, h], np.delete(problem.stored.T, h, axis=0))
                assert score.values[UNCORRECTED][row, r, k] == pytest.approx(expected, abs=1e-9)


def test_summary_equals_its_definition():
    problems = campaign()
    scores = score_problems(problems, RankingStudyConfig(candidates=5))
    summary = next(s for s in summarise(scores) if s.name == "mean")
    row = NAMES.index("mean")
    x = [score.values[FRESH][row] for score in scores]
    y = [score.values[AFFINE][row] for score in scores]
    per_problem = [np.mean([np.std(v[:, k], ddof=1) for k in range(5)]) for v in x]
    assert summary.rerun_std == pytest.approx(np.mean(per_problem), abs=1e-12)
    assert summary.rerun_std_spread == pytest.approx(np.std(per_problem, ddof=1), abs=1e-12)
    difference = np.concatenate([b.mean(axis=0) - a.mean(axis=0) for a, b in zip(x, y, strict=True)])
    assert summary.cv_std[AFFINE] == pytest.approx(np.std(difference, ddof=1), abs=1e-12)
    assert summary.cv_bias[AFFINE] == pytest.approx(np.mean(difference), abs=1e-12)
    means = np.array([np.sort(a.mean(axis=0)) for a in x])
    assert summary.spread == pytest.approx(np.mean(means[:, -1] - means[:, 0]), abs=1e-12)
    assert summary.harshness == pytest.approx(means.mean(), abs=1e-12)
    assert summary.worst_share == pytest.approx((means >= 90).mean(), abs=1e-12)


def test_the_right_correction_removes_the_drift():
    summaries = {s.name: s for s in summarise(score_problems(campaign(noise=0.0), RankingStudyConfig()))}
    mean = summaries["mean"]
    assert mean.cv_bias[AFFINE] == pytest.approx(0, abs=1e-6)
    assert mean.cv_std[AFFINE] == pytest.approx(0, abs=1e-6)
    assert abs(mean.cv_bias[UNCORRECTED]) > 1
    assert mean.rerun_std == 0
    assert mean.resolution is None  # no noise, so nothing to divide by
    assert set(mean.cv_std) == {UNCORRECTED, AFFINE, QUADRATIC}


def test_every_metric_runs_from_best_to_worst():
    """Oriented scores of the slowest candidate are never better than those of the fastest."""
    (score,) = score_problems(campaign(problems=2, noise=0.0), RankingStudyConfig(candidates=7))[:1]
    fresh = score.values[FRESH][:, 0]
    assert fresh.shape == (len(METRICS) + len(NOISE_AWARE_METRICS), 7)
    for name, values in zip(NAMES, fresh, strict=True):
        known = values[np.isfinite(values)]
        assert len(known) == 7, name
        assert known[0] < known[-1], name
        assert ((known >= -1e-9) & (known <= 100 + 1e-9)).all(), name


def test_more_measurement_noise_more_rerun_noise():
    quiet, loud = (
        next(s for s in summarise(score_problems(campaign(noise=noise), RankingStudyConfig())) if s.name == "mean")
        for noise in (0.02, 0.2)
    )
    assert quiet.rerun_std < loud.rerun_std


def test_noise_aware_scores_are_steadier_on_a_suite_of_short_tests():
    """Two thirds of the tests last milliseconds and differ by noise alone: what the variants are for."""
    rng = np.random.default_rng(8)
    problems = []
    for index in range(3):
        slow = rng.lognormal(0, 0.5, 10)
        work = np.where(np.arange(24) < 16, 0.001, 0.4)[:, None]
        true = work * slow + 0.02
        fresh = np.clip(true + 0.003 * rng.standard_normal((8, 24, 10)), 1e-4, 10)
        ids = (f"p{index}", tuple(f"t{t:02d}" for t in range(24)), tuple(f"s{h}" for h in range(10)))
        problems.append(ProblemRuns(*ids, true, fresh, np.zeros((24, 10), dtype=bool)))
    scores = score_problems(tuple(problems), RankingStudyConfig())
    assert all(score.noisy_share > 0.5 for score in scores)
    found = {s.name: s for s in summarise(scores)}
    for name in NOISE_AWARE_METRICS:
        assert found[name].rerun_std < found["mean"].rerun_std, name
    for name in ("mean_drop_noisy", "mean_weighted", "mean_soft_weighted"):
        assert found[name].spread > found["mean"].spread, name


def test_one_problem_cannot_be_corrected_but_is_scored():
    (score,) = score_problems(campaign(problems=1), RankingStudyConfig())
    assert set(score.values) == {FRESH, UNCORRECTED}
    summary = summarise([score])[0]
    assert summary.cv_std[AFFINE] is None
    assert summary.fixed_std is None
    assert summary.rerun_std_spread is None


def test_missing_cells_leave_the_rest_scored():
    (problem, *others) = campaign()
    problem.fresh[:, 0, 0] = np.nan
    problem.stored[1, 1] = np.nan
    score = score_problems((problem, *others), RankingStudyConfig(candidates=7))[0]
    assert np.isfinite(score.values[FRESH][NAMES.index("mean")]).all()
    assert np.isfinite(score.values[AFFINE][NAMES.index("mean")]).all()


def test_two_candidates_at_least():
    with pytest.raises(InvalidInputError):
        RankingStudyConfig(candidates=1)


def write_runs(path, problems, *, stored=True, drop=None):
    rows = [
        {
            "problem_id": p.problem_id,
            "test_id": t,
            "solution_id": s,
            "run": r,
            "duration_s": p.fresh[r, i, j],
            **({"stored_s": p.stored[i, j]} if stored else {}),
        }
        for p in problems
        for r in range(len(p.fresh))
        for i, t in enumerate(p.test_ids)
        for j, s in enumerate(p.solution_ids)
    ]
    np.random.default_rng(0).shuffle(rows)
    table = pa.Table.from_pylist(rows)
    pq.write_table(table.drop_columns([drop]) if drop else table, path)
    return path


def test_parquet_round_trip(tmp_path):
    problems = campaign()
    found = runs_of_parquet(write_runs(tmp_path / "runs.parquet", problems))
    for a, b in zip(found.problems, problems, strict=True):
        assert (a.problem_id, a.test_ids, a.solution_ids) == (b.problem_id, b.test_ids, b.solution_ids)
        assert (a.fresh == b.fresh).all()
        assert (a.stored == b.stored).all()
        assert (a.censored == b.censored).all()


def test_without_stored_durations_the_first_run_plays_them(tmp_path):
    problems = campaign()
    found = runs_of_parquet(write_runs(tmp_path / "runs.parquet", problems, stored=False))
    assert (found.problems[0].stored == problems[0].fresh[0]).all()
    assert (found.problems[0].fresh == problems[0].fresh[1:]).all()
    assert "run 0 stands for stored" in found.origin


@pytest.mark.parametrize("drop", ["problem_id", "run", "duration_s"])
def test_a_missing_column_is_named(tmp_path, drop):
    path = write_runs(tmp_path / "runs.parquet", campaign(problems=1), drop=drop)
    with pytest.raises(SourceError, match=f"no column `{drop}`"):
        runs_of_parquet(path)


def table_of(**columns):
    base = {"problem_id": ["p", "p"], "test_id": ["t", "t"], "solution_id": ["s", "s"], "run": [0, 1]}
    return pa.table({**base, "duration_s": [1.0, 1.0], **columns})


@pytest.mark.parametrize(
    ("table", "says"),
    [
        (table_of(run=[0, 0]), "two rows for one run"),
        (table_of(duration_s=[1.0, -1.0]), "not positive"),
        (table_of(duration_s=["fast", "slow"]), "column `duration_s` is string"),
        (table_of().slice(0, 0), "no row"),
        (table_of(), "no problem has two runs of three solutions"),
    ],
)
def test_bad_tables_are_refused(tmp_path, table, says):
    path = tmp_path / "runs.parquet"
    pq.write_table(table, path)
    with pytest.raises(DmcOptimError, match=says):
        runs_of_parquet(path)


def test_drawn_runs_have_the_stored_mean_and_spread():
    seconds = np.full((3, 4), 2.0)
    std = np.full((3, 4), 0.1)
    std[0, 0], seconds[1, 1] = np.nan, 10.0
    problem = stored_problem("p", seconds, std=std, repetitions=3)
    (drawn,) = runs_of_spreads([problem], 4000, 5, "here").problems
    assert drawn.fresh.shape == (4000, 4, 3)
    assert drawn.fresh[:, 2, 2].mean() == pytest.approx(2.0, abs=0.01)
    assert drawn.fresh[:, 2, 2].std() == pytest.approx(0.1, abs=0.005)
    assert (drawn.fresh[:, 0, 0] == 2.0).all()  # measured once: nothing is known of its noise
    assert np.isnan(drawn.fresh[:, 1, 1]).all()  # a time-out is no timing
    assert drawn.censored[1, 1]
    again = runs_of_spreads([problem], 4000, 5, "here").problems[0]
    assert np.array_equal(again.fresh, drawn.fresh, equal_nan=True)


def test_builds_measured_once_say_what_to_do():
    with pytest.raises(ArtifactError, match="ces calibrate"):
        runs_of_spreads([stored_problem("p", np.full((3, 4), 2.0))], 5, 0, "here")
    with pytest.raises(SourceError):
        runs_of_spreads([], 1, 0, "here")


def test_nothing_there(tmp_path):
    for path, kind in ((tmp_path / "none", ArtifactError), (tmp_path / "none.parquet", SourceError)):
        with pytest.raises(kind):
            read_repeated(str(path), Selection(), 5, 0)


def test_command_on_a_parquet_file(tmp_path):
    runs = write_runs(tmp_path / "runs.parquet", campaign(runs=3))
    page = tmp_path / "ranking.html"
    result = CliRunner().invoke(study, ["ranking", str(runs), "--candidates", "4", "--json", "-o", str(page)])
    assert result.exit_code == 0, result.output
    figures = json.loads(result.stdout)
    assert [row["name"] for row in figures["metrics"]] == list(METRICS)
    assert [row["name"] for row in figures["noise_aware"]] == list(NOISE_AWARE_METRICS)
    assert len(figures["scores"]) == 4 * 4 * len(NAMES)
    assert page.read_text(encoding="utf-8").count("<svg") == 1 + 3 * len(NAMES)


def test_command_on_a_build(tmp_path):
    where = SyntheticBuild(problems=3).write(tmp_path)
    result = CliRunner().invoke(study, ["ranking", str(where), "--runs", "3", "--candidates", "3"])
    assert result.exit_code == 0, result.output
    assert "Mean percentile" in result.stdout
    assert "Mean, soft and weighted" in result.stdout
    assert "study ranking" in CliRunner().invoke(study, ["ranking", "--help"]).output
