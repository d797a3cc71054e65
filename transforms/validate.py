"""Stage 3, validate: re-execute every solution on the original tests (paper B.3, step 3).

A correct solution with any definitive outcome other than success leaves; infrastructure outcomes do not condemn.
Incorrect solutions stay as negative controls, caught or not, and run until they are caught.
"""

from collections.abc import Iterator

import apache_beam as beam

from dmc_optim.ces.types import StopRule
from schemas.enums import ORIGINAL_CATEGORIES, Campaign, Label, Outcome, Reason, Status
from transforms.context import StageContext
from transforms.decision import Decision, Drop, ProblemState
from transforms.execution import ExecuteUnit, ExecuteUnits, executed, solution_units, statuses
from transforms.filtering import Outcomes
from transforms.stage import DecideShard, ForEveryShard, Shards, WriteAttrition
from transforms.survivors import survivors

LEAST = 1


def original_tests(state: ProblemState) -> list[str]:
    """Ids of the original tests: public, private, generated; by id within each."""
    return [t for category in ORIGINAL_CATEGORIES for t in state.tests_of(category)]


def units(context: StageContext, state: ProblemState) -> Iterator[ExecuteUnit]:
    """Correct solutions on every original test, negative controls until the first outcome that is no success."""
    tests = [original_tests(state)]
    exhaustive = context.config.execution.exhaustive_controls
    controls_stop = StopRule.ALL if exhaustive else StopRule.FIRST_NON_SUCCESS
    for label, stop in ((Label.CORRECT, StopRule.ALL), (Label.INCORRECT, controls_stop)):
        solutions = state.solutions_of(label)
        yield from solution_units(context, state.problem_id, Campaign.ORIGINAL, label, solutions, tests, stop)


def judge(state: ProblemState, outcomes: Outcomes) -> Decision:
    """The rule, from the statuses of the original campaign."""
    tests = original_tests(state)
    if not tests:
        return Decision(problem=Drop(Reason.NO_TESTS, 0, LEAST))
    correct = state.solutions_of(Label.CORRECT)
    drops = {}
    for solution in correct:
        failed = [t for t in sorted(tests) if _condemns(outcomes.get((solution, t)))]
        if failed:
            first = f"{outcomes[solution, failed[0]]} on test {failed[0]}"
            drops[solution] = Drop(Reason.FAILED_ORIGINAL_TESTS, len(failed), 0, first)
    decision = Decision(solutions=drops)
    left = len(correct) - len(drops)
    incorrect = len(state.solutions_of(Label.INCORRECT))
    if left < LEAST:
        decision.problem = Drop(Reason.NO_CORRECT_LEFT, left, LEAST, f"{len(drops)} failed original tests")
    elif incorrect < LEAST:
        decision.problem = Drop(Reason.NO_INCORRECT_LEFT, incorrect, LEAST)
    return decision


def _condemns(status: Status | None) -> bool:
    return status is not None and status.outcome not in (Outcome.SUCCESS, None)


def decide(context: StageContext, state: ProblemState) -> Decision:
    """`judge` on the stage's finished parts; the rows become the stage's part of `executions`."""
    rows = executed(context, context.shard_of(state.problem_id), state.problem_id)
    decision = judge(state, statuses(rows))
    decision.rows["executions"] = rows
    return decision


class Validate(beam.PTransform):
    """Units of every shard, executed, then decided shard by shard."""

    def __init__(self, context: StageContext) -> None:
        self._context = context

    def expand(self, root: beam.Pipeline) -> beam.PCollection:
        """→ nothing; `executions`, `exclusions`, `attrition` are written."""
        context = self._context
        return (
            root
            | Shards(context)  # (shard, None)
            | "PlanUnits" >> beam.FlatMap(_plan, context)  # ExecuteUnit
            | "ExecuteUnits" >> ExecuteUnits(context)  # shard
            | "EveryShard" >> ForEveryShard(context)  # (shard, [str])
            | "Decide" >> beam.ParDo(DecideShard(context, decide))  # (key, count)
            | "Attrition" >> WriteAttrition(context)  # None
        )


def _plan(element: tuple[int, None], context: StageContext) -> Iterator[ExecuteUnit]:
    for state in survivors(context, element[0]).values():
        yield from units(context, state)
