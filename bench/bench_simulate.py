"""The whole Table 38 grid on a synthetic pool, against a naive loop over rollouts.

    python bench/bench_simulate.py                            # 1,000 problems × 60 references × 120 tests, 2 workers
    python bench/bench_simulate.py --problems 50 --naive 2    # smaller

Prints the seconds of the sweep with every reference a candidate, the peak memory, and for a subset of problems the
seconds of a loop that evaluates one environment on one rollout at a time through the same environments: the ratio of
the two, and the largest difference between their curves.
"""

import argparse
import json
import resource
import time

import numpy as np

from dmc_optim.environments import Problem, Rollout, configurations
from dmc_optim.ranking import CAP_S, References, synthetic_pool
from dmc_optim.rewards import parse as parse_reward
from dmc_optim.simulator.bands import BandConfig, draw, quality_quantiles
from dmc_optim.simulator.pool import SimulationPool, make_pool
from dmc_optim.simulator.stored import Cells, StoredProblem
from dmc_optim.simulator.sweep import configure, sweep


def synthetic_problem(index: int, references: int, tests: int) -> StoredProblem:
    """A stored problem drawn by the library's generator, with 20 base and 10 correctness tests that all pass."""
    drawn = synthetic_pool(index, references, tests, noise=0.05, floor_s=0.002)
    status = np.where(drawn.censored, np.int8(1), np.int8(0))

    def cells(seconds: np.ndarray, codes: np.ndarray, chars: np.ndarray) -> Cells:
        shape = seconds.shape
        ids = tuple(f"t{i:03d}" for i in range(shape[1]))
        return Cells(ids, chars, seconds, np.full(shape, np.nan), np.ones(shape, dtype=np.int64), codes)

    def passed(n: int) -> Cells:
        return cells(np.full((references, n), 0.01), np.zeros((references, n), dtype=np.int8), np.zeros(n, np.int64))

    ids = tuple(f"s{i:03d}" for i in range(references))
    optimization = cells(drawn.stored_s, status, drawn.chars)
    return StoredProblem(f"p{index:05d}", "train", ids, passed(20), passed(10), optimization)


def naive_curves(pool: SimulationPool, band: BandConfig) -> np.ndarray:
    """Credit curves by one evaluation for each configuration and candidate, on a pool rebuilt without the candidate."""
    schedule = draw(quality_quantiles(pool), band)
    environments = configurations()
    curves = np.zeros((len(environments), band.steps))
    for index, problem in enumerate(pool.problems):
        weights = schedule.weights(index)
        for place, row in enumerate(problem.candidates):
            others = References(np.delete(problem.duration_s, row, axis=0))
            shown = Problem(problem.base.shape[1], problem.added.shape[1], problem.chars, others)
            seconds = problem.duration_s[row]
            rollout = Rollout(
                problem.base[row],
                problem.added[row],
                ["timeout" if d >= CAP_S else "success" for d in seconds],
                seconds,
                problem.base_s[row],
                problem.added_s[row],
            )
            for c, environment in enumerate(environments):
                reward = parse_reward(environment.default_reward)
                curves[c] += (reward(environment.evaluate(shown, rollout)) + 1) / 2 * weights[place]
    return curves / schedule.total


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problems", type=int, default=1000)
    parser.add_argument("--references", type=int, default=60)
    parser.add_argument("--tests", type=int, default=120)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--naive", type=int, default=1, help="problems of the naive loop's subset")
    parser.add_argument("--naive-references", type=int, default=12, help="references of the subset's problems")
    arguments = parser.parse_args()

    band = BandConfig(draws=None)
    cases = configure(configurations())
    pool = make_pool(synthetic_problem(i, arguments.references, arguments.tests) for i in range(arguments.problems))
    whole = sweep(pool, cases, band, workers=arguments.workers)

    subset = make_pool(
        synthetic_problem(i, arguments.naive_references, arguments.tests) for i in range(arguments.naive)
    )
    started = time.perf_counter()
    naive = naive_curves(subset, band)
    naive_s = time.perf_counter() - started
    started = time.perf_counter()
    fast = sweep(subset, cases, band)
    fast_s = time.perf_counter() - started
    evaluations = len(cases) * pool.summary.candidates
    peak = [resource.getrusage(who).ru_maxrss / 2**20 for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    figures = {
        "configurations": len(cases),
        "problems": pool.summary.problems,
        "candidates": pool.summary.candidates,
        "evaluations": evaluations,
        "workers": arguments.workers,
        "sweep_s": round(whole.seconds, 2),
        "evaluations_per_s": round(evaluations / whole.seconds),
        "peak_gib_parent": round(peak[0], 2),
        "peak_gib_largest_worker": round(peak[1], 2),
        "subset_candidates": subset.summary.candidates,
        "subset_naive_s": round(naive_s, 2),
        "subset_sweep_s": round(fast_s, 3),
        "ratio": round(naive_s / fast_s, 1),
        "largest_difference": float(np.abs(naive - fast.credit).max()),
    }
    print(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()
