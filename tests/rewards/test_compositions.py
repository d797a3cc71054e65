import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dmc_optim.environments import KEEPERS, Problem, Rollout, Signals, configurations
from dmc_optim.environments import parse as environment
from dmc_optim.errors import InvalidInputError
from dmc_optim.ranking import References
from dmc_optim.rewards import MAPS, all_rewards, multitask, parse

GATED = ("collapsed", "two_gate")


@st.composite
def signals(draw):
    c_cor = draw(st.booleans())
    return Signals(c_cor, c_cor and draw(st.booleans()), draw(st.booleans()), draw(st.floats(0, 1)))


@pytest.mark.parametrize(
    ("values", "family", "binary", "linear"),
    [
        ((1, 0, 1, 0), "collapsed", -1, -1),
        ((1, 0, 1, 0), "two_gate", -1, -1),
        ((1, 0, 1, 0), "additive_blend", 1, 1),
        ((1, 1, 0, 0.5), "collapsed", -1, 0),
        ((1, 1, 0, 0.5), "two_gate", 0, 0.5),
        ((1, 1, 0, 0.5), "additive_blend", 0, 0.5),
    ],
)
def test_vectors(values, family, binary, linear):
    assert parse(f"{family}/binary")(Signals(*values)) == pytest.approx(binary, abs=1e-12)
    assert parse(f"{family}/linear")(Signals(*values)) == pytest.approx(linear, abs=1e-12)


@given(signals(), st.sampled_from(sorted(MAPS)))
def test_every_row_of_the_table_written_out(s, name):
    m = float(MAPS[name](s.q))
    c, strict, g = int(s.c_cor), int(s.c_strict), int(s.g)
    expected = {
        "correctness_only/binary": 2 * c - 1,
        "optimization_only/binary": 2 * g - 1,
        f"optimization_only/{name}": 2 * m - 1,
        "collapsed/binary": 1 if strict and g else -1,
        f"collapsed/{name}": 2 * m - 1 if strict else -1,
        "two_gate/binary": g if strict else -1,
        f"two_gate/{name}": m if strict else -1,
        "additive_blend/binary": c + g - 1,
        f"additive_blend/{name}": c + m - 1,
    }
    for text, value in expected.items():
        assert parse(text)(s) == pytest.approx(value, abs=1e-12), text


@pytest.mark.parametrize("reward", all_rewards(), ids=str)
@settings(max_examples=25)
@given(st.data())
def test_rewards_stay_in_range_and_arrays_are_elementwise(reward, data):
    drawn = data.draw(st.lists(signals(), min_size=1, max_size=6))
    columns = [np.array([getattr(s, name) for s in drawn]) for name in ("c_cor", "c_strict", "g", "q")]
    values = reward(Signals(*columns))
    assert values.shape == (len(drawn),)
    for s, value in zip(drawn, values, strict=True):
        assert isinstance(reward(s), float)
        assert reward(s) == value
        assert -1 - 1e-12 <= value <= 1 + 1e-12


@pytest.mark.parametrize("family", GATED)
@pytest.mark.parametrize("name", ["binary", *sorted(MAPS)])
@settings(max_examples=40)
@given(signals(), signals())
def test_a_failing_program_never_outscores_a_passing_one(family, name, first, second):
    reward = parse(f"{family}/{name}")
    failing = Signals(first.c_cor, False, first.g, first.q)
    passing = Signals(True, True, second.g, second.q)
    assert reward(failing) == -1 <= reward(passing)


def test_additive_blend_can_pay_a_failing_program():
    assert parse("additive_blend/binary")(Signals(0, 0, 1, 0)) == 0 > parse("collapsed/binary")(Signals(1, 1, 0, 1))


def test_mc_mo_pays_only_for_every_test():
    env = environment("mc_mo")
    reward = parse(env.default_reward)
    problem = Problem(1, 1, [1, 1], References([[1.0, 1.0]]))
    for where in range(5):
        for bad in ("timeout", "failure"):
            status = ["success"] * 4
            if where < 4:
                status[where] = bad
            rollout = Rollout(status[:1], status[1:2], status[2:], [1.0, 1.0])
            assert reward(env.evaluate(problem, rollout)) == (1 if where == 4 else -1)


def test_multitask_alternates_whole_groups():
    s = Signals(1, 1, 0, 0.25)
    assert multitask("correctness_only")(s) == 1
    assert multitask("optimization_only")(s) == -1
    assert multitask("optimization_only", "linear")(s) == multitask("optimization_only/linear")(s) == 0.5
    assert multitask("correctness_only", "linear")(s) == 1
    mixture = parse("multitask/linear")
    assert [mixture(s, group) for group in range(4)] == [1, 0.5, 1, 0.5]
    assert [str(mixture.task(g)) for g in (0, 1)] == ["correctness_only/binary", "optimization_only/linear"]


def test_multitask_without_a_group_has_no_task():
    with pytest.raises(InvalidInputError, match="number of the group"):
        parse("multitask/binary")(Signals(1, 1, 1, 0))


@pytest.mark.parametrize("reward", [*all_rewards(), parse("multitask/bucketed")], ids=str)
def test_names_round_trip_and_rewards_pickle(reward):
    assert parse(str(reward)) == reward == pickle.loads(pickle.dumps(reward))


def test_every_family_times_every_map():
    assert len(all_rewards()) == 1 + 4 * 5


def test_aliases():
    assert str(parse("quality_percentile")) == "two_gate/linear"
    assert str(parse("quality_percentile/bucketed")) == "two_gate/bucketed"
    assert str(parse(" Collapsed ")) == "collapsed/binary"


def test_default_rewards_of_environments_exist():
    for name in {env.default_reward for env in (*configurations(), *KEEPERS)}:
        assert str(parse(name)) == name


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("colapsed/binary", "unknown reward family 'colapsed'; known: correctness_only"),
        ("collapsed/steps", "unknown map of q 'steps'; known: binary"),
        ("collapsed/", "unknown map"),
        ("correctness_only/linear", "no graded form"),
        ("multitask/steps", "unknown map"),
    ],
)
def test_unknown_rewards_are_refused(text, message):
    with pytest.raises(InvalidInputError, match=message):
        parse(text)


@pytest.mark.parametrize("task", ["collapsed", "correctness_only/linear", "optimization_only/steps"])
def test_unknown_tasks_are_refused(task):
    with pytest.raises(InvalidInputError):
        multitask(task)
