"""The filtering rules against naive recomputation, by property, and at their exact boundaries."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dmc_optim.config import CORRECTNESS_FILTER, OPTIMIZATION_FILTER
from schemas.enums import Reason, Status
from transforms.filtering import fraction, pass_share, passes, problem_gates, removals, worst

STATUSES = list(Status)


@st.composite
def outcome_tables(draw: st.DrawFn) -> tuple[dict[tuple[str, str], Status], list[str], list[str]]:
    solutions = [f"s{i}" for i in range(draw(st.integers(1, 6)))]
    tests = [f"t{i:02d}" for i in range(draw(st.integers(0, 12)))]
    table = {(s, t): draw(st.sampled_from(STATUSES)) for s in solutions for t in tests if draw(st.integers(0, 9)) > 0}
    return table, solutions, tests


@given(outcome_tables())
def test_removals_equal_a_naive_reading(case: tuple[dict[tuple[str, str], Status], list[str], list[str]]) -> None:
    table, solutions, tests = case
    found = removals(table, solutions, tests, CORRECTNESS_FILTER)

    def share(test: str, bad: set[str]) -> Fraction:
        ran = [table[s, test].value for s in solutions if (s, test) in table]
        ran = [status for status in ran if status != "infrastructure"]
        return Fraction(len([x for x in ran if x in bad]), len(ran)) if ran else Fraction(0)

    slow = [(-share(t, {"timeout"}), t) for t in tests if share(t, {"timeout"}) > Fraction(1, 5)]
    slow = sorted(slow)[: len(tests) // 4]
    assert list(found.timeout) == [t for _, t in slow]
    left = [t for t in tests if t not in found.timeout]
    bad = {"runtime_exception", "wrong_answer", "out_of_memory", "output_limit"}
    failing = sorted((-share(t, bad), t) for t in left if share(t, bad) > Fraction(2, 5))
    assert list(found.failure) == [t for _, t in failing[: len(left) * 3 // 10]]


@given(outcome_tables(), st.randoms())
def test_removing_tests_only_enlarges_the_pass_set(case: tuple, rng: object) -> None:
    table, solutions, tests = case
    kept = [t for t in tests if rng.random() < 0.6]  # type: ignore[attr-defined]
    before = {s for s in solutions if passes(table, s, tests)}
    assert before <= {s for s in solutions if passes(table, s, kept)}


@given(outcome_tables(), st.sampled_from([CORRECTNESS_FILTER, OPTIMIZATION_FILTER]))
def test_caps_are_never_exceeded(case: tuple, config: object) -> None:
    table, solutions, tests = case
    found = removals(table, solutions, tests, config)  # type: ignore[arg-type]
    assert 4 * len(found.timeout) <= len(tests)
    assert 10 * len(found.failure) <= 3 * (len(tests) - len(found.timeout))
    assert not set(found.timeout) & set(found.failure)


def test_the_threshold_itself_keeps_a_test() -> None:
    solutions = [f"s{i}" for i in range(5)]
    table = {(s, "t"): Status.TIMEOUT if s == "s0" else Status.SUCCESS for s in solutions}
    assert fraction(table, solutions, "t", frozenset({Status.TIMEOUT})) == Fraction(1, 5)
    assert worst({"t": Fraction(1, 5), "u": Fraction(0)}, Fraction(1, 5), Fraction(1)) == {}
    assert worst({"t": Fraction(201, 1000)}, Fraction(1, 5), Fraction(1)) == {"t": Fraction(201, 1000)}


def test_over_the_cap_the_worst_go_first_and_ties_by_id() -> None:
    shares = {"b": Fraction(1, 2), "a": Fraction(1, 2), "c": Fraction(3, 4), "d": Fraction(1, 4)}
    assert list(worst(shares, Fraction(0), Fraction(1, 2))) == ["c", "a"]


@pytest.mark.parametrize(
    ("passing", "incorrect", "dropped"), [(1, 20, False), (2, 20, True), (5, 100, False), (501, 10_000, True)]
)
def test_false_positive_rate_of_exactly_five_percent_is_kept(passing: int, incorrect: int, dropped: bool) -> None:
    drop = problem_gates(
        CORRECTNESS_FILTER,
        n_correct_in=10,
        n_correct_out=10,
        n_incorrect_out=incorrect - passing,
        false_positives=Fraction(passing, incorrect),
    )
    assert (drop is not None and drop.reason == Reason.FALSE_POSITIVE_RATE) == dropped


@pytest.mark.parametrize(("lost", "entered", "dropped"), [(5, 20, False), (6, 20, True), (2, 8, False), (3, 8, True)])
def test_losing_exactly_a_quarter_is_kept(lost: int, entered: int, dropped: bool) -> None:
    drop = problem_gates(
        CORRECTNESS_FILTER,
        n_correct_in=entered,
        n_correct_out=entered - lost,
        n_incorrect_out=5,
        false_positives=Fraction(0),
    )
    assert (drop is not None and drop.reason == Reason.CORRECT_DROP_RATE) == dropped


def test_gates_are_tried_in_order() -> None:
    def gate(correct: int, incorrect: int, fp: Fraction) -> str | None:
        drop = problem_gates(
            CORRECTNESS_FILTER, n_correct_in=20, n_correct_out=correct, n_incorrect_out=incorrect, false_positives=fp
        )
        return None if drop is None else drop.reason

    assert gate(4, 0, Fraction(1)) == Reason.TOO_FEW_CORRECT
    assert gate(5, 0, Fraction(1)) == Reason.TOO_FEW_INCORRECT
    assert gate(5, 1, Fraction(1)) == Reason.CORRECT_DROP_RATE
    assert gate(15, 1, Fraction(1)) == Reason.FALSE_POSITIVE_RATE
    assert gate(15, 1, Fraction(1, 20)) is None


def test_timeouts_are_allowed_only_where_said() -> None:
    table = {("s", "o"): Status.TIMEOUT, ("s", "c"): Status.SUCCESS}
    assert passes(table, "s", ["c", "o"], frozenset({"o"}))
    assert not passes(table, "s", ["c", "o"])
    table["s", "c"] = Status.TIMEOUT
    assert not passes(table, "s", ["c", "o"], frozenset({"o"}))


def test_a_pair_that_was_not_run_is_no_pass_and_infrastructure_fails_nobody() -> None:
    assert not passes({}, "s", ["t"])
    assert passes({("s", "t"): Status.INFRASTRUCTURE}, "s", ["t"])
    assert pass_share({}, [], ["t"]) is None
