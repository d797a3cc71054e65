"""The build: every stage in order, each skipped when it is complete, each counting only once its record is written."""

import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from dmc_optim import progress
from dmc_optim.artifacts.layout import Layout, absolute
from dmc_optim.artifacts.source import plan_ranges, source_names
from dmc_optim.config import LOCAL_RUNNER, digest
from dmc_optim.errors import ArtifactError, StageError
from dmc_optim.llm.spec import probe
from pipeline.request import BuildRequest, CheckedRequest, check, open_output
from schemas.enums import Entity, Reason, Stage


@dataclass
class BuildResult:
    """What a build did: stages run and skipped, seconds, warnings."""

    layout: Layout
    ran: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    seconds: float = 0.0
    warnings: list[str] = field(default_factory=list)


def build(request: BuildRequest, say: Callable[[str], None]) -> BuildResult:
    """Run every stage up to `request.through` that is not complete. say: prints one line.

    Raises UsageError kinds before anything runs, RunError kinds when a stage fails; what is done stays done.
    """
    started = time.monotonic()
    checked = check(request)
    layout, _ = open_output(checked)
    result = BuildResult(layout)
    try:
        with locked(layout):
            _build(checked, result, say)
    except OSError as error:
        raise StageError(f"--out {request.out}: {error.strerror or error} (run again to continue)") from error
    finally:
        progress.current().stop()
    result.seconds = time.monotonic() - started
    return result


def _build(checked: CheckedRequest, result: BuildResult, say: Callable[[str], None]) -> None:
    layout, manifest = open_output(checked)  # again: another build may have ended since
    manifest.setdefault("created", datetime.now(UTC).isoformat(timespec="seconds"))
    layout.write_json(layout.path("manifest.json"), manifest | {"complete": False})
    result.warnings = _generator_warnings(checked)
    for warning in result.warnings:
        say(f"note: {warning}")
    _probe_models(checked, layout)
    done = _run_stages(checked, layout, manifest["build_digest"], result, say)
    manifest |= {
        "complete": len(done) == len(Stage),
        "stages": {stage: record["key"] for stage, record in done.items()},
        "warnings": result.warnings,
        "executions": sum(record.get("executions") or 0 for record in done.values()),
    }
    layout.write_json(layout.path("manifest.json"), manifest)
    card = layout.path("dataset", "README.md")
    if Stage.DATASETS in done and (result.ran or not layout.fs.exists(card)):
        from dmc_optim.artifacts.card import render_card

        layout.write_bytes(card, render_card(layout.out).encode())


def _probe_models(checked: CheckedRequest, layout: Layout) -> None:
    """A live model that is not there is said before the first stage, not after hours of executions."""
    asked = {Stage.DEDUP: checked.judge}
    asked |= dict.fromkeys((Stage.SYNTHESIZE_CORRECTNESS, Stage.SYNTHESIZE_OPTIMIZATION), checked.generator)
    order = list(Stage)
    through = order.index(checked.request.through)
    pending = [s for s in asked if order.index(s) <= through and not layout.fs.exists(layout.stage_file(s))]
    for spec in {asked[stage] for stage in pending}:
        if spec is not None:
            probe(spec)


def _run_stages(
    checked: CheckedRequest, layout: Layout, build_digest: str, result: BuildResult, say: Callable[[str], None]
) -> dict[str, dict[str, Any]]:
    """Records of all stages that are complete at the end, in build order.

    Later stages than asked for are left alone where they follow from this configuration; otherwise they are taken
    back, as the manifest no longer speaks of what decided them.
    """
    from pipeline.resume import clean, complete, invalidate, stage_key

    order = list(Stage)
    through = order.index(checked.request.through)
    records: dict[str, dict[str, Any]] = {}
    for position, stage in enumerate(order):
        record = layout.read_json(layout.stage_file(stage))
        if position > through and record is None:
            break
        stored = None if position <= through or record is None else record.get("outside")
        outside = _outside(checked, stage) if stored is None else str(stored)
        key = stage_key(stage, checked.request.config, outside, records)
        if record is not None and complete(layout, record, key):
            clean(layout, stage)  # a kill may have come between record and cleaning
            records[stage] = record
            if position <= through:
                result.skipped.append(stage.value)
        elif position <= through:
            records[stage] = _run_stage(checked, layout, stage, key, outside, build_digest, say)
            result.ran.append(stage.value)
        else:
            invalidate(layout, stage)
            say(f"note: {stage} and what follows were decided otherwise; build without --through decides them again")
            break
    return records


def _outside(checked: CheckedRequest, stage: Stage) -> str:
    """Digest of what a stage reads from outside the output directory."""
    if stage is Stage.INGEST:
        return digest([[f.split, f.rows, f.fingerprint] for f in checked.files] + [checked.identity()])
    if stage is Stage.DEDUP:
        return digest([sorted(checked.benchmarks.values()), str(checked.judge)])
    if stage in (Stage.SYNTHESIZE_CORRECTNESS, Stage.SYNTHESIZE_OPTIMIZATION):
        if checked.recorded is not None:
            return checked.recorded.digest
        generation = checked.request.config.generation
        asked = [generation.temperature, generation.top_p, generation.max_tokens] if checked.generator else []
        return digest([str(checked.generator), *asked])
    return ""


def _run_stage(
    checked: CheckedRequest,
    layout: Layout,
    stage: Stage,
    key: str,
    outside: str,
    build_digest: str,
    say: Callable[[str], None],
) -> dict[str, Any]:
    from pipeline.resume import clean, invalidate
    from pipeline.runner import run
    from pipeline.stages import STAGES
    from pipeline.wiring import WIRING
    from transforms.context import StageContext

    request = checked.request
    if layout.read_json(layout.stage_file(stage)) is not None or not layout.glob(f"work/{stage}-{key}"):
        invalidate(layout, stage)
    context = StageContext(
        layout=layout,
        stage=stage,
        key=key,
        config=request.config,
        shards=checked.shards,
        engine=request.engine,
        limit_problems=request.limit_problems,
        limit_solutions=request.limit_solutions,
        build_digest=build_digest,
    )
    layout.fs.makedirs(layout.path(context.work), exist_ok=True)
    started = time.monotonic()
    spec = STAGES[stage]
    progress.current().start(stage, checked.shards)
    local = request.runner == LOCAL_RUNNER
    slots = request.engine.connect().parallelism if spec.executes and local else None

    def run_now(transform: Any) -> None:
        run(transform, stage, request.runner, slots or 2, request.beam_options)

    run_now(WIRING[stage](context, _inputs(checked, context, say, run_now)))
    record = _record(context, key, outside, request.runner, time.monotonic() - started)
    record |= {} if slots is None else {"slots": slots}
    layout.write_json(layout.stage_file(stage), record)
    clean(layout, stage)
    progress.current().finish(_note(record["counts"]))
    return record


def _record(context: Any, key: str, outside: str, runner: str, seconds: float) -> dict[str, Any]:
    """The stage's completion record. Raises StageError where the runner's workers wrote somewhere else."""
    from pipeline.resume import content, published_files, stage_files
    from pipeline.stages import STAGES

    layout, stage = context.layout, context.stage
    files = stage_files(layout, stage)
    if "attrition" not in files:
        raise StageError(f"stage {stage}: {runner} ended without writing to --out {layout.out}; do its workers see it?")
    spec = STAGES[stage]
    return {
        "stage": stage.value,
        "key": key,
        "outside": outside,
        "version": spec.version,
        "files": files,
        "content": content(layout, files),
        "counts": _counts(layout, stage),
        "seconds": seconds,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        **(_executions(context) if spec.executes else {}),
        **({"published": published_files(layout)} if stage is Stage.DATASETS else {}),
    }


def _inputs(checked: CheckedRequest, context: Any, say: Callable[[str], None], run_now: Callable[[Any], None]) -> Any:
    """What the stage gets from outside; a live model is asked here."""
    from pipeline.completions import completions_for, judge_for
    from pipeline.wiring import StageInputs

    stage = context.stage
    if stage is Stage.INGEST:
        return StageInputs(ranges=plan_ranges(checked.files, checked.request.limit_problems))
    if stage is Stage.DEDUP:
        benchmarks = tuple(sorted(absolute(path) for path in checked.benchmarks))
        return StageInputs(benchmarks=benchmarks, judged=judge_for(context, checked.judge, say))
    if stage in (Stage.SYNTHESIZE_CORRECTNESS, Stage.SYNTHESIZE_OPTIMIZATION):
        return StageInputs(completions=checked.recorded or completions_for(context, checked.generator, say, run_now))
    return StageInputs()


def _counts(layout: Layout, stage: Stage) -> list[dict[str, Any]]:
    """The stage's attrition rows."""
    return layout.rows("attrition", stages=(stage.value,))


def _note(counts: list[dict[str, Any]]) -> str:
    own = [row for row in counts if row["entity"] == Entity.PROBLEM]
    total = next((row for row in own if row["reason"] == Reason.TOTAL), None)
    if total is None:
        return "done"
    drops = ", ".join(f"{row['reason']} {row['n_dropped']}" for row in own if row["reason"] != Reason.TOTAL)
    entered = total["n_in"] + total["n_created"]
    return f"{entered} → {total['n_out']} problems" + (f" (dropped: {drops})" if drops else "")


def _executions(context: Any) -> dict[str, int]:
    """Rows of `executions` that the stage has, and how many running everything to the end would have given."""
    from pipeline.exhaustive import exhaustive_pairs

    rows = context.layout.read("executions", stages=(context.stage.value,), columns=["problem_id"]).num_rows
    return {"executions": rows, "executions_exhaustive": exhaustive_pairs(context)}


def _generator_warnings(checked: CheckedRequest) -> list[str]:
    """One line for recorded answers that belong to no problem of the source, one for those beyond the attempts."""
    recorded = checked.recorded
    if recorded is None:
        return []
    notes = []
    unknown = recorded.unknown(*source_names(checked.files))
    if unknown:
        shown = ", ".join(unknown[:3]) + (" …" if len(unknown) > 3 else "")
        notes.append(f"{recorded.path}: {len(unknown)} problems are not in the source, their answers wait: {shown}")
    synthesis = checked.request.config.synthesis
    attempts = synthesis.attempts + synthesis.adaptive_attempts
    beyond = recorded.beyond(attempts)
    if beyond:
        notes.append(f"{recorded.path}: {beyond} answers are numbered {attempts} or higher, over synthesis.attempts")
    return notes


@contextlib.contextmanager
def locked(layout: Layout) -> Iterator[None]:
    """One build at a time in a local directory; a second one gets an ArtifactError, and a crash leaves no lock."""
    if "://" in layout.out:
        yield
        return
    import fcntl

    root = Path(layout.root)
    try:
        root.mkdir(parents=True, exist_ok=True)
        handle = (root / ".lock").open("w")
    except OSError as error:
        raise ArtifactError(f"--out {layout.out}: cannot be written: {error}") from error
    with handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise ArtifactError(f"--out {layout.out}: another build is running there; wait for it") from error
        yield


def with_defaults(request: BuildRequest) -> BuildRequest:
    """Fill in the bundled corpus where no source is given."""
    from pipeline.request import EXAMPLES

    if request.source:
        return request
    corpus = EXAMPLES / "corpus"
    if not corpus.is_dir():
        raise ArtifactError("no --source, and the bundled corpus is not here: run from a checkout or give --source")
    return replace(
        request,
        source=str(corpus),
        benchmarks=request.benchmarks or (str(EXAMPLES / "benchmark.jsonl"),),
        generator=request.generator or f"recorded:{EXAMPLES / 'recorded_generators.jsonl'}",
    )
