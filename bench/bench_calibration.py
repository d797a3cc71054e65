"""Calibration and sentinels on synthetic data: how long an analysis takes, and how often a probe is wrong.

    .venv/bin/python bench/bench_calibration.py [--problems 33] [--runs 20] [--probes 2000]

The analysis has the paper's shape (33 problems, 14 to 3,185 references, 30 to 150 tests), with --runs 20 in full;
by default a tenth of the runs. Noise and map are the paper's (CV 9%, α 0.63, β 53 ms), and must be found again.
"""

import argparse
import resource
import time

import numpy as np

from dmc_optim.ces.calibration.analysis import analyse
from dmc_optim.ces.calibration.load import Loaded
from dmc_optim.ces.calibration.runs import ProblemRuns
from dmc_optim.ces.health.shifts import STATISTICS, detect

SNIPPETS = {"a": 0.002, "b": 0.01, "c": 0.04, "d": 0.15, "e": 0.3, "f": 0.02, "g": 0.08}


def campaign(problems: int, runs: int) -> Loaded:
    rng = np.random.default_rng(0)
    cubes = []
    for i in range(problems):
        tests = int(rng.integers(30, 151))
        solutions = int(np.clip(np.exp(rng.normal(5.06, 1.15)), 14, 3185))
        stored = np.maximum(0.08, np.exp(rng.normal(-2.2, 0.6, (tests, solutions))))
        fresh = np.maximum((0.63 * stored + 0.053) * (1 + 0.09 * rng.normal(size=(runs, tests, solutions))), 1e-4)
        ids = tuple(map(str, range(tests))), tuple(map(str, range(solutions)))
        cubes.append(ProblemRuns(f"p{i}", *ids, stored, fresh, np.zeros((tests, solutions), bool)))
    raw = sum(cube.fresh.size for cube in cubes)
    return Loaded("campaign-001", 0, 0, tuple(cubes), raw, 0, 0, 0, problems * runs, 0)


def reading(rng, slope=1.0, offset=0.0, tail=0.0, cv=0.03, common=0.01, repetitions=5):
    shared = np.exp(rng.normal(0, common))
    timings = {}
    for name, base in SNIPPETS.items():
        values = (slope * base * shared + offset) * np.exp(rng.normal(0, cv, repetitions))
        timings[name] = list(np.where(rng.random(repetitions) < tail, 3 * values, values))
    return timings


def probes(count: int, size: int, **noise) -> str:
    rng = np.random.default_rng(size)
    moved = dict.fromkeys(STATISTICS, 0)
    alarms = 0
    for _ in range(count // 20):
        baseline = [reading(rng, **noise) for _ in range(size)]
        for _ in range(20):
            shifted = detect(baseline, reading(rng, **noise)).shifted
            alarms += bool(shifted)
            for name in shifted:
                moved[name] += 1
    planted = {"slope +15%": {"slope": 1.15}, "offset +4 ms": {"offset": 0.004}, "30% straggle ×3": {"tail": 0.3}}
    found = {}
    for name, change in planted.items():
        hits = 0
        for _ in range(200):
            baseline = [reading(rng, **noise) for _ in range(size)]
            hits += bool(detect(baseline, reading(rng, **change, **noise)).shifted)
        found[name] = f"{hits / 200:.0%}"
    return f"false alarms {alarms / count:.2%} {moved}; found {found}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problems", type=int, default=33)
    parser.add_argument("--runs", type=int, default=2)
    parser.add_argument("--probes", type=int, default=2000)
    arguments = parser.parse_args()
    loaded = campaign(arguments.problems, arguments.runs)
    started = time.process_time()
    fit = analyse(loaded).fit
    seconds = time.process_time() - started
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    print(
        f"analysis of {loaded.raw:,} raw, {fit.n_pairs:,} pooled pairs: {seconds:.1f} CPU s, peak memory {peak:.2f} GB"
    )
    print(f"  planted α 0.63, β 0.053; found {fit.coefficients[0]:.4f}, {fit.coefficients[1]:.4f}")
    for noise in ({"cv": 0.02, "common": 0.0}, {"cv": 0.03, "common": 0.01}, {"cv": 0.1, "common": 0.02}):
        for size in (5, 20):
            print(f"baseline of {size:2d} readings, {noise}: {probes(arguments.probes, size, **noise)}")


if __name__ == "__main__":
    main()
