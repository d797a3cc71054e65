"""Campaign results as cubes: stored durations of the artifact joined with the fresh ones (paper C.7)."""

from collections import Counter
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dmc_optim.artifacts.layout import Layout
from dmc_optim.ces.calibration.campaign import Campaign
from dmc_optim.ces.calibration.fit import Array
from dmc_optim.ces.calibration.plan import ProblemPlan
from dmc_optim.ces.calibration.runs import ProblemRuns, without_unstable_runs
from dmc_optim.errors import ArtifactError
from schemas.enums import Status


@dataclass(frozen=True, eq=False)
class Loaded:
    """A campaign, ready for analysis, for the stored durations of one epoch.

    to_epoch: epoch of the fresh durations, the most frequent one where there are several. Counts are of executions
    (raw, failed, inconclusive, other_epoch) or of problem runs (problem_runs, dropped_runs).
    """

    campaign: str
    from_epoch: int
    to_epoch: int
    problems: tuple[ProblemRuns, ...]
    raw: int
    failed: int
    inconclusive: int
    other_epoch: int
    problem_runs: int
    dropped_runs: int


def load_campaign(campaign: Campaign, max_inconclusive: float = 0.01) -> list[Loaded]:
    """One entry for each epoch that stored durations come from, ascending.

    max_inconclusive: share of a problem run's executions without a verdict above which the run is dropped. Fresh rows
    of another epoch than to_epoch are left out and counted. Raises ArtifactError when nothing was executed yet.
    """
    tables = [campaign.results(index) for index in range(len(campaign.plan.problems))]
    to_epoch = _main_epoch(tables)
    if to_epoch is None:
        raise ArtifactError(f"{campaign.layout.out}: {campaign.name} has no results yet; run it first")
    runs = campaign.plan.settings.runs
    totals: Counter[str] = Counter()
    by_epoch: dict[int, list[ProblemRuns]] = {}
    for plan, table in zip(campaign.plan.problems, tables, strict=True):
        cube, inconclusive, counts = _fresh(plan, table, runs, to_epoch)
        totals.update(counts)
        for epoch, stored in _stored(campaign.layout, plan).items():
            problem = ProblemRuns(plan.problem_id, plan.test_ids, plan.solution_ids, stored, *cube)
            kept, dropped = without_unstable_runs(problem, inconclusive, max_inconclusive)
            totals[f"dropped_runs/{epoch}"] += dropped
            totals[f"problem_runs/{epoch}"] += len(kept.fresh)
            by_epoch.setdefault(epoch, []).append(kept)
    return [
        Loaded(
            campaign.name,
            epoch,
            to_epoch,
            tuple(problems),
            raw=totals["raw"],
            failed=totals["failed"],
            inconclusive=totals["inconclusive"],
            other_epoch=totals["other_epoch"],
            problem_runs=totals[f"problem_runs/{epoch}"],
            dropped_runs=totals[f"dropped_runs/{epoch}"],
        )
        for epoch, problems in sorted(by_epoch.items())
    ]


def _main_epoch(tables: list[pa.Table]) -> int | None:
    counts: Counter[int] = Counter()
    for table in tables:
        counts.update(_epoch_counts(table))
    return max(sorted(counts), key=lambda epoch: counts[epoch]) if counts else None


def _epoch_counts(table: pa.Table) -> dict[int, int]:
    timed = table.filter(pc.not_equal(table["status"], Status.INFRASTRUCTURE.value))
    return {item["values"]: item["counts"] for item in pc.value_counts(timed["epoch"]).to_pylist()}


def _fresh(
    plan: ProblemPlan, table: pa.Table, runs: int, to_epoch: int
) -> tuple[tuple[Array, NDArray[np.bool_]], NDArray[np.int64], Counter[str]]:
    """((R, T, S) durations, (T, S) censored), (R,) executions without a verdict or without a row, and counts."""
    shape = (runs, len(plan.test_ids), len(plan.solution_ids))
    fresh, seen = np.full(shape, np.nan), np.zeros(shape, dtype=bool)
    censored = np.zeros(shape[1:], dtype=bool)
    at = (
        table["run"].to_numpy(),
        _codes(table["test_id"], plan.test_ids),
        _codes(table["solution_id"], plan.solution_ids),
    )
    status = table["status"].to_numpy(zero_copy_only=False)
    epoch = table["epoch"].to_numpy()
    duration = table["duration_s"].to_numpy(zero_copy_only=False).astype(np.float64)
    verdict = status != Status.INFRASTRUCTURE.value
    current = verdict & (epoch == to_epoch)
    success, timeout = current & (status == Status.SUCCESS.value), current & (status == Status.TIMEOUT.value)
    fresh[tuple(axis[success] for axis in at)] = duration[success]
    seen[tuple(axis[verdict] for axis in at)] = True
    censored[at[1][timeout], at[2][timeout]] = True
    counts = Counter(
        raw=int(success.sum()),
        failed=int((current & ~success & ~timeout).sum()),
        inconclusive=int((~verdict).sum()),
        other_epoch=int((verdict & ~current).sum()),
    )
    return (fresh, censored), np.asarray((~seen).sum(axis=(1, 2))), counts


def _stored(layout: Layout, plan: ProblemPlan) -> dict[int, Array]:
    """Epoch → (T, S) stored seconds, NaN where the triple has no successful timing of that epoch."""
    columns = ["test_id", "solution_id", "duration_s", "status", "epoch"]
    table = layout.read("reference_durations", columns=columns, problem_id=plan.problem_id)
    tests, solutions = _codes(table["test_id"], plan.test_ids), _codes(table["solution_id"], plan.solution_ids)
    duration = table["duration_s"].to_numpy(zero_copy_only=False).astype(np.float64)
    success = table["status"].to_numpy(zero_copy_only=False) == Status.SUCCESS.value
    usable = success & (tests >= 0) & (solutions >= 0) & (duration > 0)
    epochs = table["epoch"].to_numpy()
    result = {}
    for epoch in np.unique(epochs[usable]):
        rows = usable & (epochs == epoch)
        stored = np.full((len(plan.test_ids), len(plan.solution_ids)), np.nan)
        stored[tests[rows], solutions[rows]] = duration[rows]
        result[int(epoch)] = stored
    return result


def _codes(column: pa.ChunkedArray, names: tuple[str, ...]) -> NDArray[np.int64]:
    """Position of each value in names, -1 where it is not there."""
    codes = pc.fill_null(pc.index_in(column, value_set=pa.array(names, pa.string())), -1)
    return np.asarray(codes.to_numpy(), dtype=np.int64)
