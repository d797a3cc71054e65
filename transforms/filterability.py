"""Stage 7, filterability: do a problem's optimization tests span enough workload to rank by time? (paper Eq. 6)"""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from scipy import stats

from dmc_optim.config import FilterabilityConfig
from schemas.enums import ORIGINAL_CATEGORIES, Category, Label, Outcome, Reason, Status, TestGroup
from transforms.context import StageContext
from transforms.decision import Decision, Drop, ProblemState

LEAST_TESTS = 2
GROUPS = {
    TestGroup.ORIGINAL: ORIGINAL_CATEGORIES,
    TestGroup.CORRECTNESS: (Category.CORRECTNESS,),
    TestGroup.OPTIMIZATION: (Category.OPTIMIZATION,),
}


def mean_durations(
    rows: Iterable[Mapping[str, Any]], tests: set[str], solutions: set[str], cap_s: float
) -> tuple[dict[str, float], float | None]:
    """d̄_j of Eq. 6, in seconds, for every test with a measured run; and the share of runs that are the cap.

    A success counts with its duration, a time-out with cap_s; other outcomes say nothing about workload.
    """
    durations: dict[str, list[float]] = defaultdict(list)
    censored = 0
    for row in rows:
        if row["test_id"] not in tests or row["solution_id"] not in solutions:
            continue
        outcome = Status(row["status"]).outcome
        if outcome is Outcome.TIMEOUT:
            durations[row["test_id"]].append(cap_s)
            censored += 1
        elif outcome is Outcome.SUCCESS:
            durations[row["test_id"]].append(row["duration_s"])
    total = sum(len(values) for values in durations.values())
    means = {test: math.fsum(values) / len(values) for test, values in durations.items()}
    return means, censored / total if total else None


def assess(
    means: Mapping[str, float], n_chars: Mapping[str, int], config: FilterabilityConfig
) -> tuple[dict[str, Any], Drop | None]:
    """Figures and verdict of one test group: (columns of `filterability`, why it is not duration filterable).

    Quartiles are linearly interpolated. Reasons are tried in the order too few tests, zero median, low CV, below
    resolution. Pearson r is None where lengths or durations are constant.
    """
    tests = sorted(means)
    d = np.array([means[t] for t in tests])
    figures: dict[str, Any] = {"n_tests": len(tests), "robust_cv": None, "iqr_s": None, "median_s": None}
    figures["pearson_r"] = _pearson([n_chars[t] for t in tests], d)
    r = figures["pearson_r"]
    figures["length_filterable"] = r is not None and r >= config.pearson_r
    if len(tests) == 0:
        return figures, Drop(Reason.TOO_FEW_TESTS, 0, LEAST_TESTS)
    q1, median, q3 = (float(q) for q in np.percentile(d, [25, 50, 75], method="linear"))
    figures |= {"iqr_s": q3 - q1, "median_s": median, "robust_cv": (q3 - q1) / median if median > 0 else None}
    if len(tests) < LEAST_TESTS:
        return figures, Drop(Reason.TOO_FEW_TESTS, len(tests), LEAST_TESTS)
    if median <= 0:
        return figures, Drop(Reason.ZERO_MEDIAN, median)
    if figures["robust_cv"] < config.robust_cv:
        return figures, Drop(Reason.LOW_CV, figures["robust_cv"], config.robust_cv)
    if figures["iqr_s"] < config.min_iqr_s:
        return figures, Drop(Reason.BELOW_RESOLUTION, figures["iqr_s"], config.min_iqr_s)
    return figures, None


def _pearson(lengths: list[int], d: np.ndarray[Any, Any]) -> float | None:
    if len(lengths) < LEAST_TESTS or len(set(lengths)) == 1 or len(set(d.tolist())) == 1:
        return None
    return float(stats.pearsonr(np.array(lengths, float), d).statistic)


def judge(
    state: ProblemState,
    rows: list[dict[str, Any]],
    n_chars: Mapping[str, int],
    config: FilterabilityConfig,
    cap_s: float,
) -> Decision:
    """All three groups; the optimization tests decide."""
    references = set(state.solutions_of(Label.CORRECT))
    decision = Decision()
    table = []
    for group, categories in GROUPS.items():
        means, censored = mean_durations(rows, set(state.tests_of(*categories)), references, cap_s)
        figures, drop = assess(means, n_chars, config)
        table.append(
            {
                "problem_id": state.problem_id,
                "category": group.value,
                **figures,
                "duration_filterable": drop is None,
                "censored_share": censored,
                "reason": None if drop is None else str(drop.reason),
            }
        )
        if group is TestGroup.OPTIMIZATION:
            decision.problem = drop
    decision.rows["filterability"] = table
    return decision


def decide(context: StageContext, state: ProblemState) -> Decision:
    """`judge` on the stored executions."""
    selection: dict[str, Any] = {
        "stages": context.earlier,
        "shard": context.shard_of(state.problem_id),
        "problem_id": state.problem_id,
    }
    columns = ["problem_id", "solution_id", "test_id", "status", "duration_s"]
    rows = context.layout.rows("executions", columns=columns, **selection)
    tests = context.layout.rows("tests", columns=["problem_id", "test_id", "n_chars"], **selection)
    n_chars = {row["test_id"]: row["n_chars"] for row in tests}
    return judge(state, rows, n_chars, context.config.filterability, context.config.execution.time_limit_s)
