"""Running a campaign: append-only results, resumed where it stopped (paper C.7; fallback is disabled).

<out>/calibration/campaign-001/plan.json           what is executed, written first
<out>/calibration/campaign-001/runs/<unit>.parquet one file a finished unit
<out>/calibration/campaign-001/done.json           written last
"""

import re
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from dmc_optim.artifacts.layout import Layout, read_parquet
from dmc_optim.artifacts.sink import ParquetSink
from dmc_optim.audit.settings import stored_config
from dmc_optim.ces.calibration.plan import Plan, Unit
from dmc_optim.ces.types import Executor, Limits, Request, Result, TestCase
from dmc_optim.errors import ArtifactError, RunError
from dmc_optim.progress import Progress
from schemas.enums import Status

SERVICE_RETRIES = 2  # of a pair without a verdict, on the service; there is no other place to ask

RUN_SCHEMA = pa.schema(
    [
        ("problem_id", pa.string()),
        ("run", pa.int32()),
        ("test_id", pa.string()),
        ("solution_id", pa.string()),
        ("status", pa.string()),
        ("duration_s", pa.float64()),
        ("node", pa.string()),
        ("epoch", pa.int64()),
        ("tier", pa.string()),
        ("interpreter", pa.string()),
        ("retries", pa.int64()),
    ]
)


@dataclass(frozen=True)
class Campaign:
    """A campaign's folder and plan."""

    layout: Layout
    name: str
    plan: Plan

    def path(self, *parts: str) -> str:
        """A path in the campaign's folder."""
        return self.layout.path("calibration", self.name, *parts)

    @property
    def complete(self) -> bool:
        """Whether every unit has been executed."""
        return bool(self.layout.fs.exists(self.path("done.json")))

    def finished_units(self) -> set[str]:
        """Names of the units whose results are there."""
        names = self.layout.glob(f"calibration/{self.name}/runs/*.parquet")
        return {name.rsplit("/", 1)[1].removesuffix(".parquet") for name in names}

    def results(self, index: int) -> pa.Table:
        """All finished rows of the problem at that position in the plan, runs in order."""
        names = self.layout.glob(f"calibration/{self.name}/runs/p{index:04d}-*.parquet")
        parts = [read_parquet(self.layout.fs, name).cast(RUN_SCHEMA) for name in names]
        return pa.concat_tables(parts) if parts else RUN_SCHEMA.empty_table()


def campaigns(layout: Layout) -> list[Campaign]:
    """Every campaign of an artifact, oldest first. Raises ArtifactError for a broken plan."""
    found = []
    for path in layout.glob("calibration/campaign-*/plan.json"):
        data = layout.read_json(path) or {}
        found.append(Campaign(layout, path.split("/")[-2], Plan.from_json(data, path)))
    return found


def find_campaign(layout: Layout, name: str | None) -> Campaign:
    """A campaign by name, the newest when None. Raises ArtifactError when there is none."""
    found = campaigns(layout)
    if not found:
        raise ArtifactError(f"{layout.out}: no calibration campaign yet; run `dmc-optim ces calibrate {layout.out}`")
    if name is None:
        return found[-1]
    for campaign in found:
        if campaign.name == name:
            return campaign
    raise ArtifactError(f"{layout.out}: no campaign '{name}'; there are {', '.join(c.name for c in found)}")


def open_campaign(layout: Layout, plan: Plan, fresh: bool = False) -> Campaign:
    """The unfinished campaign with this very plan, or a new one after the last.

    fresh: start a new one in any case. An unfinished campaign with another plan is left as it is.
    """
    existing = campaigns(layout)
    if not fresh:
        for campaign in reversed(existing):
            if not campaign.complete and campaign.plan.digest == plan.digest:
                return campaign
    number = max((int(re.sub(r"\D", "", c.name) or 0) for c in existing), default=0) + 1
    campaign = Campaign(layout, f"campaign-{number:03d}", plan)
    layout.write_json(campaign.path("plan.json"), plan.to_json())
    return campaign


def run_campaign(campaign: Campaign, executor: Executor, progress: Progress) -> int:
    """Execute every unit that has no results yet; how many executions that took.

    Raises RunError when a whole unit comes back without a verdict (the service does not work: nothing of that unit is
    kept) and when another process is at the same campaign, and whatever the executor raises when it is out of reach.
    Finished units stay in any case.
    """
    with _alone(campaign):
        _remove_unfinished(campaign)
        finished = campaign.finished_units()
        units = [unit for unit in campaign.plan.units() if unit.name not in finished]
        bodies = _Bodies(campaign)
        progress.start(campaign.name, len(units))
        executed = 0
        for unit in units:
            started = time.monotonic()
            rows = _execute(campaign, executor, bodies, unit)
            executed += len(rows)
            _write(campaign, unit, rows)
            progress.step(f"{unit.problem.problem_id} run {unit.run + 1}", time.monotonic() - started, len(rows))
        campaign.layout.write_json(campaign.path("done.json"), {"units": len(finished) + len(units)})
        progress.finish(f"{executed:,} executions, {len(finished)} units were there already")
    return executed


def execute_unit(
    executor: Executor,
    unit: Unit,
    codes: dict[str, bytes],
    tests: Sequence[TestCase],
    limits: Limits,
    comparator: str,
) -> Iterable[tuple[str, Result]]:
    """(solution, result) of every pair of a unit; pairs without a verdict are asked again on the service only."""
    requests = [Request(codes[s], tuple(tests), limits, comparator) for s in unit.solution_ids]
    for index, results in executor.execute_many(requests):
        for result in _settle(executor, requests[index], results):
            yield unit.solution_ids[index], result


def _settle(executor: Executor, request: Request, results: list[Result]) -> list[Result]:
    known = {result.test_id: result for result in results}
    for attempt in range(1, SERVICE_RETRIES + 1):
        missing = [t for t in request.tests if t.id not in known or known[t.id].status is Status.INFRASTRUCTURE]
        if not missing:
            break
        for result in executor.execute(replace(request, tests=tuple(missing), request_id="")):
            known[result.test_id] = replace(result, retries=result.retries + attempt)
    nothing = {t.id: Result(t.id, Status.INFRASTRUCTURE, detail="no result") for t in request.tests}
    return [known.get(test.id, nothing[test.id]) for test in request.tests]


def _execute(campaign: Campaign, executor: Executor, bodies: "_Bodies", unit: Unit) -> list[dict[str, Any]]:
    settings = stored_config({"config": {"execution": campaign.plan.execution}}).execution
    codes, tests = bodies.of(unit)
    rows = [
        {
            "problem_id": unit.problem.problem_id,
            "run": unit.run,
            "test_id": result.test_id,
            "solution_id": solution,
            "status": result.status.value,
            "duration_s": result.duration_s,
            "node": result.node,
            "epoch": result.epoch,
            "tier": result.tier,
            "interpreter": result.interpreter,
            "retries": result.retries,
        }
        for solution, result in execute_unit(executor, unit, codes, tests, settings.limits(), settings.comparator)
    ]
    if all(row["status"] == Status.INFRASTRUCTURE for row in rows):
        raise RunError(
            f"{campaign.name}: all {len(rows)} executions of problem {unit.problem.problem_id} ended without a "
            "verdict; repair the execution service and run the same command again: finished work is kept"
        )
    return rows


class _Bodies:
    """Code and tests of units, read from the files that hold the problem."""

    def __init__(self, campaign: Campaign) -> None:
        self._layout = campaign.layout
        self._files: dict[tuple[str, str], list[str]] = {}
        wanted = {problem.problem_id for problem in campaign.plan.problems}
        for table in ("solutions", "tests"):
            for path in self._layout.glob(f"tables/{table}/*.parquet"):
                column = read_parquet(self._layout.fs, path, columns=["problem_id"])["problem_id"]
                for problem_id in wanted.intersection(column.unique().to_pylist()):
                    self._files.setdefault((table, problem_id), []).append(path)

    def of(self, unit: Unit) -> tuple[dict[str, bytes], list[TestCase]]:
        """(solution → code, tests). Raises ArtifactError when the artifact no longer holds one of them."""
        pid = unit.problem.problem_id
        codes = self._pick("solutions", pid, "solution_id", unit.solution_ids)
        tests = self._pick("tests", pid, "test_id", unit.test_ids)
        return (
            {name: codes[name]["code"].encode() for name in unit.solution_ids},
            [TestCase(name, tests[name]["input"].encode(), tests[name]["output"].encode()) for name in unit.test_ids],
        )

    def _pick(self, table: str, problem_id: str, key: str, ids: Sequence[str]) -> dict[str, dict[str, Any]]:
        filters = [("problem_id", "=", problem_id), (key, "in", list(ids))]
        rows: dict[str, dict[str, Any]] = {}
        for path in self._files.get((table, problem_id), []):
            rows |= {row[key]: row for row in read_parquet(self._layout.fs, path, filters=filters).to_pylist()}
        missing = [name for name in ids if name not in rows]
        if missing:
            raise ArtifactError(
                f"{self._layout.out}: {table} no longer holds {missing[0]} of problem {problem_id} "
                f"({len(missing)} missing); the build has changed, start a new campaign with --new"
            )
        return rows


@contextmanager
def _alone(campaign: Campaign) -> Iterator[None]:
    """Hold the campaign's lock, where the file system is a local one."""
    if "file" not in campaign.layout.fs.protocol:
        yield
        return
    import fcntl

    with Path(campaign.path("lock")).open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise RunError(f"{campaign.name}: another process is running it; wait for that one, or use --new") from None
        yield


def _write(campaign: Campaign, unit: Unit, rows: list[dict[str, Any]]) -> None:
    sink = ParquetSink(campaign.layout, campaign.path("runs", f"{unit.name}.parquet"), RUN_SCHEMA)
    for row in rows:
        sink.write(row)
    sink.close()


def _remove_unfinished(campaign: Campaign) -> None:
    for path in campaign.layout.glob(f"calibration/{campaign.name}/runs/*.tmp"):
        campaign.layout.fs.rm(path)
