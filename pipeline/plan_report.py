"""A plan put together, as plain data and as text: counts, executions by stage, time, storage, and what to know."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from dmc_optim.config import BuildConfig
from dmc_optim.report.measures import with_unit
from dmc_optim.report.text import text_table
from pipeline.plan import (
    EXECUTING,
    SYNTHESIS,
    Measured,
    PartPlan,
    Totals,
    Work,
    expected_attempts,
    plan_parts,
    stage_problems,
    upper_bound,
)
from pipeline.plan_source import SourceCounts
from pipeline.plan_storage import TablePlan, growth, storage
from schemas.enums import Stage

SECONDS_AN_HOUR = 3600
_SAME_SECONDS = ("time_limit_s", "wall_factor", "memory_bytes", "clock", "comparator")


@dataclass(frozen=True)
class PlanRequest:
    """What is planned. slots: at a time. like_name: of the finished build, as given."""

    config: BuildConfig
    shards: int
    slots: int
    limit_solutions: int | None = None
    all_attempts: bool = False
    like_name: str = ""


@dataclass(frozen=True)
class StagePlan:
    """A stage that executes. prompts: of a synthesis stage. Times in seconds, None where nothing measures them."""

    stage: Stage
    problems_at_most: int
    problems: float | None
    prompts_at_most: float | None
    prompts: float | None
    parts: tuple[PartPlan, ...]

    @property
    def at_most(self) -> float:
        """Executions at most."""
        return sum(part.at_most for part in self.parts)

    @property
    def expected(self) -> float | None:
        """Executions expected; None where a part of them has nothing to be estimated from."""
        return _sum([part.expected for part in self.parts if part.work is not Work.ADAPTIVE])

    @property
    def core_seconds(self) -> float | None:
        """Slot time of the expected executions."""
        return _sum([part.core_seconds for part in self.parts if part.work is not Work.ADAPTIVE])


@dataclass(frozen=True)
class Plan:
    """Everything that `dmc-optim plan` prints. other_seconds: of the stages that execute nothing."""

    source: SourceCounts
    bound: Totals
    stages: tuple[StagePlan, ...]
    tables: tuple[TablePlan, ...] = ()
    other_seconds: float | None = None
    wall_seconds: float | None = None
    notes: tuple[str, ...] = ()

    @property
    def core_seconds(self) -> float | None:
        """Slot time of all stages."""
        return _sum([stage.core_seconds for stage in self.stages])


def make_plan(source: SourceCounts, request: PlanRequest, like: Measured | None) -> Plan:
    """Bounds from the source and the rules; expected figures where a finished build is given."""
    config, limit = request.config, request.limit_solutions
    bound = upper_bound((p.limited(limit) for p in source.problems), config)
    distinct = like.distinct if like else (1.0, 1.0)
    likely = upper_bound((p.limited(limit, distinct) for p in source.problems), config)
    parts = plan_parts(bound, config, likely, like, all_attempts=request.all_attempts)
    stages = tuple(_stage(stage, bound, parts, request, like) for stage in EXECUTING)
    plan = Plan(source, bound, stages, notes=tuple(_notes(request, parts, like)))
    if like is None:
        return plan
    attempts = sum(stage.prompts or 0.0 for stage in stages)
    grown = growth(likely, parts, attempts, source.other_language, request.shards, like)
    other = None if like.fake or not like.rows else like.other_seconds * source.rows / like.rows
    core = plan.core_seconds
    wall = None if core is None or other is None else core / request.slots + other
    return replace(plan, tables=tuple(storage(grown, like)), other_seconds=other, wall_seconds=wall)


def _stage(
    stage: Stage, bound: Totals, parts: Sequence[PartPlan], request: PlanRequest, like: Measured | None
) -> StagePlan:
    asks = stage in SYNTHESIS
    prompts = None
    if like is not None and asks:
        prompts = expected_attempts(stage, bound, like, all_attempts=request.all_attempts)
    return StagePlan(
        stage=stage,
        problems_at_most=bound.candidates,
        problems=None if like is None else stage_problems(stage, bound, like),
        prompts_at_most=bound.attempts if asks else None,
        prompts=prompts,
        parts=tuple(part for part in parts if part.stage is stage),
    )


def _notes(request: PlanRequest, parts: Sequence[PartPlan], like: Measured | None) -> Iterator[str]:
    """What a reader must know before believing a figure."""
    name = request.like_name
    if like is None:
        yield (
            "upper bounds only; expected executions, core-hours and storage need a finished build to measure from: "
            "add --like DIR, best a build of a sample of this source"
        )
        return
    if like.fake:
        yield f"{name} was built with the fake engine, which runs nothing: no core-hours"
    elif not all(measure.slots_recorded for measure in like.stages.values()):
        slots = max(measure.slots for measure in like.stages.values())
        yield f"{name} does not say how many slots it had; {slots} is the least that its execution times allow"
    if not like.distinct_known:
        yield f"{name} had a limit on solutions, which hides what share of them are duplicates: none assumed"
    shares = {stage.value: like.answered(stage) for stage in SYNTHESIS}
    short = [f"{with_unit(share, 'share')} in {stage}" for stage, share in shares.items() if (share or 1) < 1]
    if short and not request.all_attempts:
        yield f"of {name}'s prompts {' and '.join(short)} had an answer, taken over; --all-attempts expects all"
    lacking = sorted({f"{part.work} of {part.stage}" for part in parts if part.expected is None and part.at_most})
    if lacking:
        yield f"{name} measures nothing for {', '.join(lacking)}: not in the expected figures"
    ours, theirs = request.config.execution, like.config.execution
    differing = [key for key in _SAME_SECONDS if getattr(ours, key) != getattr(theirs, key)]
    if differing:
        which = ", ".join(differing)
        yield f"{name} was built with another {which} ([execution]): seconds and outcomes are that build's"
    if theirs.exhaustive_controls and not ours.exhaustive_controls:
        yield f"{name} ran its controls to the end: early stops will save more than is expected here"


def document(plan: Plan, request: PlanRequest, like: Measured | None) -> dict[str, Any]:
    """The plan as plain data."""
    problems = plan.source.problems
    return {
        "source": {
            "rows": plan.source.rows,
            "malformed": plan.source.malformed,
            "problems": len(problems),
            "uses_files": sum(p.uses_files for p in problems),
            "candidates": plan.bound.candidates,
            "correct": sum(p.correct for p in problems),
            "incorrect": sum(p.incorrect for p in problems),
            "other_language": plan.source.other_language,
            "tests": plan.bound.tests,
            "test_chars": plan.bound.test_chars,
        },
        "limit_solutions": request.limit_solutions,
        "stages": [
            {
                "stage": stage.stage.value,
                "problems_at_most": stage.problems_at_most,
                "problems": stage.problems,
                "prompts_at_most": stage.prompts_at_most,
                "prompts": stage.prompts,
                "executions_at_most": stage.at_most,
                "executions": stage.expected,
                "core_hours": _hours(stage.core_seconds),
                "parts": [
                    {key: value for key, value in asdict(part).items() if key != "stage"} for part in stage.parts
                ],
            }
            for stage in plan.stages
        ],
        "executions_at_most": sum(stage.at_most for stage in plan.stages),
        "executions": _sum([stage.expected for stage in plan.stages]),
        "core_hours": _hours(plan.core_seconds),
        "slots": request.slots,
        "other_stages_s": plan.other_seconds,
        "wall_s": plan.wall_seconds,
        "tables": [asdict(table) for table in plan.tables],
        "bytes": sum(table.bytes for table in plan.tables) if like else None,
        "ratios": dict(_ratios(like)) if like else None,
        "notes": list(plan.notes),
    }


def plan_text(plan: Plan, request: PlanRequest, like: Measured | None) -> str:
    """The plan for a terminal."""
    blocks = [_source_text(plan), _bounds_text(plan)]
    if like is not None:
        blocks.append(_expected_text(plan))
        measured = [f"{name.replace('_', ' ')} {_figure(value)}" for name, value in _ratios(like)]
        blocks.append(f"Measured in {request.like_name}:\n  " + "\n  ".join(measured))
        blocks.append(_tables_text(plan.tables))
    if plan.wall_seconds is not None:
        blocks.append(
            f"At {request.slots} slots: {_duration(plan.wall_seconds)}, of it {_duration(plan.other_seconds or 0.0)} "
            "in the stages that execute nothing"
        )
    blocks.append("\n".join(f"note: {note}" for note in plan.notes))
    return "\n\n".join(block for block in blocks if block)


def _source_text(plan: Plan) -> str:
    source, problems = plan.source, plan.source.problems
    correct, incorrect = sum(p.correct for p in problems), sum(p.incorrect for p in problems)
    left_out = [(source.malformed, "malformed"), (sum(p.uses_files for p in problems), "with named files")]
    words = "".join(f", {number:,} {what}" for number, what in left_out if number)
    return (
        f"{source.rows:,} rows{words}; {plan.bound.candidates:,} problems with tests, correct and incorrect solutions\n"
        f"{correct:,.0f} correct and {incorrect:,.0f} incorrect solutions listed, {plan.bound.tests:,} distinct tests "
        f"({plan.bound.test_chars:,} characters)"
    )


def _bounds_text(plan: Plan) -> str:
    rows: list[list[Any]] = [
        [stage.stage.value, stage.problems_at_most, _whole(stage.prompts_at_most), _whole(stage.at_most)]
        for stage in plan.stages
    ]
    prompts = sum(stage.prompts_at_most or 0 for stage in plan.stages)
    rows.append(["total", None, _whole(prompts), _whole(sum(stage.at_most for stage in plan.stages))])
    return text_table(["at most", "problems", "prompts", "executions"], rows)


def _expected_text(plan: Plan) -> str:
    rows: list[list[Any]] = [
        [
            stage.stage.value,
            _whole(stage.problems),
            _whole(stage.prompts),
            _whole(stage.expected),
            *_each(stage),
            _hours(stage.core_seconds),
        ]
        for stage in plan.stages
    ]
    prompts = _sum([stage.prompts for stage in plan.stages if stage.stage in SYNTHESIS])
    executions = _whole(_sum([stage.expected for stage in plan.stages]))
    rows.append(["total", None, _whole(prompts), executions, None, None, _hours(plan.core_seconds)])
    names = ["expected", "problems", "prompts", "executions", "CPU s each", "slot s each", "core-hours"]
    return text_table(names, rows)


def _each(stage: StagePlan) -> list[float | None]:
    """Mean CPU and slot seconds over a stage's expected executions."""
    cpu = [None if p.cpu_s is None or p.expected is None else p.cpu_s * p.expected for p in stage.parts]
    total, number = _sum(cpu), stage.expected
    if not number:
        return [None, None]
    return [None if total is None else total / number, None if (s := stage.core_seconds) is None else s / number]


def _tables_text(tables: Sequence[TablePlan]) -> str:
    rows: list[list[Any]] = [[t.table, _whole(t.rows), size_text(t.bytes)] for t in tables]
    rows.append(["total", None, size_text(sum(t.bytes for t in tables))])
    return text_table(["table", "rows", "size"], rows)


def _ratios(like: Measured) -> Iterator[tuple[str, float | None]]:
    """The shares behind the expected figures, for a reader to judge."""
    for stage in SYNTHESIS:
        campaign = stage.value.removeprefix("synthesize_")
        kept, accepted = like.new_tests.get(stage, 0), like.accepted[stage]
        yield f"{campaign}_attempts_accepted", accepted / like.attempts[stage] if like.attempts[stage] else None
        yield f"{campaign}_tests_kept_an_accepted_attempt", kept / accepted if accepted else None
    for stage in (Stage.VALIDATE, Stage.FILTER_CORRECTNESS):
        of = like.bound.parts.get((stage, Work.CONTROLS), 0.0)
        name = f"{stage}_control_executions_of_their_bound"
        yield name, like.parts.get((stage, Work.CONTROLS), 0.0) / of if of else None


def size_text(size: float) -> str:
    """Bytes in decimal units."""
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.0f} B" if unit == "B" else f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:,.3g} TB"


def _duration(seconds: float) -> str:
    if seconds < 2 * 60:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 2 * SECONDS_AN_HOUR else f"{seconds / SECONDS_AN_HOUR:,.1f} h"


def _figure(value: float | None) -> str:
    return "–" if value is None else f"{value:.3g}"


def _hours(seconds: float | None) -> float | None:
    return None if seconds is None else seconds / SECONDS_AN_HOUR


def _whole(value: float | None) -> int | None:
    return None if value is None else round(value)


def _sum(values: Sequence[float | None]) -> float | None:
    """None where one is: a sum without it would look complete."""
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None
