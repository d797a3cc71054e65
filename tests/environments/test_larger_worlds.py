"""Seeded worlds larger than hypothesis draws, in decimals that meet thresholds and limits exactly."""

import random
from fractions import Fraction

import numpy as np
import pytest

from dmc_optim.environments import Grid, Problem, Rollout, Rollouts, build, configurations
from dmc_optim.ranking import References
from tests.environments import oracle

DECIMALS = (0.1, 0.2, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0)


def _decimal(value):
    return None if np.isnan(value) else Fraction(repr(float(value)))


def _world(rng):
    n_references, n_tests = rng.integers(1, 25, 2)
    raw = np.round(rng.lognormal(0, 1, (n_references, n_tests)), 1)
    if rng.random() < 0.5:
        raw = rng.choice([*DECIMALS, 12.0], (n_references, n_tests))
    raw[rng.random(raw.shape) < rng.choice([0, 0.1, 0.5])] = np.nan
    chars = rng.choice([50, 100, 1000, 10**5, 10**6], n_tests)
    return Problem(int(rng.integers(0, 3)), int(rng.integers(0, 3)), chars, References(raw))


def _rollout(rng, problem):
    def statuses(n, share):
        return [str(s) for s in rng.choice(["success", "timeout", "failure"], n, p=[share, 0.98 - share, 0.02])]

    seconds = rng.choice(DECIMALS, problem.n_tests)
    if rng.random() < 0.3:
        seconds = np.nan_to_num(problem.references.durations[0], nan=1.0)
    seconds = np.where(rng.random(problem.n_tests) < 0.05, np.nan, seconds)
    counts = (problem.base_tests, problem.added_tests, problem.n_tests)
    return Rollout(*(statuses(n, 0.95) for n in counts), seconds)


@pytest.mark.parametrize("seed", range(25))
def test_grids_agree_with_exact_decimals(seed):
    rng = np.random.default_rng(seed)
    problem = _world(rng)
    rollouts = [_rollout(rng, problem) for _ in range(2)]
    rows = [[_decimal(cell) for cell in row] for row in problem.references.durations]
    world = {"rows": rows, "chars": problem.chars.tolist()}
    chosen = random.Random(seed).sample(configurations(), 12)
    signals = Grid(chosen).evaluate(problem, Rollouts.stack(rollouts))
    for e, env in enumerate(chosen):
        family, parameters = _split(str(env))
        assert build(family, **parameters) == env
        for k, rollout in enumerate(rollouts):
            record = {
                "base": rollout.base_status,
                "added": rollout.added_status,
                "status": rollout.opt_status,
                "delta": [_decimal(second) for second in rollout.opt_duration_s],
            }
            c_cor, strict, g, q, *_ = oracle.signals(family, parameters, world, record)
            got = signals.c_cor[e, k], signals.c_strict[e, k], signals.g[e, k]
            assert got == (c_cor, strict, g), env
            assert abs(signals.q[e, k] - float(q)) <= 1e-12, env


def _split(name):
    family, _, inside = name.rstrip(")").partition("(")
    pairs = (item.split("=") for item in inside.split(",") if item)
    return family, {key: value if key == "agg" else float(value) for key, value in pairs}
