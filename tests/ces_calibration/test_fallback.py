"""The decision table row by row, and every vector of Eq. 7."""

import itertools

import numpy as np
import pytest

from dmc_optim.ces.fallback import (
    STOPPING_FAMILIES,
    Action,
    Decision,
    Policy,
    Source,
    decide,
    decision_table,
    exposure,
    resolve,
)
from dmc_optim.errors import InvalidInputError
from dmc_optim.studies.fallback import PAPER_TABLE_27, PAPER_TESTS
from schemas.enums import Category, Outcome, RewardFamily, Status

POLICY = Policy(attempts=3, fallback=True, limit_s=10.0)
DEFINITIVE = [s for s in Status if s.outcome is not None]
INCONCLUSIVE = [None, Status.INFRASTRUCTURE]
HARD = [s for s in DEFINITIVE if s.outcome is Outcome.FAILURE]


def ask(category, service, attempts=3, local=None, family=RewardFamily.COLLAPSED, policy=POLICY, duration=0.5):
    return decide(category, service, duration, attempts, local, family, policy)


@pytest.mark.parametrize("service", DEFINITIVE)
def test_a_definitive_service_result_is_kept_as_it_is(service):
    for category, local, attempts, fallback in itertools.product(Category, [None, *Status], [1, 3, 7], [True, False]):
        decision = ask(category, service, attempts, local, policy=Policy(3, fallback))
        assert (decision.action, decision.verdict, decision.duration_s) == (Action.FINAL, service, 0.5)
        assert decision.source is Source.SERVICE


@pytest.mark.parametrize(("service", "fallback"), list(itertools.product(INCONCLUSIVE, [True, False])))
def test_inconclusive_results_are_retried_on_the_service_first(service, fallback):
    for attempts in (1, 2):
        assert ask(Category.OPTIMIZATION, service, attempts, policy=Policy(3, fallback)) == Decision(Action.RETRY)


@pytest.mark.parametrize("service", INCONCLUSIVE)
def test_without_fallback_an_unresolved_pair_is_unknown_never_a_failure(service):
    for local in (None, *Status):
        decision = ask(Category.CORRECTNESS, service, 3, local, policy=Policy(3, fallback=False))
        assert decision == Decision(Action.FINAL, None, None, Source.NONE, False)


@pytest.mark.parametrize("service", INCONCLUSIVE)
def test_with_fallback_a_local_run_follows(service):
    assert ask(Category.CORRECTNESS, service).action is Action.RUN_LOCALLY
    assert ask(Category.CORRECTNESS, service, local=Status.INFRASTRUCTURE).verdict is None


def test_a_local_success_on_an_optimization_test_is_a_timeout_at_the_limit():
    decision = ask(Category.OPTIMIZATION, None, local=Status.SUCCESS)
    assert (decision.verdict, decision.duration_s, decision.source) == (Status.TIMEOUT, 10.0, Source.LOCAL)
    assert ask(Category.OPTIMIZATION, None, local=Status.SUCCESS, policy=Policy(3, True, 2.5)).duration_s == 2.5


@pytest.mark.parametrize("local", DEFINITIVE)
@pytest.mark.parametrize("category", [c for c in Category if c is not Category.OPTIMIZATION])
def test_on_correctness_tests_the_local_verdict_stands_without_a_duration(category, local):
    decision = ask(category, Status.INFRASTRUCTURE, local=local)
    assert (decision.verdict, decision.duration_s, decision.source) == (local, None, Source.LOCAL)


@pytest.mark.parametrize("local", HARD)
def test_a_local_failure_on_an_optimization_test_stands_without_a_duration(local):
    decision = ask(Category.OPTIMIZATION, None, local=local)
    assert (decision.verdict, decision.duration_s) == (local, None)


@pytest.mark.parametrize(("category", "status"), list(itertools.product(Category, DEFINITIVE)))
def test_who_may_stop_early(category, status):
    for family in RewardFamily:
        may = ask(category, status, 1, family=family).may_stop_early
        settled = status in HARD and family in STOPPING_FAMILIES
        if family is RewardFamily.CORRECTNESS_ONLY and category is Category.OPTIMIZATION:
            settled = False
        assert may is settled


def test_stopping_families_are_the_three_of_the_design():
    assert sorted(STOPPING_FAMILIES) == ["collapsed", "correctness_only", "two_gate"]


def test_local_verdicts_and_timeouts_never_stop_a_trajectory():
    for row in decision_table(POLICY):
        if row["source"] != "service" or row["verdict"] in ("timeout", "success"):
            assert row["may_stop_early"] is False


def test_the_table_covers_every_situation_and_no_duration_comes_from_a_local_run():
    rows = list(decision_table(POLICY))
    assert {(r["category"], r["service"], r["family"]) for r in rows} == {
        (c, s, f)
        for c in ("correctness", "optimization")
        for s in (*(status.value for status in Status), "unknown")
        for f in RewardFamily
    }
    for row in rows:
        assert row["duration"] in (None, "service", "10 s (limit)")
        if row["source"] == "local":
            assert row["duration"] == ("10 s (limit)" if row["verdict"] == "timeout" else None) or (
                row["category"] == "correctness" and row["duration"] is None
            )


def test_attempts_are_counted_from_one():
    with pytest.raises(InvalidInputError, match="at least 1"):
        ask(Category.CORRECTNESS, None, attempts=0)


def resolved(answers, local, policy=POLICY, category=Category.OPTIMIZATION):
    asked, ran = [], []

    def service():
        asked.append(1)
        return answers[min(len(asked), len(answers)) - 1]

    def locally():
        ran.append(1)
        return local

    decision, attempts = resolve(category, RewardFamily.COLLAPSED, policy, service, locally)
    return decision, attempts, len(asked), len(ran)


def test_resolve_asks_no_more_than_it_must():
    lost, good = (Status.INFRASTRUCTURE, None), (Status.SUCCESS, 0.3)
    decision, attempts, asked, ran = resolved([good], Status.SUCCESS)
    assert (decision.duration_s, attempts, asked, ran) == (0.3, 1, 1, 0)
    decision, attempts, asked, ran = resolved([lost, (None, None), good], Status.SUCCESS)
    assert (decision.source, decision.duration_s, attempts, asked, ran) == (Source.SERVICE, 0.3, 3, 3, 0)
    decision, attempts, asked, ran = resolved([lost], Status.SUCCESS)
    assert (decision.verdict, decision.duration_s, asked, ran) == (Status.TIMEOUT, 10.0, 3, 1)
    decision, _, asked, ran = resolved([lost], Status.SUCCESS, Policy(2, fallback=False))
    assert (decision.verdict, asked, ran) == (None, 2, 0)


@pytest.mark.parametrize("rate", PAPER_TABLE_27)
def test_every_entry_of_table_27(rate):
    digits = 1 if rate >= 1e-4 else 2
    printed = [round(100 * float(p), digits) for p in exposure(rate, PAPER_TESTS)]
    assert printed == list(PAPER_TABLE_27[rate])


@pytest.mark.parametrize(
    ("rate", "expected"),
    [
        (0.02, [18.3, 45.5, 63.6, 86.7, 95.2]),
        (0.005, [4.9, 14.0, 22.2, 39.4, 52.9]),
        (0.001, [1.0, 3.0, 4.9, 9.5, 13.9]),
        (0.0001, [0.1, 0.3, 0.5, 1.0, 1.5]),
    ],
)
def test_vectors_of_the_design(rate, expected):
    assert [round(100 * (1 - (1 - rate) ** n), 1) for n in (10, 30, 50, 100, 150)] == expected
    assert exposure(rate, [10, 30, 50, 100, 150]) * 100 == pytest.approx(expected, abs=0.05)


def test_discard_rates_at_80_tests():
    assert round(float(exposure(0.02, 80)), 2) == 0.80
    assert round(float(exposure(0.005, 80)), 2) == 0.33


def test_edges_and_small_rates_keep_their_digits():
    assert exposure([0, 1], 5).tolist() == [0, 1]
    assert exposure(1.0, 0) == 0
    assert float(exposure(1e-15, 10)) == pytest.approx(1e-14, rel=1e-9)
    assert exposure(np.array([[0.1], [0.2]]), np.array([1, 2, 3])).shape == (2, 3)
    for rate, n in ((-0.1, 3), (1.1, 3), (np.nan, 3), (0.1, -1)):
        with pytest.raises(InvalidInputError):
            exposure(rate, n)
