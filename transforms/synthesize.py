"""Stages 4 and 5, first half: generator classes become tests (the acceptance loop of paper Table 11).

A unit is one attempt. It runs the class, runs up to ten verified solutions on its inputs, finds the consensus and
verifies it by a re-run. A shard then collapses duplicates in attempt order and writes tests, attempts, consensus.
"""

import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import apache_beam as beam

from dmc_optim import progress
from dmc_optim.ces.types import Executor, Request, Result, StopRule, TestCase
from dmc_optim.llm.extract import extract_generator
from dmc_optim.llm.recorded import AttemptReference, RecordedAttempt, RecordedCompletions
from schemas.enums import AttemptReason, Campaign, Label, Stage, Status
from transforms.attempt_table import KNOWN_TESTS, collapse, known_digests, known_tests, stored_attempts
from transforms.consensus import consensus
from transforms.context import StageContext, draw
from transforms.decision import Decision, Drop, ProblemState
from transforms.execution import limits_for_generators, settle, unit_prefix
from transforms.generator_run import METHODS, generator_request, read_inputs, schedule
from transforms.stage import DecideShard, ForEveryShard, Shards, WriteAttrition
from transforms.survivors import survivors

CAMPAIGNS = {
    Stage.SYNTHESIZE_CORRECTNESS: Campaign.CORRECTNESS,
    Stage.SYNTHESIZE_OPTIMIZATION: Campaign.OPTIMIZATION,
}


@dataclass(frozen=True)
class AttemptUnit:
    """One attempt on one problem. recorded: where its answer is. pool: the verified solutions that vote."""

    problem_id: str
    shard: int
    campaign: Campaign
    recorded: AttemptReference
    pool: tuple[str, ...]

    @property
    def attempt(self) -> int:
        """The attempt's number."""
        return self.recorded.key.attempt


@dataclass
class AttemptOutcome:
    """What an attempt gave. pairs: (input, output, method). votes: rows of `consensus`.

    durations_s: of each pair, the mean over the solutions that agreed.
    """

    attempt: int
    reason: AttemptReason | None = None
    detail: str = ""
    n_agreeing: int | None = None
    pairs: list[tuple[str, str, str]] = field(default_factory=list)
    durations_s: list[float] = field(default_factory=list)
    votes: list[dict[str, Any]] = field(default_factory=list)


def verification_pool(context: StageContext, problem_id: str, attempt: int, verified: Sequence[str]) -> list[str]:
    """The seeded sample of verified solutions that vote on an attempt, sorted."""
    campaign = CAMPAIGNS[context.stage]
    ranked = sorted(verified, key=lambda s: draw(context.config.seed, "pool", problem_id, campaign, attempt, s))
    return sorted(ranked[: context.config.synthesis.verification_pool])


def run_attempt(
    context: StageContext, unit: AttemptUnit, recorded: RecordedAttempt, executor: Executor, codes: dict[str, bytes]
) -> AttemptOutcome:
    """Steps 3 to 6 of the acceptance loop."""
    settings, execution = context.config.synthesis, context.config.execution
    number = unit.attempt
    extraction = extract_generator(recorded.completion, recorded.reasoning)
    if extraction.source is None:
        return AttemptOutcome(number, extraction.reason, extraction.detail)
    if len(unit.pool) < settings.min_agreeing:
        detail = f"{len(unit.pool)} verified solutions, {settings.min_agreeing} must agree"
        return AttemptOutcome(number, AttemptReason.TOO_FEW_SOLUTIONS, detail)
    request = generator_request(
        extraction.source,
        unit.problem_id,
        unit.campaign,
        number,
        settings.calls_per_method,
        limits_for_generators(context),
    )
    results = settle(executor, request, list(executor.execute(request)), execution.infrastructure_retries)
    calls = len(schedule(unit.campaign, settings.calls_per_method))
    generated = read_inputs(results, calls, settings.max_input_bytes)
    if generated.reason is not None:
        return AttemptOutcome(number, generated.reason, generated.detail)
    return vote(context, unit, executor, codes, generated.inputs)


def vote(
    context: StageContext, unit: AttemptUnit, executor: Executor, codes: dict[str, bytes], inputs: Sequence[bytes]
) -> AttemptOutcome:
    """Run the pool on the inputs, find the agreeing group, verify its outputs by a re-run of one member."""
    execution = context.config.execution
    outcome = AttemptOutcome(unit.attempt)
    tests = tuple(TestCase(f"{i:02d}", text) for i, text in enumerate(inputs))
    requests = [
        Request(
            code=codes[solution],
            tests=tests,
            limits=execution.limits(),
            comparator=execution.comparator,
            stop=StopRule.FIRST_NON_SUCCESS,
            return_output=True,
        )
        for solution in unit.pool
    ]
    outputs: dict[str, list[bytes]] = {}
    durations: dict[str, list[float]] = {}
    statuses: dict[str, Status] = {}
    for index, results in executor.execute_many(requests):
        solution = unit.pool[index]
        results = settle(executor, requests[index], results, execution.infrastructure_retries)
        statuses[solution] = _joint_status(results, len(inputs))
        if statuses[solution] is Status.SUCCESS:
            outputs[solution] = [result.output or b"" for result in results]
            durations[solution] = [result.duration_s or 0.0 for result in results]
    found = consensus(outputs, execution.comparator, context.config.synthesis.min_agreeing)
    if found.reason is not None and Status.INFRASTRUCTURE in statuses.values():
        # Those that did not come back might have agreed: a fault of the service rejects nothing for good.
        outcome.reason, outcome.detail = AttemptReason.INFRASTRUCTURE, f"{found.reason} of the runs that came back"
    else:
        outcome.reason, outcome.n_agreeing = found.reason, found.size
        if found.reason is None:
            _accept(outcome, unit, executor, requests, found.agreed, inputs, outputs, execution.infrastructure_retries)
            columns = zip(*(durations[solution] for solution in found.agreed), strict=True)
            outcome.durations_s = [sum(column) / len(column) for column in columns]
    outcome.votes = [
        {
            "problem_id": unit.problem_id,
            "campaign": unit.campaign.value,
            "attempt": unit.attempt,
            "solution_id": solution,
            "status": statuses[solution].value,
            "outputs_sha256": found.digests.get(solution),
            "agreed": solution in found.agreed,
        }
        for solution in unit.pool
    ]
    return outcome


def _joint_status(results: Sequence[Result], calls: int) -> Status:
    """success when all runs ended normally, else the first other status; missing runs are infrastructure."""
    for result in results:
        if result.status is not Status.SUCCESS:
            return result.status
    return Status.SUCCESS if len(results) == calls else Status.INFRASTRUCTURE


def _accept(
    outcome: AttemptOutcome,
    unit: AttemptUnit,
    executor: Executor,
    requests: Sequence[Request],
    agreed: Sequence[str],
    inputs: Sequence[bytes],
    outputs: dict[str, list[bytes]],
    retries: int,
) -> None:
    """Step 6: the consensus outputs become expected ones if a re-run of the group's first member reproduces them."""
    witness = agreed[0]
    expected = outputs[witness]
    try:
        texts = [(i.decode("utf-8"), o.decode("utf-8")) for i, o in zip(inputs, expected, strict=True)]
    except UnicodeDecodeError:
        outcome.reason, outcome.detail = AttemptReason.VERIFICATION_FAILED, "an agreed output is not valid UTF-8"
        return
    request = requests[unit.pool.index(witness)]
    tests = tuple(TestCase(t.id, t.input, o) for t, o in zip(request.tests, expected, strict=True))
    request = Request(
        code=request.code, tests=tests, limits=request.limits, comparator=request.comparator, stop=request.stop
    )
    results = settle(executor, request, list(executor.execute(request)), retries)
    status = _joint_status(results, len(inputs))
    if status is Status.SUCCESS:
        methods = METHODS[unit.campaign]
        outcome.pairs = [(*pair, methods[call % len(methods)]) for call, pair in enumerate(texts)]
    elif status is Status.INFRASTRUCTURE:
        outcome.reason, outcome.detail = AttemptReason.INFRASTRUCTURE, "the verification did not come back"
    else:
        outcome.reason, outcome.detail = AttemptReason.VERIFICATION_FAILED, f"{status} in the re-run of {witness}"


class RunAttempt(beam.DoFn):
    """Runs one attempt unless its part is there."""

    def __init__(self, context: StageContext) -> None:
        self._context = context

    def process(self, unit: AttemptUnit) -> Iterator[int]:
        """AttemptUnit → shard."""
        context, started = self._context, time.monotonic()
        path = _part(context, unit.problem_id, unit.attempt)
        if not context.layout.fs.exists(path):
            rows = context.layout.rows(
                "solutions",
                stages=context.earlier,
                shard=unit.shard,
                problem_id=unit.problem_id,
                columns=["problem_id", "solution_id", "code"],
            )
            codes = {row["solution_id"]: row["code"].encode() for row in rows}
            recorded = unit.recorded.read()
            outcome = run_attempt(context, unit, recorded, context.engine.connect(), codes)
            context.layout.write_bytes(path, json.dumps(_plain(unit, recorded, outcome)).encode())
        progress.current().step(f"{unit.problem_id} attempt {unit.attempt}", time.monotonic() - started)
        yield unit.shard


def _plain(unit: AttemptUnit, recorded: RecordedAttempt, outcome: AttemptOutcome) -> dict[str, Any]:
    return {
        "row": {
            "problem_id": unit.problem_id,
            "campaign": unit.campaign.value,
            "attempt": outcome.attempt,
            "prompt_solution_id": recorded.prompt_solution_id or None,
            "model": recorded.model or "recorded",
            "seed": recorded.seed,
            "completion": recorded.completion,
            "accepted": outcome.reason is None,
            "reason": None if outcome.reason is None else outcome.reason.value,
            "n_tests": len(outcome.pairs),
            "n_agreeing": outcome.n_agreeing,
        },
        "detail": outcome.detail,
        "pairs": outcome.pairs,
        "durations_s": outcome.durations_s if outcome.pairs else [],
        "votes": outcome.votes,
        "usage": recorded.usage,
    }


class RunAttempts(beam.PTransform):
    """Every attempt that has no part yet, to its part."""

    def __init__(self, context: StageContext, recorded: RecordedCompletions | None) -> None:
        self._context, self._recorded = context, recorded

    def expand(self, root: beam.Pipeline) -> beam.PCollection:
        """→ shard of every attempt."""
        context = self._context
        return (
            root
            | Shards(context)  # (shard, None)
            | "PlanAttempts" >> beam.FlatMap(_plan, context, self._recorded)  # AttemptUnit
            | "SpreadAttempts" >> beam.Reshuffle()  # AttemptUnit
            | "RunAttempts" >> beam.ParDo(RunAttempt(context))  # shard
        )


class Synthesize(beam.PTransform):
    """Attempts of every surviving problem, run, then collapsed shard by shard."""

    def __init__(self, context: StageContext, recorded: RecordedCompletions | None) -> None:
        self._context, self._recorded = context, recorded

    def expand(self, root: beam.Pipeline) -> beam.PCollection:
        """→ nothing; `tests`, `consensus`, `generator_attempts`, `exclusions`, `attrition` are written."""
        context = self._context
        return (
            root
            | "Attempts" >> RunAttempts(context, self._recorded)  # shard
            | "EveryShard" >> ForEveryShard(context)  # (shard, [str])
            | "Decide" >> beam.ParDo(DecideAttempts(context))  # (key, count)
            | "Attrition" >> WriteAttrition(context)  # None
        )


def _plan(
    element: tuple[int, None], context: StageContext, recorded: RecordedCompletions | None
) -> Iterator[AttemptUnit]:
    """Units of a shard; where stored attempts answer the same questions, they become this run's parts."""
    shard, settings = element[0], context.config.synthesis
    if recorded is None:
        return
    names = {
        row["problem_id"]: row["name"]
        for row in context.layout.rows("problems", stages=context.earlier, shard=shard, columns=["problem_id", "name"])
    }
    known = known_tests(context, shard)
    for state in survivors(context, shard).values():
        pid = state.problem_id
        verified = state.solutions_of(Label.CORRECT)
        campaign = CAMPAIGNS[context.stage]
        units = [
            AttemptUnit(pid, shard, campaign, own, tuple(verification_pool(context, pid, own.key.attempt, verified)))
            for own in recorded.references(pid, names[pid], campaign)
            if own.key.attempt < settings.attempts + settings.adaptive_attempts
        ]
        completions = {own.attempt: own.completion for own in recorded.attempts(pid, names[pid], campaign)}
        questions = {unit.attempt: (completions[unit.attempt], unit.pool) for unit in units}
        stored = stored_attempts(context, pid, questions, known.get(pid, set()))
        if stored is None:
            progress.current().add(len(units))
            yield from units
        else:
            for attempt in stored:
                context.layout.write_json(_part(context, pid, attempt["row"]["attempt"]), attempt)


def _part(context: StageContext, problem_id: str, attempt: int) -> str:
    """Where an attempt's outcome is until the stage is done."""
    return context.part(f"{context.shard_of(problem_id):05d}", f"{unit_prefix(problem_id)}{attempt:06d}.json")


class DecideAttempts(DecideShard):
    """`decide`, shard by shard; the footers say which tests there were before."""

    def __init__(self, context: StageContext) -> None:
        super().__init__(context, decide)

    def footer(self, shard: int) -> dict[str, str]:
        """The stage's own entries and KNOWN_TESTS."""
        return self._context.footer() | {KNOWN_TESTS: json.dumps(known_digests(known_tests(self._context, shard)))}


def decide(context: StageContext, state: ProblemState) -> Decision:
    """Merge a problem's attempts in order: rejected ones are drops, accepted ones become tests."""
    pid = state.problem_id
    attempts = finished_attempts(context, pid)
    decision = Decision(n_attempts=len(attempts))
    known = known_tests(context, context.shard_of(pid), pid).get(pid, set())
    category = CAMPAIGNS[context.stage].value
    for attempt in attempts:
        row = attempt["row"]
        decision.rows.setdefault("generator_attempts", []).append(row)
        decision.rows.setdefault("consensus", []).extend(attempt["votes"])
        if attempt["usage"]:
            decision.rows.setdefault("generation_usage", []).append(_usage_row(row, attempt["usage"]))
        if not row["accepted"]:
            decision.attempts[str(row["attempt"])] = _attempt_drop(context, row, attempt["detail"])
        created, duplicates = collapse(pid, category, row["attempt"], attempt["pairs"], known)
        decision.created += created
        decision.duplicates[category] += duplicates + attempt.get("collapsed", 0)
    return decision


def finished_attempts(context: StageContext, problem_id: str) -> list[dict[str, Any]]:
    """The attempts of a problem, in order."""
    shard = context.shard_of(problem_id)
    paths = context.layout.glob(f"{context.work}/{shard:05d}/{unit_prefix(problem_id)}*.json")
    return [part for path in paths if (part := context.layout.read_json(path)) is not None]


def _attempt_drop(context: StageContext, row: dict[str, Any], detail: str) -> Drop:
    agreeing = row["n_agreeing"]
    threshold = context.config.synthesis.min_agreeing if agreeing is not None else None
    return Drop(row["reason"], agreeing, threshold, detail)


def _usage_row(row: dict[str, Any], usage: dict[str, Any]) -> dict[str, Any]:
    return {
        "problem_id": row["problem_id"],
        "campaign": row["campaign"],
        "attempt": row["attempt"],
        "model": row["model"],
        **{name: _figure(usage.get(name), int) for name in ("prompt_tokens", "completion_tokens")},
        **{name: _figure(usage.get(name), float) for name in ("latency_s", "cost_usd")},
    }


def _figure(value: object, kind: type[int] | type[float]) -> int | float | None:
    """A figure of usage; None for what is none, as the account decides nothing."""
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1 << 53:
        return kind(value)
    return None
