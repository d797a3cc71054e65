"""Stage 2, controls: a problem needs at least one correct and one incorrect solution (paper Table 10, step 2)."""

from schemas.enums import Label, Reason
from transforms.context import StageContext
from transforms.decision import Decision, Drop, ProblemState

LEAST = 1


def decide(context: StageContext, state: ProblemState) -> Decision:
    """Drop a problem that lacks positive controls, negative ones, or both."""
    correct = len(state.solutions_of(Label.CORRECT))
    incorrect = len(state.solutions_of(Label.INCORRECT))
    if correct < LEAST and incorrect < LEAST:
        return Decision(problem=Drop(Reason.NEITHER, 0, LEAST))
    if incorrect < LEAST:
        return Decision(problem=Drop(Reason.CORRECT_ONLY, incorrect, LEAST, f"{correct} correct solutions"))
    if correct < LEAST:
        return Decision(problem=Drop(Reason.INCORRECT_ONLY, correct, LEAST, f"{incorrect} incorrect solutions"))
    return Decision()
