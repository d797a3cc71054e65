"""Stage 6, complete: a problem owns retained correctness and optimization tests (paper Table 10, step 6)."""

from schemas.enums import Category, Reason
from transforms.context import StageContext
from transforms.decision import Decision, Drop, ProblemState

LEAST = 1


def decide(context: StageContext, state: ProblemState) -> Decision:
    """Drop a problem without retained tests of either generated category."""
    for category, reason in (
        (Category.CORRECTNESS, Reason.NO_CORRECTNESS_TESTS),
        (Category.OPTIMIZATION, Reason.NO_OPTIMIZATION_TESTS),
    ):
        if len(state.tests_of(category)) < LEAST:
            return Decision(problem=Drop(reason, 0, LEAST))
    return Decision()
