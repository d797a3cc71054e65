"""Hypothesis strategies for environments, problems and rollouts."""

import numpy as np
from hypothesis import strategies as st

from dmc_optim.environments import GRID, Problem, Rollout
from dmc_optim.ranking import References
from tests.ranking import oracle
from tests.ranking.strategies import seconds, tables

STATUSES = ("success", "success", "success", "timeout", "failure")


@st.composite
def families(draw):
    """A family and parameters of its Table 38 grid, now and then with p = 100 or the median of D_t."""
    family = draw(st.sampled_from(sorted(GRID)))
    parameters = {name: draw(st.sampled_from(values)) for name, values in GRID[family].items()}
    if family in {"rel_timeout", "ranked_timeout"} and draw(st.integers(0, 9)) == 0:
        parameters["p"] = 100
    if family in {"abs_filter", "rel_filter"} and draw(st.booleans()):
        parameters["agg"] = "median"
    return family, parameters


@st.composite
def worlds(draw, calibration=None, min_tests=0, min_references=0):
    """(raw durations, Problem) without infinities, so that exact arithmetic applies."""
    cell = st.one_of(seconds, seconds, st.sampled_from([float("nan"), 0.0, 20.0]))
    raw = draw(tables(cell=cell, min_tests=min_tests, min_references=min_references))
    chars = draw(st.lists(st.sampled_from([2, 100, 101, 5000, 10**6]), min_size=raw.shape[1], max_size=raw.shape[1]))
    problem = Problem(
        draw(st.integers(0, 3)), draw(st.integers(0, 3)), np.array(chars, dtype=int), References(raw, calibration)
    )
    return raw, problem


@st.composite
def rollouts(draw, problem):
    def some(n):
        return draw(st.lists(st.sampled_from(STATUSES), min_size=n, max_size=n))

    def mostly_passing(n):
        return ["success"] * n if draw(st.integers(0, 2)) else some(n)

    cell = st.one_of(seconds, seconds, st.just(float("nan")))
    durations = draw(st.lists(cell, min_size=problem.n_tests, max_size=problem.n_tests))
    return Rollout(
        mostly_passing(problem.base_tests), mostly_passing(problem.added_tests), some(problem.n_tests), durations
    )


def exact_problem(raw, problem):
    """The problem in the oracle's form."""
    return {"rows": oracle.table(raw), "chars": [int(n) for n in problem.chars]}


def exact_rollout(rollout):
    """The rollout in the oracle's form."""
    return {
        "base": rollout.base_status,
        "added": rollout.added_status,
        "status": rollout.opt_status,
        "delta": [oracle.exact(float(value)) for value in rollout.opt_duration_s],
    }
