"""Stages 4 and 5, second half: execute the generated tests, then filter tests, solutions and problems (paper B.5).

Verified-correct solutions run on every test of the campaign; what they do decides which tests are removed. Negative
controls then run, in the correctness round, on the retained tests first and until the first outcome other than
success: the suites are nested (final ⊂ after time-outs ⊂ raw), so one run gives all three verdicts and decisions
equal the exhaustive ones.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import apache_beam as beam

from dmc_optim.ces.types import StopRule
from dmc_optim.config import FilterConfig
from schemas.enums import Campaign, Category, Label, Reason, Stage, Status
from transforms.context import StageContext
from transforms.decision import Decision, Drop, ProblemState
from transforms.execution import STATUS_COLUMNS, ExecuteUnit, ExecuteUnits, executed, solution_units, statuses
from transforms.filtering import Outcomes, Removals, failed_tests, pass_share, passes, problem_gates, removals
from transforms.stage import DecideShard, ForEveryShard, Shards, WriteAttrition
from transforms.survivors import survivors
from transforms.validate import original_tests


@dataclass(frozen=True)
class Round:
    """One filtering round: its campaign and category, and whether negative controls decide anything in it."""

    campaign: Campaign
    category: Category
    controls_decide: bool

    def config(self, context: StageContext) -> FilterConfig:
        """The thresholds of Table 13 for this round."""
        own = context.config
        return own.filter_correctness if self.campaign is Campaign.CORRECTNESS else own.filter_optimization

    def timeout_ok(self, config: FilterConfig, tests: Iterable[str]) -> frozenset[str]:
        """Tests on which a time-out is no failure: this campaign's, where the round says so."""
        return frozenset(tests) if config.timeout_is_success else frozenset()


ROUNDS = {
    Stage.FILTER_CORRECTNESS: Round(Campaign.CORRECTNESS, Category.CORRECTNESS, controls_decide=True),
    Stage.FILTER_OPTIMIZATION: Round(Campaign.OPTIMIZATION, Category.OPTIMIZATION, controls_decide=False),
}


def own_tests(state: ProblemState, own: Round) -> list[str]:
    """The campaign's accepted, collapsed tests: the only ones that can be removed."""
    return state.tests_of(own.category)


def earlier_tests(state: ProblemState, own: Round) -> list[str]:
    """The rest of the suite: original tests, and retained correctness tests in the optimization round."""
    kept = state.tests_of(Category.CORRECTNESS) if own.category is Category.OPTIMIZATION else []
    return original_tests(state) + kept


def control_phases(tests: list[str], found: Removals) -> list[list[str]]:
    """The campaign's tests for a negative control: retained ones, then those removed for failures, then the others."""
    return [[t for t in tests if t not in found.removed], sorted(found.failure), sorted(found.timeout)]


def judge(state: ProblemState, own: Round, config: FilterConfig, outcomes: Outcomes) -> tuple[Decision, dict[str, Any]]:
    """The whole round on one problem: (decision, row of `problem_metrics`).

    outcomes: statuses of all campaigns so far, this one included.
    """
    correct, incorrect = state.solutions_of(Label.CORRECT), state.solutions_of(Label.INCORRECT)
    tests, base = own_tests(state, own), earlier_tests(state, own)
    found = removals(outcomes, correct, tests, config)
    final = base + [t for t in tests if t not in found.removed]
    timeout_ok = own.timeout_ok(config, tests)
    decision = Decision(tests=test_drops(found, config))
    decision.solutions |= _correct_drops(outcomes, correct, final, timeout_ok)
    false_positives = None
    if own.controls_decide:
        passing = [s for s in incorrect if passes(outcomes, s, final)]
        false_positives = Fraction(len(passing), len(incorrect)) if incorrect else None
        decision.solutions |= {s: Drop(Reason.PASSES_SUITE, 0, 1) for s in passing}
    n_correct_out = sum(s not in decision.solutions for s in correct)
    n_incorrect_out = sum(s not in decision.solutions for s in incorrect)
    decision.problem = problem_gates(
        config,
        n_correct_in=len(correct),
        n_correct_out=n_correct_out,
        n_incorrect_out=n_incorrect_out,
        false_positives=false_positives,
    )
    suites = {
        "before": base,
        "raw": base + tests,
        "timeout": base + [t for t in tests if t not in found.timeout],
        "final": final,
    }
    metrics: dict[str, Any] = {
        "problem_id": state.problem_id,
        "campaign": own.campaign.value,
        "n_correct_in": len(correct),
        "n_correct_out": n_correct_out,
        "n_incorrect_in": len(incorrect),
        "n_incorrect_out": n_incorrect_out,
        "tests_in": len(tests),
        "tests_removed_timeout": len(found.timeout),
        "tests_removed_failure": len(found.failure),
    }
    for name, suite in suites.items():
        share = pass_share(outcomes, incorrect, suite) if own.controls_decide else None
        metrics[f"fp_{name}"] = _float(share)
        metrics[f"correct_pass_{name}"] = _float(pass_share(outcomes, correct, suite, timeout_ok))
    return decision, metrics


def test_drops(found: Removals, config: FilterConfig) -> dict[str, Drop]:
    """Removed tests with the fraction that condemned each."""
    drops = {t: Drop(Reason.TIMEOUT_FRACTION, float(f), config.timeout_fraction) for t, f in found.timeout.items()}
    drops |= {t: Drop(Reason.FAILURE_FRACTION, float(f), config.failure_fraction) for t, f in found.failure.items()}
    return drops


test_drops.__test__ = False  # type: ignore[attr-defined]  # not a pytest function


def _correct_drops(
    outcomes: Outcomes, correct: list[str], suite: list[str], timeout_ok: frozenset[str]
) -> dict[str, Drop]:
    drops = {}
    for solution in correct:
        failed = failed_tests(outcomes, solution, suite, timeout_ok)
        if failed:
            test, status = failed[0]
            drops[solution] = Drop(Reason.FAILS_SUITE, len(failed), 0, f"{status} on test {test}")
    return drops


def _float(share: Fraction | None) -> float | None:
    return None if share is None else float(share)


def stored_outcomes(context: StageContext, problem_id: str) -> dict[tuple[str, str], Status]:
    """Statuses of the earlier campaigns."""
    shard = context.shard_of(problem_id)
    return statuses(
        context.layout.read(
            "executions", stages=context.earlier, shard=shard, problem_id=problem_id, columns=STATUS_COLUMNS
        )
    )


class FilterRound(beam.PTransform):
    """Execute the correct solutions, plan and execute the controls, decide."""

    def __init__(self, context: StageContext) -> None:
        self._context = context

    def expand(self, root: beam.Pipeline) -> beam.PCollection:
        """→ nothing; `executions`, `exclusions`, `problem_metrics`, `attrition` are written."""
        context = self._context
        correct = (
            root
            | Shards(context)  # (shard, None)
            | "PlanCorrect" >> beam.FlatMap(_plan_correct, context)  # ExecuteUnit
            | "ExecuteCorrect" >> ExecuteUnits(context)  # shard
            | "CorrectDone" >> ForEveryShard(context)  # (shard, [str])
        )
        return (
            correct
            | "PlanControls" >> beam.FlatMap(_plan_controls, context)  # ExecuteUnit
            | "ExecuteControls" >> ExecuteUnits(context)  # shard
            | "ControlsDone" >> ForEveryShard(context)  # (shard, [str])
            | "Decide" >> beam.ParDo(DecideShard(context, decide))  # (key, count)
            | "Attrition" >> WriteAttrition(context)  # None
        )


def _plan_correct(element: tuple[int, Any], context: StageContext) -> Iterator[ExecuteUnit]:
    own = ROUNDS[context.stage]
    for state in survivors(context, element[0]).values():
        solutions = state.solutions_of(Label.CORRECT)
        yield from solution_units(
            context,
            state.problem_id,
            own.campaign,
            Label.CORRECT,
            solutions,
            [own_tests(state, own)],
            StopRule.ALL,
        )


def _plan_controls(element: tuple[int, Any], context: StageContext) -> Iterator[ExecuteUnit]:
    """Controls that the earlier tests have not caught; all of them under `exhaustive_controls`."""
    own = ROUNDS[context.stage]
    exhaustive = context.config.execution.exhaustive_controls
    if not own.controls_decide and not exhaustive:
        return
    config = own.config(context)
    shard = element[0]
    for state in survivors(context, shard).values():
        tests = own_tests(state, own)
        rows = executed(context, shard, state.problem_id)
        outcomes = stored_outcomes(context, state.problem_id) | statuses(rows)
        base = earlier_tests(state, own)
        controls = [s for s in state.solutions_of(Label.INCORRECT) if exhaustive or passes(outcomes, s, base)]
        found = removals(outcomes, state.solutions_of(Label.CORRECT), tests, config)
        phases = [tests] if exhaustive else control_phases(tests, found)
        stop = StopRule.ALL if exhaustive else StopRule.FIRST_NON_SUCCESS
        yield from solution_units(context, state.problem_id, own.campaign, Label.INCORRECT, controls, phases, stop)


def decide(context: StageContext, state: ProblemState) -> Decision:
    """`judge` on stored and new outcomes; the new rows become the stage's part of `executions`."""
    own = ROUNDS[context.stage]
    rows = executed(context, context.shard_of(state.problem_id), state.problem_id)
    outcomes = stored_outcomes(context, state.problem_id) | statuses(rows)
    decision, metrics = judge(state, own, own.config(context), outcomes)
    decision.rows["executions"] = rows
    decision.rows["problem_metrics"] = [metrics]
    return decision
