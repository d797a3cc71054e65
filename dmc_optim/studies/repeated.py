"""Repeated timings of the same programs, from three places: a calibration campaign, a table of runs, stored spreads."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from dmc_optim.artifacts.layout import Layout
from dmc_optim.ces.calibration.campaign import campaigns
from dmc_optim.ces.calibration.load import load_campaign
from dmc_optim.ces.calibration.runs import ProblemRuns
from dmc_optim.errors import ArtifactError, SourceError
from dmc_optim.ranking import CAP_S
from dmc_optim.simulator.stored import SUCCESS, TIMEOUT, Selection, StoredProblem, stored_problems

FLOOR_S = 1e-4  # no measured duration is below
_REQUIRED = {"problem_id": pa.string(), "test_id": pa.string(), "solution_id": pa.string(), "duration_s": pa.float64()}


@dataclass(frozen=True, eq=False)
class Repeated:
    """Problems with repeated runs, and where they come from, in words for the report."""

    problems: tuple[ProblemRuns, ...]
    origin: str


def read_repeated(path: str, selection: Selection, runs: int, seed: int) -> Repeated:
    """Repeated runs of a Parquet file, or of a build: its last campaign's, else drawn from its stored spreads.

    runs: how many runs are drawn where nothing else is stored. Raises SourceError or ArtifactError where there is
    nothing to read.
    """
    if Path(path).is_file() or path.endswith(".parquet"):
        return runs_of_parquet(Path(path))
    layout = Layout(path)
    if not layout.fs.isdir(layout.root):
        raise ArtifactError(
            f"{path}: no such directory or file; give a build's --out or a Parquet file of repeated runs"
        )
    finished = [campaign for campaign in campaigns(layout) if campaign.complete]
    if finished:
        loaded = load_campaign(finished[-1])[-1]
        return _usable(loaded.problems, f"{finished[-1].name}, measured", path)
    return runs_of_spreads(stored_problems(path, selection), runs, seed, path)


def runs_of_parquet(path: Path) -> Repeated:
    """Columns problem_id, test_id, solution_id, run, duration_s; optionally stored_s.

    Without stored_s the lowest run of the file plays the stored campaign and is not among the fresh ones.
    """
    try:
        table = pq.read_table(path, partitioning=None)
    except (pa.ArrowException, OSError) as error:
        raise SourceError(f"{path}: not a readable Parquet file ({str(error).splitlines()[0]})") from error
    for name, kind in (*_REQUIRED.items(), ("run", pa.int64())):
        if name not in table.column_names:
            raise SourceError(f"{path}: no column `{name}`; repeated runs have {', '.join(_REQUIRED)} and run")
        try:
            table = table.set_column(table.column_names.index(name), name, table[name].cast(kind))
        except pa.ArrowInvalid as error:
            raise SourceError(f"{path}: column `{name}` is {table[name].type}, expected {kind} ({error})") from error
    if table.num_rows == 0:
        raise SourceError(f"{path}: no row")
    first = pc.min(table["run"]).as_py()
    problems = [
        _cube(path, name, table.filter(pc.equal(table["problem_id"], name)), first)
        for name in sorted(pc.unique(table["problem_id"]).to_pylist())
    ]
    origin = f"{path.name}, measured" + ("" if "stored_s" in table.column_names else f"; run {first} stands for stored")
    return _usable(problems, origin, str(path))


def runs_of_spreads(stored: Iterable[StoredProblem], runs: int, seed: int, where: str) -> Repeated:
    """Runs drawn around the stored durations: Gaussian with the stored standard deviation, at least FLOOR_S.

    What is drawn has no drift, so it shows rerun noise but nothing that a calibration could correct.
    """
    if runs < 2:
        raise SourceError(f"rerun noise needs 2 runs or more, got {runs}")
    problems = []
    for problem in stored:
        cells = problem.optimization
        known = (cells.status == SUCCESS) & (cells.repetitions >= 2) & np.isfinite(cells.std_s)
        if known.any():
            mean = np.where(cells.status == SUCCESS, cells.duration_s, np.nan)
            std = np.where(known, cells.std_s, 0.0)
            rng = np.random.default_rng([seed, *problem.problem_id.encode()])
            drawn = mean + std * rng.standard_normal((runs, *mean.shape))
            fresh = np.clip(drawn, FLOOR_S, CAP_S).transpose(0, 2, 1)
            censored = (cells.status == TIMEOUT).T
            ids = (problem.problem_id, cells.test_ids, problem.solution_ids)
            problems.append(ProblemRuns(*ids, mean.T, fresh, censored))
    if not problems:
        raise ArtifactError(
            f"{where}: no campaign and no duration measured twice, so nothing is known of rerun noise; "
            "run `dmc-optim ces calibrate`, or build with two repetitions or more"
        )
    return _usable(problems, f"{runs} runs drawn from the stored standard deviations", where)


def _cube(path: Path, problem: str, table: pa.Table, stored_run: int) -> ProblemRuns:
    tests, solutions, runs = (sorted(pc.unique(table[name]).to_pylist()) for name in ("test_id", "solution_id", "run"))
    at = tuple(
        np.asarray(pc.index_in(table[name], value_set=pa.array(values, table[name].type)).to_numpy())
        for name, values in (("run", runs), ("test_id", tests), ("solution_id", solutions))
    )
    seconds = table["duration_s"].to_numpy(zero_copy_only=False).astype(np.float64)
    if len(set(zip(*(axis.tolist() for axis in at), strict=True))) != len(seconds):
        raise SourceError(f"{path}: problem {problem} has two rows for one run of a test and solution")
    if (seconds <= 0).any() or np.isinf(seconds).any():
        raise SourceError(f"{path}: problem {problem} has durations that are not positive seconds; leave them null")
    cube = np.full((len(runs), len(tests), len(solutions)), np.nan)
    cube[at] = seconds
    if "stored_s" in table.column_names:
        stored = np.full(cube.shape[1:], np.nan)
        stored[at[1:]] = table["stored_s"].to_numpy(zero_copy_only=False).astype(np.float64)
        fresh = cube
    else:
        is_stored = np.array(runs) == stored_run
        stored = cube[is_stored][0] if is_stored.any() else np.full(cube.shape[1:], np.nan)
        fresh = cube[~is_stored]
    censored = np.nan_to_num(np.nanmax(cube, axis=0, initial=0.0)) >= CAP_S
    return ProblemRuns(problem, tuple(tests), tuple(solutions), stored, fresh, censored)


def _usable(problems: Iterable[ProblemRuns], origin: str, where: str) -> Repeated:
    """Problems with two runs, two tests and three solutions that can be compared."""
    kept = tuple(
        problem
        for problem in problems
        if len(problem.fresh) >= 2 and problem.usable.any(axis=1).sum() >= 2 and problem.usable.any(axis=0).sum() >= 3
    )
    if not kept:
        raise ArtifactError(
            f"{where}: no problem has two runs of three solutions on two tests; measure more, or choose another file"
        )
    return Repeated(kept, origin)
