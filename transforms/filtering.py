"""The filtering rules of both rounds (paper B.5, Table 13), as pure functions on outcomes.

Shares and caps are exact rationals. `Outcomes` maps (solution, test) to a status; a missing pair was not run. In all
of it an infrastructure outcome is no outcome: it leaves numerator and denominator, and it fails nobody.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import floor

from dmc_optim.config import FilterConfig, exact
from schemas.enums import Reason, Status
from transforms.decision import Drop

Outcomes = Mapping[tuple[str, str], Status]

FAILURES = frozenset(
    {Status.RUNTIME_EXCEPTION, Status.WRONG_ANSWER, Status.OUT_OF_MEMORY, Status.OUTPUT_LIMIT}
)  # what the exception/failure fraction counts; syntax errors are the program's fault, not the test's


def fraction(outcomes: Outcomes, solutions: Iterable[str], test: str, counted: frozenset[Status]) -> Fraction:
    """Share of the solutions executed on a test (infrastructure aside) whose status is counted; 0 where none ran."""
    statuses = [outcomes.get((solution, test)) for solution in solutions]
    executed = [s for s in statuses if s is not None and s is not Status.INFRASTRUCTURE]
    return Fraction(sum(s in counted for s in executed), len(executed)) if executed else Fraction(0)


def worst(fractions: Mapping[str, Fraction], threshold: Fraction, cap: Fraction) -> dict[str, Fraction]:
    """Tests over the threshold, worst first and ties by id, at most floor(cap × number of tests) of them."""
    over = sorted((f for f in fractions.items() if f[1] > threshold), key=lambda item: (-item[1], item[0]))
    return dict(over[: floor(cap * len(fractions))])


@dataclass(frozen=True)
class Removals:
    """Tests of this campaign that a round removes, with the fraction that condemned each."""

    timeout: dict[str, Fraction] = field(default_factory=dict)
    failure: dict[str, Fraction] = field(default_factory=dict)

    @property
    def removed(self) -> set[str]:
        """Ids of all of them."""
        return {*self.timeout, *self.failure}


def removals(outcomes: Outcomes, correct: Sequence[str], tests: Sequence[str], config: FilterConfig) -> Removals:
    """Test-level filters of one round: time-outs first, then exceptions and failures among the remaining tests.

    correct: verified-correct solutions. tests: this campaign's accepted tests, the only ones that can be removed.
    """
    timeouts = {t: fraction(outcomes, correct, t, frozenset({Status.TIMEOUT})) for t in tests}
    timeout = worst(timeouts, exact(config.timeout_fraction), exact(config.timeout_cap))
    failures = {t: fraction(outcomes, correct, t, FAILURES) for t in tests if t not in timeout}
    failure = worst(failures, exact(config.failure_fraction), exact(config.failure_cap))
    return Removals(timeout, failure)


def passes(outcomes: Outcomes, solution: str, suite: Iterable[str], timeout_ok: frozenset[str] = frozenset()) -> bool:
    """Whether a solution passes a suite: every test has a row and none fails.

    timeout_ok: tests on which a time-out is no failure (optimization tests, in the optimization round).
    """
    for test in suite:
        status = outcomes.get((solution, test))
        if status is None or not _tolerated(status, test in timeout_ok):
            return False
    return True


def _tolerated(status: Status, timeout_ok: bool) -> bool:
    return status in (Status.SUCCESS, Status.INFRASTRUCTURE) or (timeout_ok and status is Status.TIMEOUT)


def failed_tests(
    outcomes: Outcomes, solution: str, suite: Iterable[str], timeout_ok: frozenset[str] = frozenset()
) -> list[tuple[str, str]]:
    """(test, status or `not_run`) of the suite's tests that keep a solution from passing, in suite order."""
    failed = []
    for test in suite:
        status = outcomes.get((solution, test))
        if status is None or not _tolerated(status, test in timeout_ok):
            failed.append((test, status.value if status is not None else "not_run"))
    return failed


def problem_gates(
    config: FilterConfig,
    *,
    n_correct_in: int,
    n_correct_out: int,
    n_incorrect_out: int,
    false_positives: Fraction | None,
) -> Drop | None:
    """Problem-level gates in their order: minimum counts, correct drop rate, false-positive rate.

    false_positives: share of the entering incorrect solutions that pass; None when they were not run.
    """
    if n_correct_out < config.min_correct:
        return Drop(Reason.TOO_FEW_CORRECT, n_correct_out, config.min_correct)
    if n_incorrect_out < config.min_incorrect:
        return Drop(Reason.TOO_FEW_INCORRECT, n_incorrect_out, config.min_incorrect)
    lost = Fraction(n_correct_in - n_correct_out, n_correct_in) if n_correct_in else Fraction(0)
    if lost > exact(config.max_drop_rate):
        return Drop(Reason.CORRECT_DROP_RATE, float(lost), config.max_drop_rate)
    if false_positives is not None and false_positives > exact(config.max_false_positive_rate):
        return Drop(Reason.FALSE_POSITIVE_RATE, float(false_positives), config.max_false_positive_rate)
    return None


def pass_share(
    outcomes: Outcomes, solutions: Sequence[str], suite: Sequence[str], timeout_ok: frozenset[str] = frozenset()
) -> Fraction | None:
    """Share of the solutions that pass a suite; None where there is no solution."""
    if not solutions:
        return None
    return Fraction(sum(passes(outcomes, s, suite, timeout_ok) for s in solutions), len(solutions))
