import numpy as np
import pytest

from dmc_optim.environments import Problem, Rollout, Rollouts, parse
from dmc_optim.environments.records import status_codes
from dmc_optim.errors import InvalidInputError
from dmc_optim.ranking import References
from dmc_optim.rewards import parse as reward
from schemas.enums import Outcome, Status

PROBLEM = Problem(1, 1, [10, 1000], References([[1.0, 2.0]]))
GOOD = {
    "base_status": ["success"],
    "added_status": ["success"],
    "opt_status": ["success"] * 2,
    "opt_duration_s": [1.0, 1.0],
}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"base_status": ["success"] * 3}, "base_status has 3 tests but the problem has 1"),
        ({"base_status": []}, "correctness tests were not run"),
        ({"added_status": [None]}, "correctness tests were not run"),
        ({"added_status": ["success"] * 2}, "added_status has 2 tests"),
        ({"opt_status": ["success"], "opt_duration_s": [1.0]}, "opt_status has 1 tests"),
        ({"opt_duration_s": [1.0]}, r"opt_duration_s has shape \(1, 1\)"),
        ({"opt_duration_s": [1.0, -1.0]}, "must not be negative"),
        ({"opt_status": ["success", "ok"]}, "'ok' is not success, timeout or failure"),
        ({"opt_status": ["success", "infrastructure"]}, "rerun it"),
        ({"opt_status": ["success", None]}, "optimization tests were not run"),
        ({"opt_status": [], "opt_duration_s": []}, "optimization tests were not run"),
    ],
)
def test_rollouts_that_do_not_fit_are_refused(changes, message):
    with pytest.raises(InvalidInputError, match=message):
        parse("mc_mo").evaluate(PROBLEM, Rollout(**(GOOD | changes)))


def test_detailed_statuses_map_as_in_equation_9():
    names = [status for status in Status if status is not Status.INFRASTRUCTURE]
    codes = status_codes([names], "opt_status")[0]
    assert [("success", "timeout", "failure")[code] for code in codes] == [status.outcome for status in names]
    assert status_codes([list(Outcome)], "x").tolist() == [[0, 1, 2]]
    assert status_codes(np.array([["success", "timeout"]]), "x").tolist() == [[0, 1]]


@pytest.mark.parametrize("codes", [[[4]], [[-1]]])
def test_unknown_codes_are_refused(codes):
    with pytest.raises(InvalidInputError, match="codes outside"):
        status_codes(codes, "opt_status")


def test_statuses_of_a_batch_have_two_axes():
    with pytest.raises(InvalidInputError, match="one row for each rollout"):
        status_codes(["success"], "opt_status")


def test_batches_that_disagree_are_refused():
    with pytest.raises(InvalidInputError, match="same number of rollouts"):
        Rollouts(np.zeros((2, 1), int), np.zeros((1, 1), int), np.zeros((2, 2), int), np.ones((2, 2)))
    with pytest.raises(InvalidInputError, match="same tests"):
        Rollouts.stack([Rollout(**GOOD), Rollout(**(GOOD | {"opt_duration_s": [1.0]}))])
    with pytest.raises(InvalidInputError):
        Rollouts.stack([Rollout(**GOOD), Rollout(**(GOOD | {"base_status": []}))])


def test_tests_that_an_environment_does_not_use_need_not_run():
    assert parse("rlvr").evaluate(PROBLEM, Rollout(["success"], [], [], [])).c_strict
    assert parse("mc").evaluate(PROBLEM, Rollout(["success"], ["success"], [], [])).g
    env = parse("abs_filter(a=1.5,limit=10,rho=0)")  # keeps the first test only
    assert env.optimization_tests(PROBLEM).tolist() == [True, False]
    rollout = Rollout(["success"], ["success"], ["success", None], [1.0, np.nan])
    assert env.evaluate(PROBLEM, rollout).complete
    assert parse("mc").optimization_tests(PROBLEM).tolist() == [False, False]
    assert parse("qar(p=0.3)").optimization_tests(PROBLEM).tolist() == [True, True]


@pytest.mark.parametrize(
    "rollout",
    [
        Rollout(["failure"], [], [], []),
        Rollout(["failure"], [None], [None, None], [np.nan, np.nan]),
        Rollout(["success"], ["success"], ["failure", None], [1.0, np.nan]),
    ],
)
def test_a_trajectory_may_end_at_a_failure_where_the_reward_is_decided(rollout):
    for name in ("mc_mo", "qar(p=1)", "rel_timeout(p=100,rho=1)"):
        got = parse(name).evaluate(PROBLEM, rollout)
        assert (got.c_strict, got.g, got.q, got.complete) == (False, False, 1, False)
        for family in ("collapsed/linear", "two_gate/binary"):
            assert reward(family).ends_early
            assert reward(family)(got) == -1
        for family in ("optimization_only/binary", "additive_blend/linear"):
            assert not reward(family).ends_early
            with pytest.raises(InvalidInputError, match="pays for every optimization test"):
                reward(family)(got)


def test_a_timeout_alone_ends_no_optimization_suite():
    with pytest.raises(InvalidInputError, match="not run"):
        parse("mc_mo").evaluate(PROBLEM, Rollout(["success"], ["success"], ["timeout", None], [10, np.nan]))


def test_problems_that_disagree_are_refused():
    with pytest.raises(InvalidInputError, match="chars has shape"):
        Problem(1, 1, [10], References([[1.0, 2.0]]))
    with pytest.raises(InvalidInputError, match="negative number"):
        Problem(-1, 1, [10], References([[1.0]]))


def test_character_filters_need_characters():
    problem = Problem(1, 1, None, References([[1.0, 2.0]]))
    assert parse("mc_mo").evaluate(problem, Rollout(**GOOD)).g
    with pytest.raises(InvalidInputError, match="chars"):
        parse("charlen_filter(chars=100,limit=1,rho=0)").evaluate(problem, Rollout(**GOOD))


def test_references_run_as_candidates():
    raw = [[1.0, 20.0], [2.0, np.nan], [3.0, 4.0]]
    problem = Problem(2, 1, [1, 1], References(raw))
    batch = Rollouts.from_references(problem, [2, 0, 1])
    assert batch.exclude.tolist() == [2, 0, 1]
    assert batch.status.tolist() == [[0, 0], [0, 1], [0, 1]]
    assert batch.duration_s.tolist() == [[3, 4], [1, 10], [2, 10]]
    assert len(Rollouts.from_references(problem)) == 3
