"""The timing-noise study, against a loop over trials and tests in plain Python.

    python bench/bench_noise.py                  # 2,000 trials a point
    python bench/bench_noise.py --trials 20000

Prints the seconds of the whole study and, on the trials of one setting of each regime, the seconds of the vectorised
scores and of the loop, their ratio, and whether every score is equal.
"""

import argparse
import json
import time

import numpy as np

from dmc_optim.studies.noise import (
    DMC_OPTIM_LIKE,
    LCB_LIKE,
    NoiseKind,
    NoiseStudyConfig,
    Trials,
    draw_trials,
    oracle_thresholds,
    run_noise_study,
    timeout_scores,
    win_rate_scores,
)


def naive_scores(trials: Trials) -> tuple[list[float], list[float]]:
    """Eqs. 3 and 4, one trial and one test at a time."""
    timeouts, wins = [], []
    arrays = (trials.true_a, trials.true_b, trials.observed_a, trials.observed_b)
    for true_a, true_b, a, b in zip(*(array.tolist() for array in arrays), strict=True):
        tau = (max(true_a) + max(true_b)) / 2
        a_passes, b_passes = all(d <= tau for d in a), all(d <= tau for d in b)
        timeouts.append(0.5 if a_passes == b_passes else float(b_passes))
        b_faster = sum(y < x for x, y in zip(a, b, strict=True))
        a_faster = sum(x < y for x, y in zip(a, b, strict=True))
        wins.append(0.5 if a_faster == b_faster else float(b_faster > a_faster))
    return timeouts, wins


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=2000)
    arguments = parser.parse_args()
    config = NoiseStudyConfig(trials=arguments.trials)

    started = time.perf_counter()
    points = run_noise_study(config)
    figures = {"trials": config.trials, "points": len(points), "study_s": round(time.perf_counter() - started, 2)}
    for regime in (LCB_LIKE, DMC_OPTIM_LIKE):
        rng = np.random.default_rng(0)
        trials = draw_trials(rng, regime, config.trials, regime.n_tests, (NoiseKind.ADDITIVE, 0.1), config)
        started = time.perf_counter()
        fast = timeout_scores(trials, oracle_thresholds(trials)).tolist(), win_rate_scores(trials).tolist()
        fast_s = time.perf_counter() - started
        started = time.perf_counter()
        naive = naive_scores(trials)
        naive_s = time.perf_counter() - started
        figures[regime.name] = {
            "vectorised_s": round(fast_s, 4),
            "naive_s": round(naive_s, 3),
            "ratio": round(naive_s / fast_s, 1),
            "equal": fast == naive,
        }
    print(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()
