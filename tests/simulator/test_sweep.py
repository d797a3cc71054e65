"""Sweeps against one evaluation at a time on pools rebuilt without the candidate, with known answers and bad input."""

import numpy as np
import pytest

from dmc_optim.environments import Environment, Problem, Rollout, configurations, parse
from dmc_optim.errors import InvalidInputError
from dmc_optim.ranking import References, synthetic_pool
from dmc_optim.rewards import Multitask
from dmc_optim.rewards import parse as parse_reward
from dmc_optim.simulator.bands import BandConfig, draw, quality_quantiles
from dmc_optim.simulator.pool import make_pool, pool_problem
from dmc_optim.simulator.sweep import configure, sweep
from tests.simulator.problems import cells, stored_problem

NAMES = {0: "success", 1: "timeout", 2: "failure"}


def small_pool(calibration=None, problems=3, **options):
    drawn = [synthetic_pool(20 + i, 5 + i, 6 + i, noise=0.1, median_work_s=1.0, **options) for i in range(problems)]
    stored = [stored_problem(f"p{i}", d.stored_s, chars=d.chars) for i, d in enumerate(drawn)]
    return make_pool(stored, calibration)


def one_by_one(pool, band, case):
    """c_i by its definition: each drawn reference as a single rollout against the others."""
    schedule = draw(quality_quantiles(pool), band)
    curve = np.zeros(band.steps)
    for index, problem in enumerate(pool.problems):
        weights = schedule.weights(index)
        for place, row in enumerate(problem.candidates):
            others = References(np.delete(problem.duration_s, row, axis=0), pool.calibration)
            own = References(problem.duration_s[row : row + 1], pool.calibration).durations[0]
            late = [bool(d >= 10) or code < 0 for d, code in zip(own, problem.status[row], strict=True)]
            status = ["timeout" if x else NAMES[int(c)] for x, c in zip(late, problem.status[row], strict=True)]
            shown = Problem(problem.base.shape[1], problem.added.shape[1], problem.chars, others)
            base, added = ([NAMES[int(c)] for c in group[row]] for group in (problem.base, problem.added))
            signals = case.environment.evaluate(shown, Rollout(base, added, status, own))
            reward = case.reward
            rewards = [reward.task(g)(signals) for g in (0, 1)] if isinstance(reward, Multitask) else [reward(signals)]
            curve += (np.mean(rewards) + 1) / 2 * weights[place]
    return curve / schedule.total


@pytest.mark.parametrize("calibration", [None, (0.6306, 0.0529)])
@pytest.mark.parametrize("draws", [None, 40])
def test_curves_equal_one_evaluation_at_a_time(calibration, draws):
    pool, band = small_pool(calibration), BandConfig(steps=7, draws=draws, width=0.3, window=2)
    picked = [*configurations()[::97], parse("ranked_timeout(p=80,agg=median,rho=0.1)"), parse("qp(p=0.5)")]
    cases = configure(picked)
    found = sweep(pool, cases, band)
    for index, case in enumerate(cases):
        assert found.credit[index] == pytest.approx(one_by_one(pool, band, case), abs=1e-12), str(case)


@pytest.mark.parametrize(
    "reward",
    ["two_gate/linear", "additive_blend/binary", "collapsed/bucketed", "multitask/linear", "two_gate/range_1_3"],
)
def test_rewards_are_applied_to_every_candidate(reward):
    pool, band = small_pool(), BandConfig(steps=5, draws=None, width=0.5, window=1)
    cases = configure([parse("qar(p=0.5)"), parse("abs_timeout(limit=1,rho=0.2)")], [reward])
    found = sweep(pool, cases, band)
    assert all(case.reward == parse_reward(reward) for case in found.configurations)
    for index, case in enumerate(cases):
        assert found.credit[index] == pytest.approx(one_by_one(pool, band, case), abs=1e-12)


def test_collapsed_binary_credit_is_the_pass_rate_and_one_is_reached():
    found = sweep(small_pool(), configure([parse("qar(p=1)"), parse("rlvr")]), BandConfig(steps=4, window=1))
    assert (found.credit == 1).all()
    assert found.diagnostics.row(0).quality_raw is None


def test_known_curve_of_a_noiseless_pool():
    """Without noise a reference's QAR is its place among the others, so QAR p passes exactly the fastest of them."""
    drawn = synthetic_pool(4, 21, 15, median_work_s=0.05)
    assert not drawn.censored.any()
    pool = make_pool([stored_problem("p", drawn.stored_s)])
    band = BandConfig(steps=21, draws=None, width=0.01, window=1)
    found = sweep(pool, configure([parse("qar(p=0.3)"), parse("qp(p=0.3)")]), band)
    quality = np.arange(21) / 20
    expected = (1 - quality <= 0.3 + 1e-12).astype(float)
    assert found.credit.tolist() == [expected.tolist()] * 2
    assert found.quality[0] == pytest.approx(quality, abs=1e-12)


def test_looser_settings_never_reward_less():
    pool, band = small_pool(problems=4), BandConfig(steps=9, draws=None, width=0.3, window=1)
    for names in (
        [f"abs_timeout(limit=1,rho={rho})" for rho in (0, 0.1, 0.5, 0.9)],
        [f"abs_timeout(limit={limit},rho=0.1)" for limit in (0.1, 1, 10)],
        [f"qar(p={p / 10})" for p in range(1, 10)],
        [f"qp(p={p / 10})" for p in range(1, 10)],
    ):
        credit = sweep(pool, configure([parse(name) for name in names]), band).credit
        assert (np.diff(credit, axis=0) >= -1e-12).all(), names


def test_workers_do_not_change_the_result(monkeypatch):
    from dmc_optim.simulator import sweep as module

    monkeypatch.setattr(module, "_CHUNK", 1)
    monkeypatch.setattr(module, "_WORTH_SPAWNING", 2)
    pool, band = small_pool(), BandConfig(steps=5, draws=20, window=2)
    cases = configure(configurations("qar", "abs_timeout"))
    alone, together = (sweep(pool, cases, band, workers=workers) for workers in (1, 2))
    assert (alone.credit == together.credit).all()
    assert (alone.quality == together.quality).all()


def test_environments_put_together_by_hand_are_simulated_too():
    from dmc_optim.environments.operators import AbsoluteFilter, QarRanking

    composed = Environment("mine", pre=AbsoluteFilter(2.0), post=QarRanking(0.5))
    pool, band = small_pool(), BandConfig(steps=5, draws=None, width=0.5, window=1)
    (case,) = configure([composed])
    assert sweep(pool, [case], band).credit[0] == pytest.approx(one_by_one(pool, band, case), abs=1e-12)


def test_whole_grid_has_one_row_a_configuration():
    cases = configure(configurations())
    assert len(cases) == 1582
    found = sweep(small_pool(problems=1), cases, BandConfig(steps=11, draws=None, width=0.2))
    assert found.credit.shape == (1582, 11)
    assert not np.isnan(found.diagnostics.steepness).any()


def test_failed_correctness_and_failed_optimization_tests_earn_nothing():
    passed = stored_problem("p", [[1.0, 2.0], [2.0, 3.0], [3.0, 4.0]])
    wrong = pool_problem(passed)
    wrong.base[0, 0] = 2  # the fastest fails a base test
    wrong.status[1, 1] = 2  # the second fails an optimization test
    pool = make_pool([passed])
    pool = type(pool)((wrong,), None, pool.summary)
    band = BandConfig(steps=3, draws=None, width=0.1, window=1)
    found = sweep(pool, configure([parse("qar(p=1)"), parse("rlvr")]), band)
    assert found.credit[0].tolist() == [1, 0, 0]
    assert found.credit[1].tolist() == [1, 1, 0]


def test_missing_cells():
    seconds = [[1.0, np.nan], [2.0, 3.0], [3.0, 4.0]]
    strict = make_pool([stored_problem("p", seconds)])
    assert strict.problems[0].candidates.tolist() == [1, 2]
    assert strict.summary.incomplete_references == 1
    assert strict.summary.missing_share == pytest.approx(1 / 6)
    lenient = make_pool([stored_problem("p", seconds)], max_missing=0.5)
    assert lenient.problems[0].candidates.tolist() == [0, 1, 2]
    _, rollouts = lenient.problems[0].build(None)
    assert rollouts.status[0].tolist() == [0, 1]  # a cell nobody measured counts as a time-out
    assert rollouts.duration_s[0].tolist() == [1.0, 10.0]


def test_a_correctness_cell_without_a_verdict_counts_as_passed():
    stored = stored_problem("p", [[1.0], [2.0]], base=1)
    unknown = type(stored)(
        stored.problem_id, "train", stored.solution_ids, cells([[np.nan], [0.1]]), stored.added, stored.optimization
    )
    assert pool_problem(unknown).base.tolist() == [[0], [0]]


def test_problems_that_cannot_be_simulated_are_counted():
    pool = make_pool(
        [
            stored_problem("a", np.empty((3, 0))),
            stored_problem("b", [[1.0, 2.0]]),
            stored_problem("c", [[np.nan], [1.0]]),
            stored_problem("d", [[1.0], [2.0]]),
        ]
    )
    assert [problem.problem_id for problem in pool.problems] == ["d"]
    assert pool.summary.skipped == {
        "no optimization test": 1,
        "fewer than two references": 1,
        "fewer than two references without missing cells": 1,
    }


def test_nothing_to_do_is_an_error():
    with pytest.raises(InvalidInputError):
        sweep(small_pool(), [], BandConfig())
    with pytest.raises(InvalidInputError):
        sweep(make_pool([]), configure([parse("rlvr")]), BandConfig())
    with pytest.raises(InvalidInputError):
        make_pool([], max_missing=1.0)
    with pytest.raises(InvalidInputError):
        configure([parse("rlvr")], ["no_such_reward/binary"])


def test_progress_is_told_of_every_problem_and_of_a_stop():
    class Recorder:
        def __init__(self, fail=False):
            self.seen, self.fail = [], fail

        def start(self, stage, total):
            self.seen.append(total)

        def add(self, units): ...

        def step(self, unit, seconds, executions=0):
            if self.fail:
                raise KeyboardInterrupt
            self.seen.append(unit)

        def finish(self, note):
            self.seen.append(note)

    pool, cases = small_pool(), configure([parse("rlvr")])
    told = Recorder()
    sweep(pool, cases, BandConfig(), progress=told)
    assert told.seen[:4] == [3, "p0", "p1", "p2"]
    stopped = Recorder(fail=True)
    with pytest.raises(KeyboardInterrupt):
        sweep(pool, cases, BandConfig(), progress=stopped)
    assert stopped.seen[-1] == "stopped"
