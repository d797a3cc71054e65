"""Running (solution, test) pairs in bounded units, each pair once, whatever is killed or repeated.

A unit is one problem and a chunk of its solutions. Its rows go to a part file; a unit whose part exists is done.
Rows of an outdated run of the same stage (`previous/`) are taken over when the envelope is the same, so changed
thresholds decide again from stored executions.
"""

import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import apache_beam as beam
import pyarrow as pa

from dmc_optim import progress
from dmc_optim.artifacts.layout import file_name, read_footer, read_parquet
from dmc_optim.artifacts.sink import ParquetSink
from dmc_optim.ces.types import NO_ANSWER, Executor, Limits, Request, Result, StopRule, TestCase
from dmc_optim.errors import ServiceError
from schemas import TABLES
from schemas.enums import Campaign, Status
from transforms.context import StageContext

Row = dict[str, Any]
STATUS_COLUMNS = ["solution_id", "test_id", "status"]
PORTION_CHARS = 64 << 20  # of test texts in a worker's memory at a time


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

    @property
    def title(self) -> str:
        """The unit in the words of the progress display."""
        kind, _, start = self.name.rpartition("+")[2].partition("-")
        return f"{self.problem_id}, {kind} solutions {int(start) + 1} to {int(start) + len(self.solutions)}"


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
        progress.current().step(unit.title, time.monotonic() - started, number)
        yield unit.shard


def run_unit(context: StageContext, unit: ExecuteUnit) -> int:
    """Write the unit's part; how many executions that took."""
    path = context.part(f"{unit.shard:05d}", f"{unit.name}.parquet")
    if context.layout.fs.exists(path):
        return 0
    rows, executed = execute_pairs(context, unit, previous_rows(context, unit))
    sink = ParquetSink(context.layout, path, TABLES["executions"].schema)
    for row in rows:
        sink.write(row)
    sink.close()
    return executed


def previous_rows(context: StageContext, unit: ExecuteUnit) -> dict[str, dict[str, Row]]:
    """Stored rows of an outdated run under the same envelope: {solution: {test: row}}. Never infrastructure."""
    layout = context.layout
    wanted = set(unit.solutions)
    known: dict[str, dict[str, Row]] = {}
    for path in layout.glob(f"previous/{context.stage}/executions/*-{unit.shard:05d}.parquet"):
        if read_footer(layout, path).get("envelope") != context.footer()["envelope"]:
            continue
        for row in read_parquet(layout.fs, path, filters=[("problem_id", "=", unit.problem_id)]).to_pylist():
            settled = row["status"] != Status.INFRASTRUCTURE
            if row["solution_id"] in wanted and row["campaign"] == unit.campaign and settled:
                known.setdefault(row["solution_id"], {})[row["test_id"]] = row
    return known


def execute_pairs(context: StageContext, unit: ExecuteUnit, known: dict[str, dict[str, Row]]) -> tuple[list[Row], int]:
    """All rows of a unit, phase by phase, stored ones taken over; and how many were executed.

    known: {solution: {test: stored row}}.
    """
    bodies = Bodies(context, unit)
    rows: list[Row] = []
    executed = 0
    running = list(unit.solutions)
    for phase in unit.phases:
        for tests in bodies.portions(phase):
            asked: dict[str, list[str]] = {}
            for solution in running:
                stored = [known[solution][t] for t in tests if t in known.get(solution, {})]
                rows += stored
                if not any(unit.stop.ends_after(Status(row["status"])) for row in stored):
                    taken = {row["test_id"] for row in stored}
                    asked[solution] = [t for t in tests if t not in taken]
            found = execute_missing(context, unit, {s: own for s, own in asked.items() if own}, bodies)
            executed += len(found)
            rows += found
            ended = {row["solution_id"] for row in rows if unit.stop.ends_after(Status(row["status"]))}
            running = [s for s in running if s not in ended]
    return rows, executed


def execute_missing(
    context: StageContext, unit: ExecuteUnit, asked: dict[str, list[str]], bodies: "Bodies"
) -> list[Row]:
    """Run solutions on the tests that each is asked for. {solution: test ids}, none empty."""
    if not asked:
        return []
    settings = context.config.execution
    tests = bodies.tests({t for own in asked.values() for t in own})
    owners = list(asked)
    requests = [
        Request(
            code=bodies.codes[solution],
            tests=tuple(tests[t] for t in asked[solution]),
            limits=settings.limits(),
            comparator=settings.comparator,
            stop=unit.stop,
            repetitions=settings.repetitions,
        )
        for solution in owners
    ]
    return [
        execution_row(unit.problem_id, owners[index], unit.campaign, result)
        for index, results in run_requests(context.engine.connect(), requests, settings.infrastructure_retries)
        for result in results
    ]


class Bodies:
    """Code and tests of a unit, read when they are needed; of the tests only some at a time, as some are huge."""

    def __init__(self, context: StageContext, unit: ExecuteUnit) -> None:
        self._layout, self._unit = context.layout, unit
        self._selection: dict[str, Any] = {
            "stages": context.earlier,
            "shard": unit.shard,
            "problem_id": unit.problem_id,
        }

    @cached_property
    def codes(self) -> dict[str, bytes]:
        """{solution: code}."""
        wanted = ("solution_id", self._unit.solutions)
        rows = self._layout.rows("solutions", columns=["solution_id", "code"], ids=wanted, **self._selection)
        return {row["solution_id"]: row["code"].encode() for row in rows}

    @cached_property
    def _sizes(self) -> dict[str, int]:
        rows = self._layout.rows("tests", columns=["test_id", "n_chars"], **self._selection)
        return {row["test_id"]: row["n_chars"] for row in rows}

    def portions(self, tests: Sequence[str]) -> Iterator[list[str]]:
        """Cut tests, in their order, so that no portion of two or more is over PORTION_CHARS."""
        portion: list[str] = []
        size = 0
        for test in tests:
            if portion and size + self._sizes[test] > PORTION_CHARS:
                yield portion
                portion, size = [], 0
            portion.append(test)
            size += self._sizes[test]
        if portion:
            yield portion

    def tests(self, wanted: Collection[str]) -> dict[str, TestCase]:
        """{test: its input and expected output}."""
        columns = ["test_id", "input", "output"]
        table = self._layout.read("tests", columns=columns, ids=("test_id", wanted), **self._selection)
        ids, inputs, outputs = (table.column(name).cast(pa.binary()).to_pylist() for name in columns)
        return {t.decode(): TestCase(t.decode(), i, o) for t, i, o in zip(ids, inputs, outputs, strict=True)}


def run_requests(executor: Executor, requests: Sequence[Request], retries: int) -> Iterator[tuple[int, list[Result]]]:
    """Run requests; pairs with an infrastructure outcome are asked again, at most `retries` times."""
    for index, results in executor.execute_many(requests):
        yield index, settle(executor, requests[index], results, retries)


def settle(executor: Executor, request: Request, results: list[Result], retries: int) -> list[Result]:
    """Ask again for pairs without a verdict; what stays without one is recorded as unknown.

    Raises ServiceError where no service answers any more, and where results are missing: that says nothing about
    the pairs, and the run can go on later.
    """
    for _ in range(retries):
        unknown = {r.test_id for r in results if r.status is Status.INFRASTRUCTURE and NO_ANSWER not in r.marks}
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
    given_up = [result for result in results if NO_ANSWER in result.marks]
    if given_up:
        raise ServiceError(f"no execution service answers: {given_up[0].detail}; run the same command again to go on")
    ended = bool(results) and request.stop.ends_after(results[-1].status)
    if len(results) < len(request.tests) and not ended:
        raise ServiceError(
            f"the execution service gave {len(results)} of {len(request.tests)} results; "
            "run the same command again to go on"
        )
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


def executed(context: StageContext, shard: int, problem_id: str) -> pa.Table:
    """Rows of all finished parts of one problem in this stage, sorted by key: a table, as there may be a million."""
    table = TABLES["executions"]
    names = context.layout.glob(f"{context.work}/{shard:05d}/{unit_prefix(problem_id)}*.parquet")
    parts = [read_parquet(context.layout.fs, name).cast(table.schema) for name in names]
    rows = pa.concat_tables(parts) if parts else table.schema.empty_table()
    return rows.sort_by([(name, "ascending") for name in table.key])


def statuses(rows: pa.Table) -> dict[tuple[str, str], Status]:
    """(solution, test) → status, from the STATUS_COLUMNS of `executions`."""
    names: dict[str, str] = {}  # one object an id, however many rows name it
    solutions, tests = (
        [names.setdefault(name, name) for name in rows.column(column).to_pylist()]
        for column in ("solution_id", "test_id")
    )
    found = [Status(status) for status in rows.column("status").to_pylist()]
    return dict(zip(zip(solutions, tests, strict=True), found, strict=True))


def unit_prefix(problem_id: str) -> str:
    """File-name form of a problem's id, ending in a separator that it cannot contain."""
    return file_name(problem_id) + "+"


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
