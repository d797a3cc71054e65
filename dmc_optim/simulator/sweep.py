"""Sweep: pass-rate curves and diagnostics of many (environment, reward) configurations on one pool (paper E.4).

Per problem all environments are evaluated at once on all drawn candidates (`environments.Grid`), rewards are applied to
the resulting arrays, and candidates are folded into steps by one matrix product. No rollout is visited on its own.
"""

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, fields
from multiprocessing import get_context
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from dmc_optim.environments import Environment, Grid, Signals
from dmc_optim.errors import InvalidInputError
from dmc_optim.progress import Progress, Silent
from dmc_optim.rewards import Multitask, Reward
from dmc_optim.rewards import parse as parse_reward
from dmc_optim.rewards.compositions import TASKS
from dmc_optim.simulator.bands import BandConfig, draw, quality_quantiles
from dmc_optim.simulator.curves import DiagnosticsTable, diagnose
from dmc_optim.simulator.pool import Calibration, PoolProblem, PoolSummary, SimulationPool

Floats = NDArray[np.float64]
Job = tuple[PoolProblem, Floats]  # a problem and the weights (K, n) of its candidates

_CHUNK = 16  # problems a unit of work: some hundred milliseconds on the whole grid
_WORTH_SPAWNING = 8  # units below which starting processes takes longer than the work


@dataclass(frozen=True)
class Configuration:
    """One environment under one reward."""

    environment: Environment
    reward: Reward | Multitask

    def __str__(self) -> str:
        return f"{self.environment} {self.reward}"


@dataclass(frozen=True, eq=False)
class Sweep:
    """Curves (C, n) of C configurations on one pool and one schedule, and their diagnostics.

    credit: mean of (R + 1) / 2 at each step; under a collapsed binary reward it is the share c_i of draws with c̃_cor
    and g. quality: mean of 1 − q.
    """

    configurations: tuple[Configuration, ...]
    credit: Floats
    quality: Floats
    diagnostics: DiagnosticsTable
    band: BandConfig
    pool: PoolSummary
    calibration: Calibration
    seconds: float

    @property
    def x(self) -> Floats:
        """(n,) normalised steps x_i."""
        return np.arange(self.band.steps) / (self.band.steps - 1)


def configure(environments: Iterable[Environment], rewards: Sequence[str] = ()) -> list[Configuration]:
    """Every environment under every reward; under its own default one where none is named.

    Raises InvalidInputError for an unknown reward.
    """
    named = [parse_reward(reward) for reward in rewards]
    return [
        Configuration(environment, reward)
        for environment in environments
        for reward in (named or [parse_reward(environment.default_reward)])
    ]


def sweep(
    pool: SimulationPool,
    configurations: Sequence[Configuration],
    band: BandConfig,
    *,
    workers: int = 1,
    progress: Progress | None = None,
) -> Sweep:
    """Simulate every configuration. The result does not depend on the number of workers.

    Raises InvalidInputError without configurations or problems.
    """
    if not configurations:
        raise InvalidInputError("no configuration to simulate")
    progress = progress or Silent()
    started = perf_counter()
    schedule = draw(quality_quantiles(pool), band)
    chunks = [
        [(pool.problems[i], schedule.weights(i)) for i in range(start, min(start + _CHUNK, len(pool.problems)))]
        for start in range(0, len(pool.problems), _CHUNK)
    ]
    plan = _Plan.of(configurations)
    credit = np.zeros((len(configurations), band.steps))
    quality = np.zeros((len(plan.environments), band.steps))
    progress.start("simulate", len(pool.problems))
    try:
        for chunk, sums in zip(chunks, _run(plan, chunks, pool.calibration, workers), strict=True):
            credit += sums[0]
            quality += sums[1]
            for problem, _ in chunk:
                progress.step(problem.problem_id, 0.0)
    except BaseException:
        progress.finish("stopped")  # leaves the terminal as it was
        raise
    credit = np.clip(credit / schedule.total, 0.0, 1.0)  # sums of thirds may end a rounding error above 1
    table = diagnose(credit, band.window)
    progress.finish(f"{len(configurations):,} configurations on {len(pool.problems):,} problems")
    return Sweep(
        tuple(configurations),
        credit,
        (quality / schedule.total)[plan.environment],
        table,
        band,
        pool.summary,
        pool.calibration,
        perf_counter() - started,
    )


@dataclass(frozen=True)
class _Plan:
    """Configurations as distinct environments, and for each reward the rows of environments and of results."""

    environments: tuple[Environment, ...]
    environment: NDArray[np.intp]  # (C,) place of each configuration's environment
    rewards: tuple[tuple[Reward | Multitask, NDArray[np.intp]], ...]  # reward, places among configurations

    @classmethod
    def of(cls, configurations: Sequence[Configuration]) -> "_Plan":
        places: dict[Environment, int] = {}
        environment = [places.setdefault(c.environment, len(places)) for c in configurations]
        by_reward: dict[Reward | Multitask, list[int]] = {}
        for place, configuration in enumerate(configurations):
            by_reward.setdefault(configuration.reward, []).append(place)
        rewards = tuple((reward, np.array(places)) for reward, places in by_reward.items())
        return cls(tuple(places), np.array(environment), rewards)


def _run(
    plan: _Plan, chunks: list[list[Job]], calibration: Calibration, workers: int
) -> Iterator[tuple[Floats, Floats]]:
    """Sums of each chunk, in order."""
    if workers <= 1 or len(chunks) < _WORTH_SPAWNING:
        grid = Grid(plan.environments)
        yield from (_chunk(plan, grid, calibration, chunk) for chunk in chunks)
        return
    # Spawned, not forked: the caller may hold threads (a progress bar, a database).
    with ProcessPoolExecutor(
        workers, mp_context=get_context("spawn"), initializer=_prepare, initargs=(plan, calibration)
    ) as executor:
        yield from executor.map(_work, chunks)


_state: tuple[_Plan, Grid, Calibration] | None = None


def _prepare(plan: _Plan, calibration: Calibration) -> None:
    global _state
    _state = (plan, Grid(plan.environments), calibration)


def _work(chunk: list[Job]) -> tuple[Floats, Floats]:
    if _state is None:
        raise RuntimeError("the worker was not prepared")
    plan, grid, calibration = _state
    return _chunk(plan, grid, calibration, chunk)


def _chunk(plan: _Plan, grid: Grid, calibration: Calibration, jobs: list[Job]) -> tuple[Floats, Floats]:
    """Weighted sums over the candidates of some problems: credit (C, n), quality (E, n)."""
    credit, quality, weight = [], [], []
    for problem, weights in jobs:
        chosen = np.flatnonzero(weights.any(axis=1))
        if len(chosen):
            signals = grid.evaluate(*problem.build(calibration, chosen))
            credit.append(_credit(plan, signals))
            quality.append(1.0 - signals.q)
            weight.append(weights[chosen])
    if not weight:
        n_steps = jobs[0][1].shape[1]
        return np.zeros((len(plan.environment), n_steps)), np.zeros((len(plan.environments), n_steps))
    folded = np.concatenate(weight)
    return np.concatenate(credit, axis=1) @ folded, np.concatenate(quality, axis=1) @ folded


def _credit(plan: _Plan, signals: Signals) -> Floats:
    """(R + 1) / 2 of every configuration and rollout, (C, K)."""
    credit = np.empty((len(plan.environment), signals.q.shape[1]))
    for reward, places in plan.rewards:
        credit[places] = (_mean_reward(reward, _rows(signals, plan.environment[places])) + 1.0) / 2.0
    return credit


def _mean_reward(reward: Reward | Multitask, signals: Signals) -> Floats:
    """R of every rollout; for a multitask mixture its mean over the two tasks, as whole groups alternate."""
    if isinstance(reward, Multitask):
        return np.asarray(sum(reward.task(group)(signals) for group in range(len(TASKS))) / len(TASKS))
    return np.asarray(reward(signals))


def _rows(signals: Signals, rows: NDArray[np.intp]) -> Signals:
    return Signals(**{field.name: getattr(signals, field.name)[rows] for field in fields(Signals)})
