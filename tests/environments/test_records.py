import numpy as np
import pytest

from dmc_optim.environments import Problem, Rollout, Rollouts, parse
from dmc_optim.environments.records import status_codes
from dmc_optim.errors import InvalidInputError
from dmc_optim.ranking import References
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
        ({"base_status": []}, "base_status has 0 tests but the problem has 1"),
        ({"added_status": ["success"] * 2}, "added_status has 2 tests"),
        ({"opt_status": ["success"], "opt_duration_s": [1.0]}, "opt_status has 1 tests"),
        ({"opt_duration_s": [1.0]}, r"opt_duration_s has shape \(1, 1\)"),
        ({"opt_duration_s": [1.0, -1.0]}, "must not be negative"),
        ({"opt_status": ["success", "ok"]}, "'ok' is not success, timeout or failure"),
        ({"opt_status": ["success", "infrastructure"]}, "rerun it"),
        ({"opt_status": ["success", None]}, "None is not success"),
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


@pytest.mark.parametrize("codes", [[[3]], [[-1]]])
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
