"""One rollout's outcome and reward against 200 references × 120 tests, beside a naive loop over cells.

    python bench/bench_rollout.py

Times the training path (statuses and durations in, signals of one environment, reward out; references and
limits prepared once a problem) for each of the paper's four keepers and for QP, and a loop that recomputes the same
reward cell by cell.
Prints the median of each, their ratio, the target of 1 ms, and whether both gave the same reward.
"""

import argparse
from collections.abc import Callable
from math import ceil
from statistics import median
from time import perf_counter

import numpy as np

from dmc_optim.environments import KEEPERS, Environment, Problem, Rollout, parse
from dmc_optim.environments.operators import AbsoluteFilter, AbsoluteLimit, NoRanking, QarRanking, RankedLimit
from dmc_optim.ranking import synthetic_pool
from dmc_optim.rewards import parse as parse_reward

TARGET_S = 1e-3
Table = list[list[float | None]]


def naive_reward(env: Environment, rows: Table, rollout: Rollout) -> float:
    """The collapsed binary reward of a ranking or time-limit environment by loops, for passing correctness tests."""
    n_tests = len(rollout.opt_status)
    columns = [[row[t] for row in rows if row[t] is not None] for t in range(n_tests)]
    seconds = [10.0 if s == "timeout" else d for s, d in zip(rollout.opt_status, rollout.opt_duration_s, strict=True)]
    used = list(range(n_tests))
    if isinstance(env.pre, AbsoluteFilter):
        used = [t for t in used if columns[t] and sum(columns[t]) / len(columns[t]) < env.pre.a]
    if not isinstance(env.post, NoRanking):
        gate = naive_rank(rows, columns, seconds, used, isinstance(env.post, QarRanking)) <= env.post.p + 1e-12
    else:
        limits = naive_limits(env, rows, columns, used)
        late = sum(
            rollout.opt_status[t] == "timeout" or (rollout.opt_status[t] == "success" and seconds[t] >= limits[t])
            for t in used
        )
        gate = (late / len(used) if used else 0.0) <= env.rho
    return 1.0 if gate and not any(rollout.opt_status[t] == "failure" for t in used) else -1.0


def naive_rank(rows: Table, columns: list[list[float]], seconds: list[float], used: list[int], qar: bool) -> float:
    """q_QAR or q_QP of the inserted leaderboard."""
    a = sum(sum(d < seconds[t] for d in columns[t]) / len(columns[t]) for t in used) / len(used)
    if qar:
        return a
    ahead = ranked = 0
    for row in rows:
        own = [
            (sum(d < row[t] for d in columns[t]) + (seconds[t] < row[t])) / len(columns[t])
            for t in used
            if row[t] is not None
        ]
        ranked += bool(own)
        ahead += bool(own) and sum(own) / len(own) < a - 1e-12
    return ahead / max(1, ranked)


def naive_limits(env: Environment, rows: Table, columns: list[list[float]], used: list[int]) -> list[float]:
    """λ_t of an absolute or a ranked-worst limit."""
    if isinstance(env.intra, AbsoluteLimit):
        return [env.intra.limit] * len(columns)
    assert isinstance(env.intra, RankedLimit)
    averages = []
    for h, row in enumerate(rows):
        own = [1 + sum(d < row[t] for d in columns[t]) for t in used if row[t] is not None]
        averages.append((sum(own) / len(own), h))
    best = [h for _, h in sorted(averages)[: max(1, ceil(env.intra.p * len(averages) / 100))]]
    return [max(rows[h][t] for h in best if rows[h][t] is not None) for t in range(len(columns))]


def timed(call: Callable[[], float], repeats: int) -> tuple[float, float]:
    """(median seconds, last value) of a call."""
    seconds = []
    for _ in range(repeats):
        start = perf_counter()
        value = call()
        seconds.append(perf_counter() - start)
    return median(seconds), value


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--references", type=int, default=200)
    parser.add_argument("--tests", type=int, default=120)
    parser.add_argument("--repeats", type=int, default=300)
    options = parser.parse_args()
    pool = synthetic_pool(0, options.references, options.tests, noise=0.05, missing=0.02)
    problem = Problem(20, 10, pool.chars, pool.references((0.6306, 0.0529)))
    rng = np.random.default_rng(1)
    seconds = pool.candidate(0.6) * rng.lognormal(0.0, 0.3, options.tests)
    status = ["timeout" if second >= 10 else "success" for second in seconds]
    rollout = Rollout(["success"] * 20, ["success"] * 10, status, np.minimum(seconds, 10.0))
    rows = [[None if np.isnan(d) else float(d) for d in row] for row in problem.references.durations]

    print(f"{options.references} references × {options.tests} tests, one rollout, collapsed/binary")
    print(f"{'environment':<40}{'library ms':>11}{'naive ms':>10}{'ratio':>8}{'<= 1 ms':>9}{'same':>6}")
    for env in (*KEEPERS, parse("qp(p=0.3)")):
        reward = parse_reward(env.default_reward)
        fast, value = timed(lambda env=env, reward=reward: reward(env.evaluate(problem, rollout)), options.repeats)
        slow, expected = timed(lambda env=env: naive_reward(env, rows, rollout), 3)
        within, same = "yes" if fast <= TARGET_S else "NO", "yes" if value == expected else "NO"
        print(f"{env!s:<40}{fast * 1e3:>11.3f}{slow * 1e3:>10.1f}{slow / fast:>7.0f}x{within:>9}{same:>6}")


if __name__ == "__main__":
    main()
