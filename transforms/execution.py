"""Running (solution, test) pairs in bounded units, each pair once, whatever is killed or repeated.

A unit is one problem and a chunk of its solutions. Its rows go to a part file; a unit whose part exists is done.
Rows of an outdated run of the same stage (`previous/`) are taken over when the envelope is the same, so changed
thresholds decide again from stored executions.
"""

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import quote

import apache_beam as beam

from dmc_optim import progress
from dmc_optim.artifacts.layout import read_parquet
from dmc_optim.artifacts.sink import ParquetSink
from dmc_optim.ces.types import Executor, Limits, Request, Result, StopRule, TestCase
from schemas import TABLES
from schemas.enums import Campaign, Status
from transforms.context import StageContext

Row = dict[str, Any]


@dataclass(frozen=True)
class ExecuteUnit:
    """Some solutions of one problem on some tests. Only ids: bodies are loaded where the unit runs.

    phases: groups of test ids, run one after another; with a stop rule a solution ends in the first phase that
    ends it. name is unique in the stage.
    """

    name: str
    problem_id: str
    shard: int
    campaign: Campaign
    solutions: tuple[str, ...]
    phases: tuple[tuple[str, ...], ...]
    stop: StopRule


class ExecuteUnits(beam.PTransform):
    """Runs units; each yields its shard when its part is written."""

    def __init__(self, context: StageContext) -> None:
        self._context = context

    def expand(self, units: beam.PCollection) -> beam.PCollection:
        """ExecuteUnit → shard."""
        return (
            units
            | "SpreadUnits" >> beam.Reshuffle()  # ExecuteUnit
            | "Execute" >> beam.ParDo(ExecuteFn(self._context))  # shard
        )


class ExecuteFn(beam.DoFn):
    """Runs one unit unless its part is there."""

    def __init__(self, context: StageContext) -> None:
        self._context = context
        self._executions = beam.metrics.Metrics.counter("dmc_optim", "executions")

    def process(self, unit: ExecuteUnit) -> Iterator[int]:
        """ExecuteUnit → shard."""
        started = time.monotonic()
        number = run_unit(self._context, unit)
        self._executions.inc(number)
        progress.current().step(f"{unit.problem_id} {unit.name}", time.monotonic() - started, number)
        yield unit.shard


def run_unit(context: StageContext, unit: ExecuteUnit) -> int:
    """Write the unit's part; how many executions that took."""
    path = context.part(f"{unit.shard:05d}", f"{unit.name}.parquet")
    if context.layout.fs.exists(path):
        return 0
    known = previous_rows(context, unit)
    missing = [t for phase in unit.phases for t in phase]
    rows: list[Row] = []
    number = 0
    if missing:
        codes, tests = load_bodies(context, unit, missing, known)
        rows, number = execute_pairs(context, unit, codes, tests, known)
    sink = ParquetSink(context.layout, path, TABLES["executions"].schema)
    for row in rows:
        sink.write(row)
    if not sink.close():
        context.layout.fs.makedirs(path.rsplit("/", 1)[0], exist_ok=True)
        context.layout.fs.touch(f"{path}.empty")
    return number


def previous_rows(context: StageContext, unit: ExecuteUnit) -> dict[str, dict[str, Row]]:
    """Stored rows of an outdated run under the same envelope: {solution: {test: row}}. Never infrastructure."""
    layout = context.layout
    wanted = set(unit.solutions)
    known: dict[str, dict[str, Row]] = {}
    for path in layout.glob(f"previous/{context.stage}/executions/*-{unit.shard:05d}.parquet"):
        if not same_envelope(context, path):
            continue
        for row in read_parquet(layout.fs, path, filters=[("problem_id", "=", unit.problem_id)]).to_pylist():
            if row["solution_id"] in wanted and row["campaign"] == unit.campaign and _settled(row):
                known.setdefault(row["solution_id"], {})[row["test_id"]] = row
    return known


def same_envelope(context: StageContext, path: str) -> bool:
    """Whether a stored file's executions ran under this build's limits and comparator."""
    import pyarrow.parquet as pq

    with context.layout.fs.open(path, "rb") as handle:
        footer = pq.read_metadata(handle).metadata or {}
    return bool(footer.get(b"envelope", b"").decode() == context.footer()["envelope"])


def load_bodies(
    context: StageContext, unit: ExecuteUnit, test_ids: Sequence[str], known: dict[str, dict[str, Row]]
) -> tuple[dict[str, bytes], dict[str, TestCase]]:
    """Code of the unit's solutions and the tests, by id; nothing is read when every row is known."""
    if all(set(test_ids) <= known.get(s, {}).keys() for s in unit.solutions):
        return dict.fromkeys(unit.solutions, b""), {t: TestCase(t, b"") for t in test_ids}
    layout, pid = context.layout, unit.problem_id
    selection: dict[str, Any] = {"stages": context.earlier, "shard": unit.shard, "problem_id": pid}
    wanted = set(unit.solutions)
    codes = {
        row["solution_id"]: row["code"].encode()
        for row in layout.rows("solutions", columns=["solution_id", "code"], **selection)
        if row["solution_id"] in wanted
    }
    wanted = set(test_ids)
    tests = {
        row["test_id"]: TestCase(row["test_id"], row["input"].encode(), row["output"].encode())
        for row in layout.rows("tests", columns=["test_id", "input", "output"], **selection)
        if row["test_id"] in wanted
    }
    return codes, tests


def execute_pairs(
    context: StageContext,
    unit: ExecuteUnit,
    codes: dict[str, bytes],
    tests: dict[str, TestCase],
    known: dict[str, dict[str, Row]],
) -> tuple[list[Row], int]:
    """All rows of a unit, phase by phase, stored ones taken over; and how many were executed."""
    settings = context.config.execution
    executor = context.engine.connect()
    rows: list[Row] = []
    executed = 0
    running = list(unit.solutions)
    for phase in unit.phases:
        requests: list[Request] = []
        owners: list[str] = []
        for solution in running:
            stored, missing, ended = _take_over(phase, known.get(solution, {}), unit.stop)
            rows += stored
            if missing and not ended:
                owners.append(solution)
                requests.append(
                    Request(
                        code=codes[solution],
                        tests=tuple(tests[t] for t in missing),
                        limits=settings.limits(),
                        comparator=settings.comparator,
                        stop=unit.stop,
                        repetitions=settings.repetitions,
                    )
                )
        for index, results in run_requests(executor, requests, settings.infrastructure_retries):
            executed += len(results)
            rows += [execution_row(unit.problem_id, owners[index], unit.campaign, result) for result in results]
        ended_now = {row["solution_id"] for row in rows if unit.stop.ends_after(Status(row["status"]))}
        running = [s for s in running if s not in ended_now]
    return rows, executed


def _take_over(phase: Sequence[str], known: dict[str, Row], stop: StopRule) -> tuple[list[Row], list[str], bool]:
    """(stored rows up to the one that ends the run, tests without one, whether the run ended)."""
    if stop is StopRule.ALL:
        return [known[t] for t in phase if t in known], [t for t in phase if t not in known], False
    ending = [t for t in phase if t in known and stop.ends_after(Status(known[t]["status"]))]
    if ending:
        return [known[t] for t in phase if t in known], [], True
    return [known[t] for t in phase if t in known], [t for t in phase if t not in known], False


def run_requests(executor: Executor, requests: Sequence[Request], retries: int) -> Iterator[tuple[int, list[Result]]]:
    """Run requests; pairs with an infrastructure outcome are asked again, at most `retries` times."""
    for index, results in executor.execute_many(requests):
        yield index, settle(executor, requests[index], results, retries)


def settle(executor: Executor, request: Request, results: list[Result], retries: int) -> list[Result]:
    """Ask again for pairs without a verdict; what stays without one is recorded as unknown."""
    for _ in range(retries):
        unknown = {r.test_id for r in results if r.status is Status.INFRASTRUCTURE}
        if not unknown:
            break
        again = replace(request, tests=tuple(t for t in request.tests if t.id in unknown), request_id="")
        fresh = {r.test_id: r for r in executor.execute(again)}
        results = [
            replace(fresh[r.test_id], retries=r.retries + 1 + fresh[r.test_id].retries) if r.test_id in fresh else r
            for r in results
        ]
        ends = [i for i, r in enumerate(results) if request.stop.ends_after(r.status)]
        if ends:
            results = results[: ends[0] + 1]
    return results


def execution_row(problem_id: str, solution_id: str, campaign: Campaign, result: Result) -> Row:
    """A row of `executions`."""
    return {
        "problem_id": problem_id,
        "solution_id": solution_id,
        "test_id": result.test_id,
        "campaign": campaign.value,
        "status": result.status.value,
        "duration_s": result.duration_s,
        "duration_std_s": result.duration_std_s,
        "repetitions": result.repetitions,
        "cpu_s": result.cpu_s,
        "wall_s": result.wall_s,
        "peak_memory_bytes": result.peak_memory_bytes,
        "node": result.node,
        "epoch": result.epoch,
        "tier": result.tier,
        "interpreter": result.interpreter,
        "retries": result.retries,
    }


def executed_rows(context: StageContext, shard: int, problem_id: str) -> list[Row]:
    """Rows of all finished parts of one problem in this stage."""
    names = context.layout.glob(f"{context.work}/{shard:05d}/{unit_prefix(problem_id)}*.parquet")
    return [row for name in names for row in read_parquet(context.layout.fs, name).to_pylist()]


def unit_prefix(problem_id: str) -> str:
    """File-name form of a problem's id, ending in a separator that its quoted form cannot contain."""
    return quote(problem_id, safe="") + "+"


def solution_units(
    context: StageContext,
    problem_id: str,
    campaign: Campaign,
    kind: str,
    solutions: Sequence[str],
    phases: Iterable[Sequence[str]],
    stop: StopRule,
) -> Iterator[ExecuteUnit]:
    """Cut a problem's solutions into units of the configured size; their names tell problem, kind and position."""
    size = context.config.execution.chunk_solutions
    groups = tuple(tuple(phase) for phase in phases if phase)
    if not groups:
        return
    for start in range(0, len(solutions), size):
        progress.current().add(1)
        yield ExecuteUnit(
            name=f"{unit_prefix(problem_id)}{kind}-{start:06d}",
            problem_id=problem_id,
            shard=context.shard_of(problem_id),
            campaign=campaign,
            solutions=tuple(solutions[start : start + size]),
            phases=groups,
            stop=stop,
        )


def limits_for_generators(context: StageContext) -> Limits:
    """The envelope of an input generator: its own time limit, and room for the largest input allowed."""
    synthesis = context.config.synthesis
    return replace(
        context.config.execution.limits(),
        time_s=synthesis.generator_time_limit_s,
        output_bytes=synthesis.max_input_bytes + 64,
    )


def _settled(row: Row) -> bool:
    return bool(row["status"] != Status.INFRASTRUCTURE)
