"""The ranking-metric study on a suite of which two thirds run for milliseconds: time, and what noise-awareness buys.

    python bench/bench_ranking.py                             # 12 problems × 24 references × 60 tests × 10 runs
    python bench/bench_ranking.py --problems 33 --references 60 --tests 120 --runs 20

Draws work and slowness per test and program, a part of speed that is the program's own on each test, and measurement
noise of 5% plus an additive floor; stored durations are an affine image of the fresh ones with noise of their own.
"""

import argparse
import json
import time

import numpy as np

from dmc_optim.ces.calibration.runs import ProblemRuns
from dmc_optim.studies.ranking import RankingStudyConfig, score_problems, summarise

ALPHA, BETA_S = 0.6306, 0.0529  # what the study should undo
SHOWN = ("rerun_std", "fixed_std", "spread", "resolution", "harshness", "worst_share")


def drawn_problem(index: int, references: int, tests: int, runs: int, floor_s: float) -> ProblemRuns:
    """One problem: two thirds of the tests take 3 ms at the median, the others 300 ms."""
    rng = np.random.default_rng([7, index])
    short = np.arange(tests) < 2 * tests // 3
    work = np.where(short, rng.lognormal(np.log(0.003), 0.4, tests), rng.lognormal(np.log(0.3), 0.8, tests))
    true = work[:, None] * rng.lognormal(0, 0.5, references) * rng.lognormal(0, 0.15, (tests, references))
    shape = (runs + 1, tests, references)
    timed = true * (1 + 0.05 * rng.standard_normal(shape)) + floor_s * rng.standard_normal(shape)
    timed = np.clip(timed, 1e-4, 10.0)
    stored = np.maximum((timed[0] + 0.1 - BETA_S) / ALPHA, 1e-4)
    ids = (f"p{index:03d}", tuple(f"t{t:03d}" for t in range(tests)), tuple(f"s{h:03d}" for h in range(references)))
    return ProblemRuns(*ids, stored, timed[1:], timed[1:].max(axis=0) >= 10.0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problems", type=int, default=12)
    parser.add_argument("--references", type=int, default=24)
    parser.add_argument("--tests", type=int, default=60)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--floor-ms", type=float, default=2.0, help="additive noise, standard deviation")
    arguments = parser.parse_args()
    sizes = (arguments.references, arguments.tests, arguments.runs, arguments.floor_ms / 1000)
    problems = tuple(drawn_problem(index, *sizes) for index in range(arguments.problems))
    started = time.perf_counter()
    scores = score_problems(problems, RankingStudyConfig())
    summaries = summarise(scores)
    figures = {
        "study_s": round(time.perf_counter() - started, 2),
        "noisy_test_share": round(float(np.mean([score.noisy_share for score in scores])), 3),
        "metrics": {s.name: {key: round(getattr(s, key), 2) for key in SHOWN} for s in summaries},
    }
    print(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()
