"""Signals of every family against an independent recomputation, and the properties the definitions promise."""

from dataclasses import fields
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dmc_optim.environments import Grid, Problem, Rollout, Rollouts, Signals, build, compose, configurations, parse
from dmc_optim.environments.operators import AbsoluteFilter, AbsoluteLimit, QarRanking, QpRanking, RankedLimit
from dmc_optim.errors import InvalidInputError
from dmc_optim.ranking import References, rank
from tests.environments import oracle
from tests.environments.strategies import exact_problem, exact_rollout, families, rollouts, worlds

D = References([[1, 1], [2, 2], [2, 4]])
PROBLEM = Problem(1, 1, [10, 1000], D)


def _rollout(status=("success", "success"), seconds=(2.0, 3.0), base="success", added="success"):
    return Rollout([base], [added], status, seconds)


@settings(max_examples=400)
@given(st.data(), worlds(), families())
def test_every_family_agrees_with_exact_fractions(data, world, chosen):
    raw, problem = world
    family, parameters = chosen
    rollout = data.draw(rollouts(problem))
    got = build(family, **parameters).evaluate(problem, rollout)
    c_cor, strict, g, q, phi, qar, qp = oracle.signals(
        family, parameters, exact_problem(raw, problem), exact_rollout(rollout)
    )
    assert (got.c_cor, got.c_strict, got.g) == (c_cor, strict, g)
    assert abs(got.q - float(q)) <= 1e-12
    assert abs(got.phi - float(phi)) <= 1e-12
    for value, expected in ((got.qar, qar), (got.qp, qp)):
        assert value == (None if expected is None else pytest.approx(float(expected), abs=1e-12))


@settings(max_examples=60)
@given(st.data(), worlds(), st.lists(families(), min_size=1, max_size=6))
def test_batch_and_grid_are_the_single_evaluations(data, world, chosen):
    _, problem = world
    some = [data.draw(rollouts(problem)) for _ in range(data.draw(st.integers(1, 4)))]
    environments = [build(family, **parameters) for family, parameters in chosen]
    grid = Grid(environments).evaluate(problem, Rollouts.stack(some))
    for e, env in enumerate(environments):
        batch = env.evaluate(problem, Rollouts.stack(some))
        for k, rollout in enumerate(some):
            one = env.evaluate(problem, rollout)
            for name in (f.name for f in fields(Signals)):
                expected = np.nan if getattr(one, name) is None else getattr(one, name)
                np.testing.assert_allclose(getattr(batch, name)[k], expected, atol=1e-12, err_msg=name)
                np.testing.assert_allclose(getattr(grid, name)[e, k], expected, atol=1e-12, err_msg=name)


@settings(max_examples=60)
@given(st.data(), worlds(min_references=1), families())
def test_a_reference_as_candidate_is_left_out_of_its_pool(data, world, chosen):
    raw, problem = world
    row = data.draw(st.integers(0, len(raw) - 1))
    env = build(chosen[0], **chosen[1])
    left_out = env.evaluate(problem, Rollouts.from_references(problem, [row]))
    others = Problem(problem.base_tests, problem.added_tests, problem.chars, References(np.delete(raw, row, axis=0)))
    seconds = problem.references.durations[row]
    status = ["success" if value < 10 else "timeout" for value in seconds]
    passed = Rollout(["success"] * problem.base_tests, ["success"] * problem.added_tests, status, seconds)
    alone = env.evaluate(others, passed)
    for name in (f.name for f in fields(Signals)):
        expected = np.nan if getattr(alone, name) is None else getattr(alone, name)
        np.testing.assert_allclose(getattr(left_out, name)[0], expected, atol=1e-12, err_msg=name)


@given(st.data(), worlds(), families())
def test_q_lies_in_the_unit_interval_and_sides_multiply(data, world, chosen):
    _, problem = world
    got = build(chosen[0], **chosen[1]).evaluate(problem, data.draw(rollouts(problem)))
    assert 0 <= got.q <= 1
    assert got.g == (got.g_to and got.g_dur)
    assert got.q == pytest.approx(1 - (1 - got.q_to) * (1 - got.q_dur), abs=1e-12)
    assert not got.c_strict or got.c_cor


@given(st.data(), worlds())
def test_gates_open_with_their_thresholds(data, world):
    _, problem = world
    rollout = data.draw(rollouts(problem))
    for family, name, values, rest in (
        ("abs_timeout", "rho", (0, 0.1, 0.5, 1), {"limit": 0.5}),
        ("abs_timeout", "limit", (0.1, 0.5, 2, 10), {"rho": 0.2}),
        ("rel_timeout", "p", (10, 50, 90, 100), {"rho": 0.2}),
        ("rel_timeout", "rho", (0, 0.1, 0.5, 1), {"p": 50}),
        ("ranked_timeout", "rho", (0, 0.1, 0.5, 1), {"p": 50, "agg": "median"}),
        ("qar", "p", (0.0, 0.3, 0.6, 1.0), {}),
        ("qp", "p", (0.0, 0.3, 0.6, 1.0), {}),
    ):
        gates = [build(family, **rest, **{name: value}).evaluate(problem, rollout).g for value in values]
        assert gates == sorted(gates), (family, name)


@given(st.data(), worlds(), families())
def test_a_slower_program_never_gains(data, world, chosen):
    _, problem = world
    rollout = data.draw(rollouts(problem))
    more = data.draw(st.lists(st.floats(0, 5), min_size=problem.n_tests, max_size=problem.n_tests))
    measured = np.array([10.0 if np.isnan(value) else value for value in rollout.opt_duration_s])
    slower = Rollout(rollout.base_status, rollout.added_status, rollout.opt_status, measured + more)
    env = build(chosen[0], **chosen[1])
    before, after = env.evaluate(problem, rollout), env.evaluate(problem, slower)
    assert after.q >= before.q - 1e-12
    assert after.g <= before.g


def test_known_vectors():
    for name, seconds, q, qar, qp in (
        ("qar(p=0.3)", (2, 3), 1 / 2, 1 / 2, 2 / 3),
        ("qp(p=0.7)", (2, 3), 2 / 3, 1 / 2, 2 / 3),
        ("qar(p=0.3)", (10, 10), 1, 1, 1),
        ("qp(p=0.3)", (0.5, 0.5), 0, 0, 0),
    ):
        got = parse(name).evaluate(PROBLEM, _rollout(seconds=seconds))
        assert (got.q, got.qar, got.qp) == tuple(pytest.approx(value) for value in (q, qar, qp))
        assert got.g == (q <= parse(name).post.p)


def test_a_cap_hit_is_recorded_at_ten_seconds_and_is_no_timeout_of_a_ranking_environment():
    got = parse("qar(p=0.5)").evaluate(PROBLEM, _rollout(("timeout", "success"), (0.001, 0.5)))
    assert (got.q_to, got.g_to, got.phi) == (0, True, 0.5)
    assert got.q == rank([10.0, 0.5], D).qar == 0.5


def test_failures_keep_their_duration_and_missing_ones_take_the_cap():
    wrong = parse("qar(p=0.5)").evaluate(PROBLEM, _rollout(("failure", "success"), (0.5, 0.5)))
    assert (wrong.q, wrong.c_cor, wrong.c_strict) == (0, True, False)
    missing = parse("qar(p=0.5)").evaluate(PROBLEM, _rollout(("failure", "success"), (np.nan, 0.5)))
    assert missing.q == 0.5


def test_a_success_at_the_limit_is_a_timeout_and_a_failure_is_not():
    env = parse("abs_timeout(limit=2,rho=0.4)")
    assert env.evaluate(PROBLEM, _rollout(seconds=(2.0, 1.9))).phi == 0.5
    assert env.evaluate(PROBLEM, _rollout(seconds=(1.999, 1.9))).phi == 0
    late_failure = env.evaluate(PROBLEM, _rollout(("failure", "success"), (3.0, 1.0)))
    assert (late_failure.phi, late_failure.c_strict) == (0, False)


def test_timeouts_are_tolerated_by_strict_correctness_and_filtered_failures_are_not_seen():
    env = parse("abs_filter(a=2,limit=0.5,rho=0)")  # d̄ = 5/3 and 7/3: the second test goes
    got = env.evaluate(PROBLEM, _rollout(("timeout", "failure"), (10, 1)))
    assert (got.c_strict, got.g, got.q, got.n_used) == (True, False, 1, 1)


def test_rounding_of_the_mean_does_not_close_a_gate():
    """a(y) is 3/10 in exact arithmetic and 0.30000000000000004 in floats."""
    rng = np.random.default_rng(17)
    n_tests = int(rng.integers(2, 12))
    raw = rng.integers(1, 9, (6, n_tests)).astype(float)
    raw[rng.random(raw.shape) < 0.3] = np.nan
    seconds = rng.integers(1, 9, n_tests).astype(float)
    shares = [
        Fraction(int((column < own).sum()), int((column > 0).sum())) for column, own in zip(raw.T, seconds, strict=True)
    ]
    assert sum(shares) / n_tests == Fraction(3, 10)
    got = parse("qar(p=0.3)").evaluate(
        Problem(0, 0, None, References(raw)), Rollout([], [], ["success"] * n_tests, seconds)
    )
    assert got.g


def test_the_relative_filter_drops_the_later_of_equally_slow_tests():
    problem = Problem(0, 0, None, References(np.full((3, 50), 0.5)))
    kept = parse("rel_filter(r=30,limit=1,rho=0)").optimization_tests(problem)
    assert kept.tolist() == [True] * 35 + [False] * 15


def test_standard_rlvr_does_not_see_the_added_tests():
    rollout = _rollout(added="failure")
    assert parse("rlvr").evaluate(PROBLEM, rollout).c_cor is True
    assert parse("mc").evaluate(PROBLEM, rollout).c_cor is False


def test_mc_tloc_caps_correctness_tests_where_their_durations_are_known():
    known = Rollout(["success"], ["success"], ["success"] * 2, [1, 1], base_duration_s=[10.0], added_duration_s=[1.0])
    assert parse("mc").evaluate(PROBLEM, known).c_cor
    assert not parse("mc_tloc").evaluate(PROBLEM, known).c_cor
    assert parse("mc_tloc").evaluate(PROBLEM, _rollout()).c_cor


def test_no_limit_at_one_hundred_percent():
    rollout = _rollout(("timeout", "timeout"), (10, 10))
    for name in ("rel_timeout(p=100,rho=0)", "ranked_timeout(p=100,agg=max,rho=0)", "qp(p=1)", "qar(p=1)"):
        assert parse(name).evaluate(PROBLEM, rollout).g, name
    assert parse("rel_timeout(p=100,rho=0)").evaluate(PROBLEM, rollout).q == 0


def test_tests_without_references_are_omitted_by_derived_limits_only():
    problem = Problem(0, 0, [1, 1], References([[1.0, np.nan], [3.0, np.nan]]))
    failing_there = Rollout([], [], ["success", "failure"], [1.5, 0.1])
    for name, n_used in (("rel_timeout(p=50,rho=0)", 1), ("ranked_timeout(p=80,rho=0)", 1), ("mc_mo", 2)):
        got = parse(name).evaluate(problem, failing_there)
        assert (got.n_used, got.c_strict) == (n_used, n_used == 1), name
    assert parse("qar(p=0.5)").evaluate(problem, failing_there).c_strict is False


@pytest.mark.parametrize("references", [References.empty(0), References(np.empty((2, 0)))], ids=["none", "no test"])
def test_neutral_outcome_of_every_configuration_without_an_optimization_test(references):
    problem = Problem(1, 0, [], references)
    for env in configurations():
        got = env.evaluate(problem, Rollout(["success"], [], [], []))
        assert (got.c_cor, got.c_strict, got.g, got.q, got.qar, got.qp) == (True, True, True, 0, None, None), env


def test_neutral_outcome_without_references():
    problem = Problem(1, 0, [5], References.empty(1))
    for name in ("qar(p=0.1)", "qp(p=0.1)", "rel_timeout(p=50,rho=0)", "abs_filter(a=2,limit=0.5,rho=0)"):
        got = parse(name).evaluate(problem, Rollout(["success"], [], ["timeout"], [10]))
        assert (got.c_strict, got.g, got.q, got.qar, got.qp) == (True, True, 0, None, None), name


def test_no_rollout_gives_empty_signals_and_no_environment_is_refused():
    nobody = Rollouts.from_references(Problem(1, 1, [5], References.empty(1)))
    assert Grid(configurations()).evaluate(Problem(1, 1, [5], References.empty(1)), nobody).q.shape == (1582, 0)
    with pytest.raises(InvalidInputError, match="at least one environment"):
        Grid([])


def test_limits_remembered_by_a_problem_do_not_reach_candidates_left_out_of_the_pool():
    raw = np.random.default_rng(5).lognormal(size=(6, 4))
    grid = Grid(configurations("rel_filter", "rel_timeout", "ranked_timeout"))
    used, fresh = (Problem(0, 0, None, References(raw)) for _ in range(2))
    grid.evaluate(used, Rollouts.stack([Rollout([], [], ["success"] * 4, raw[0])]))
    left_out = [grid.evaluate(problem, Rollouts.from_references(problem)).q for problem in (used, fresh)]
    np.testing.assert_array_equal(*left_out)
    plain = [grid.evaluate(p, Rollouts.stack([Rollout([], [], ["success"] * 4, raw[1])])).q for p in (used, fresh)]
    np.testing.assert_array_equal(*plain)


def test_operators_compose_freely():
    env = compose(pre=AbsoluteFilter(2.5), intra=AbsoluteLimit(2.5), post=QpRanking(0.7), rho=0.5)
    got = env.evaluate(PROBLEM, _rollout())
    assert (got.q_to, got.q_dur, got.g) == (0.5, pytest.approx(2 / 3), True)
    assert got.q == pytest.approx(1 - 0.5 / 3)
    ranked = compose(intra=RankedLimit(40), post=QarRanking(0.5)).evaluate(PROBLEM, _rollout())
    assert ranked.q == pytest.approx(1 - (1 - 1.0) * 0.5)


def test_large_batches_are_evaluated_in_chunks(monkeypatch):
    rng = np.random.default_rng(0)
    problem = Problem(1, 1, rng.integers(1, 1000, 5), References(rng.lognormal(size=(4, 5))))
    batch = Rollouts(
        np.zeros((9, 1), int), np.zeros((9, 1), int), rng.integers(0, 3, (9, 5)), rng.lognormal(size=(9, 5))
    )
    grid = Grid(configurations("qar", "qp", "ranked_timeout", "abs_filter"))
    whole = grid.evaluate(problem, batch)
    monkeypatch.setattr("dmc_optim.environments.environment.CELLS", 50)
    chunks = grid.evaluate(problem, batch)
    for name in (f.name for f in fields(Signals)):
        np.testing.assert_array_equal(getattr(chunks, name), getattr(whole, name), err_msg=name)
