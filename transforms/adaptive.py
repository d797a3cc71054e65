"""The adaptive option between two rounds of synthesis: which problems are asked again, and with which facts.

Runs when all attempts of the first round are done and before the stage decides. Optimization: problems whose
accepted tests, timed on the solutions that voted, would not be duration filterable. Correctness: problems with an
incorrect solution that passes the original tests and every accepted one. The words are `dmc_optim.llm.adaptive`'s.
"""

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import apache_beam as beam

from dmc_optim.ces.types import Executor, Request, StopRule, TestCase
from schemas.enums import ORIGINAL_CATEGORIES, Campaign, Label, Status
from transforms.attempt_table import collapse
from transforms.context import StageContext
from transforms.decision import ProblemState
from transforms.execution import settle, unit_prefix
from transforms.filterability import assess
from transforms.stage import Shards
from transforms.survivors import survivors
from transforms.synthesize import CAMPAIGNS, finished_attempts

FOLDER = "adaptive"


class PlanAgain(beam.PTransform):
    """Writes, for every problem, what its second round should be told: a part that says nothing asks nothing."""

    def __init__(self, context: StageContext) -> None:
        self._context = context

    def expand(self, root: beam.Pipeline) -> beam.PCollection:
        """→ problem ids that are asked again."""
        context = self._context
        return (
            root
            | Shards(context)  # (shard, None)
            | "Problems" >> beam.FlatMap(_problems, context)  # ProblemState
            | "SpreadProblems" >> beam.Reshuffle()  # ProblemState
            | "PlanAgain" >> beam.Filter(_plan_again, context)  # ProblemState
            | "ProblemId" >> beam.Map(lambda state: state.problem_id)  # str
        )


def plans(context: StageContext) -> Iterator[dict[str, Any]]:
    """The parts that ask something, by problem id."""
    found = [context.layout.read_json(path) for path in context.layout.glob(f"{context.work}/{FOLDER}/*/*.json")]
    yield from sorted((plan for plan in found if plan and plan["asks"]), key=lambda plan: str(plan["problem_id"]))


def _problems(element: tuple[int, None], context: StageContext) -> Iterator[ProblemState]:
    yield from survivors(context, element[0]).values()


def _plan_again(state: ProblemState, context: StageContext) -> bool:
    shard = context.shard_of(state.problem_id)
    path = context.part(FOLDER, f"{shard:05d}", f"{unit_prefix(state.problem_id)}plan.json")
    plan = context.layout.read_json(path)
    if plan is None:
        attempts = [a for a in finished_attempts(context, state.problem_id) if a["row"]["accepted"]]
        first = context.config.synthesis.attempts
        plan = {"problem_id": state.problem_id, "asks": False}
        if attempts and not any(a["row"]["attempt"] >= first for a in attempts):
            if CAMPAIGNS[context.stage] is Campaign.OPTIMIZATION:
                plan |= low_spread(context, attempts)
            else:
                plan |= surviving_controls(context, state, attempts, context.engine.connect())
        context.layout.write_json(path, plan)
    return bool(plan["asks"])


def low_spread(context: StageContext, attempts: list[dict[str, Any]]) -> dict[str, Any]:
    """Measured inputs and their spread, if that is too small to be duration filterable (paper Eq. 6 and our floor)."""
    inputs: dict[str, tuple[str, int, float]] = {}
    for attempt in attempts:
        for (text, _, method), mean_s in zip(attempt["pairs"], attempt.get("durations_s") or (), strict=False):
            inputs.setdefault(text, (method, len(text), mean_s))
    means = {str(i): mean_s for i, (_, _, mean_s) in enumerate(inputs.values())}
    figures, drop = assess(
        means, {str(i): n for i, (_, n, _) in enumerate(inputs.values())}, context.config.filterability
    )
    if drop is None or not inputs:
        return {"asks": False}
    spread = {name: figures[name] for name in ("robust_cv", "iqr_s", "median_s")}
    return {"asks": True, "measured": list(inputs.values()), "spread": spread}


def surviving_controls(
    context: StageContext, state: ProblemState, attempts: list[dict[str, Any]], executor: Executor
) -> dict[str, Any]:
    """Incorrect solutions that pass the original tests and all accepted ones, run until their first failure."""
    candidates = _passing_originals(context, state)
    if not candidates:
        return {"asks": False}
    selection: dict[str, Any] = {
        "stages": context.earlier,
        "shard": context.shard_of(state.problem_id),
        "problem_id": state.problem_id,
    }
    codes = {row["solution_id"]: row["code"] for row in context.layout.rows("solutions", **selection)}
    known = set(state.tests)
    tests = [
        TestCase(row["test_id"], row["input"].encode(), row["output"].encode())
        for attempt in attempts
        for row in collapse(
            state.problem_id, CAMPAIGNS[context.stage], attempt["row"]["attempt"], attempt["pairs"], known
        )[0]
    ]
    execution = context.config.execution
    requests = [
        Request(
            code=codes[solution].encode(),
            tests=tuple(tests),
            limits=execution.limits(),
            comparator=execution.comparator,
            stop=StopRule.FIRST_NON_SUCCESS,
        )
        for solution in candidates
    ]
    alive = []
    for index, results in executor.execute_many(requests):
        results = settle(executor, requests[index], results, execution.infrastructure_retries)
        if len(results) == len(tests) and all(result.status is Status.SUCCESS for result in results):
            alive.append(candidates[index])
    return {"asks": bool(alive), "survivors": sorted(alive)}


def _passing_originals(context: StageContext, state: ProblemState) -> list[str]:
    """Incorrect solutions with a success on every original test, from the stored executions."""
    original = set(state.tests_of(*ORIGINAL_CATEGORIES))
    passed: dict[str, set[str]] = defaultdict(set)
    for row in context.layout.rows(
        "executions",
        stages=context.earlier,
        shard=context.shard_of(state.problem_id),
        problem_id=state.problem_id,
        columns=["problem_id", "solution_id", "test_id", "status"],
    ):
        if row["status"] == Status.SUCCESS and row["test_id"] in original:
            passed[row["solution_id"]].add(row["test_id"])
    return [s for s in state.solutions_of(Label.INCORRECT) if original and passed[s] == original]
