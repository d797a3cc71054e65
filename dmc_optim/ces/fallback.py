"""What to do when the service gives no verdict: the decision table, and how often it matters (paper C.4-C.6).

`decide` is the whole policy as a pure function of one (program, test) pair. Two rules shape it. A definitive result of
the service is kept as it is. A run on another machine may recover a *verdict*, never a timing: local and service
durations do not mix.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from itertools import product

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dmc_optim.errors import InvalidInputError
from schemas.enums import Category, Outcome, RewardFamily, Status

STOPPING_FAMILIES = frozenset({RewardFamily.CORRECTNESS_ONLY, RewardFamily.COLLAPSED, RewardFamily.TWO_GATE})
"""Families whose reward is settled by a hard failure; the others still pay for the remaining tests."""


class Action(StrEnum):
    """What the caller does next with a pair."""

    FINAL = "final"  # the decision stands
    RETRY = "retry"  # ask the service again, at once
    RUN_LOCALLY = "run_locally"  # run it on this machine, then decide again with the local outcome


class Source(StrEnum):
    """Where a final verdict comes from."""

    SERVICE = "service"
    LOCAL = "local"  # recovered on this machine
    NONE = "none"  # unknown: the rollout is not scored


@dataclass(frozen=True, slots=True)
class Policy:
    """attempts: requests to the service before it counts as out of reach. limit_s: the service's time limit."""

    attempts: int = 3
    fallback: bool = True
    limit_s: float = 10.0


@dataclass(frozen=True, slots=True)
class Decision:
    """verdict: None is unknown, never a failure. duration_s: None is not measured, and none may be made up for it."""

    action: Action
    verdict: Status | None = None
    duration_s: float | None = None
    source: Source = Source.NONE
    may_stop_early: bool = False


def decide(
    category: Category,
    service: Status | None,
    service_duration_s: float | None,
    attempts: int,
    local: Status | None,
    family: RewardFamily,
    policy: Policy,
) -> Decision:
    """The next step for one (program, test) pair, or its verdict.

    category: optimization tests carry timing, all others only correctness. service: the last answer, None when it was
    not a status at all. attempts: requests made so far, at least 1. local: outcome of the local run, None before it.

    | service says | then |
    |---|---|
    | a verdict | it stands with its duration |
    | nothing usable, attempts left | retry on the service |
    | nothing usable, fallback off | unknown |
    | nothing usable, no local run yet | run locally |
    | … local run inconclusive | unknown |
    | … local success, optimization test | timeout, duration = limit: it may only have been fast here |
    | … local timeout, optimization test | timeout, duration = limit |
    | … any other local verdict | it stands, without a duration |

    A hard failure that the service itself reports may end the trajectory where it settles the reward: in
    STOPPING_FAMILIES, and for correctness_only on a correctness test (it does not look at the others). Timeouts and
    local verdicts never end one. Raises InvalidInputError for attempts < 1.
    """
    if attempts < 1:
        raise InvalidInputError(f"attempts counts the requests made so far, at least 1, got {attempts}")
    if service is not None and service.outcome is not None:
        return Decision(
            Action.FINAL, service, service_duration_s, Source.SERVICE, _settles_reward(category, service, family)
        )
    if attempts < policy.attempts:
        return Decision(Action.RETRY)
    if not policy.fallback:
        return Decision(Action.FINAL)
    if local is None:
        return Decision(Action.RUN_LOCALLY)
    if local.outcome is None:
        return Decision(Action.FINAL)
    if category is Category.OPTIMIZATION and local.outcome in (Outcome.SUCCESS, Outcome.TIMEOUT):
        return Decision(Action.FINAL, Status.TIMEOUT, policy.limit_s, Source.LOCAL)
    return Decision(Action.FINAL, local, None, Source.LOCAL)


def resolve(
    category: Category,
    family: RewardFamily,
    policy: Policy,
    ask_service: Callable[[], tuple[Status | None, float | None]],
    run_locally: Callable[[], Status],
) -> tuple[Decision, int]:
    """Follow the table until a final decision: (decision, requests made to the service).

    ask_service gives (status, seconds); run_locally is called at most once, and never without need.
    """
    service, duration_s = ask_service()
    attempts, local = 1, None
    while True:
        decision = decide(category, service, duration_s, attempts, local, family, policy)
        if decision.action is Action.RETRY:
            service, duration_s = ask_service()
            attempts += 1
        elif decision.action is Action.RUN_LOCALLY:
            local = run_locally()
        else:
            return decision, attempts


def decision_table(policy: Policy) -> Iterator[dict[str, object]]:
    """Every distinct situation with its decision, as flat rows: the table that the documentation shows."""
    categories = (Category.CORRECTNESS, Category.OPTIMIZATION)
    for category, service, family in product(categories, (*Status, None), RewardFamily):
        conclusive = service is not None and service.outcome is not None
        locals_: tuple[Status | None, ...] = (None,) if conclusive else (None, *Status)
        for attempts, local in product((1, policy.attempts), locals_):
            if attempts < policy.attempts and local is not None:
                continue
            decision = decide(category, service, 1.0 if conclusive else None, attempts, local, family, policy)
            yield {
                "category": category.value,
                "service": service.value if service else "unknown",
                "attempts": attempts,
                "local": local.value if local else None,
                "family": family.value,
                "action": decision.action.value,
                "verdict": decision.verdict.value if decision.verdict else None,
                "duration": _duration_name(decision, policy),
                "source": decision.source.value,
                "may_stop_early": decision.may_stop_early,
            }


def exposure(rate: ArrayLike, n_tests: ArrayLike) -> NDArray[np.float64]:
    """P = 1 − (1 − f)^n: chance that at least one of n tests reaches fallback (Eq. 7); broadcasts.

    rate: f in [0, 1], failures of one test. n_tests: n ≥ 0; with all tests of a problem it is the discard rate of C.6.
    Raises InvalidInputError outside those ranges.
    """
    f, n = np.asarray(rate, dtype=np.float64), np.asarray(n_tests, dtype=np.float64)
    if not (np.all((f >= 0) & (f <= 1)) and np.all(n >= 0)):
        raise InvalidInputError("a failure rate lies in [0, 1] and a number of tests is not negative")
    with np.errstate(divide="ignore", invalid="ignore"):
        chance = -np.expm1(n * np.log1p(-f))
    return np.asarray(np.where(n == 0, 0.0, chance))


def _settles_reward(category: Category, status: Status, family: RewardFamily) -> bool:
    if status.outcome is not Outcome.FAILURE or family not in STOPPING_FAMILIES:
        return False
    return family is not RewardFamily.CORRECTNESS_ONLY or category is not Category.OPTIMIZATION


def _duration_name(decision: Decision, policy: Policy) -> str | None:
    if decision.duration_s is None:
        return None
    return "service" if decision.source is Source.SERVICE else f"{policy.limit_s:g} s (limit)"
