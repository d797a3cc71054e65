"""Which references stand in for a generator of rising quality: a band that moves over their quality quantiles.

Step i of n looks at x_i = i / (n − 1), from the weakest references (0) to the strongest (1). A reference's quality
quantile is its place in its own problem when references are ordered by mean percentile a(h) (Eq. 23), each left out of
its own pool. The band holds the quantiles within half a width of x_i; where it holds none in a problem, the nearest
quantile there stands in.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dmc_optim.environments import Grid, parse
from dmc_optim.errors import InvalidInputError
from dmc_optim.simulator.pool import SimulationPool

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_DECIMALS = 12  # mean percentiles closer than this are one quality


@dataclass(frozen=True)
class BandConfig:
    """Shape of a simulated run (paper E.2 leaves all of it open; the defaults are ours).

    steps: n. draws: k references a step, with replacement, from problems chosen uniformly; None weighs every reference
    of the band equally within its problem and problems equally, so that the curve has no sampling noise. width: of the
    band, in quantiles. window: w of the smoothed curve. seed: of the draws.
    """

    steps: int = 101
    draws: int | None = 256
    width: float = 0.1
    window: int = 5
    seed: int = 0

    def __post_init__(self) -> None:
        if self.steps < 2:
            raise InvalidInputError(f"a run has 2 steps or more, got {self.steps}")
        if self.draws is not None and self.draws < 1:
            raise InvalidInputError(f"a step draws 1 reference or more, got {self.draws}")
        if not 0 < self.width <= 1:
            raise InvalidInputError(f"the band's width is a share of the quantile range in (0, 1], got {self.width}")
        if not 1 <= self.window <= self.steps:
            raise InvalidInputError(f"a window of {self.window} does not fit {self.steps} steps")
        if self.seed < 0:
            raise InvalidInputError(f"a seed is 0 or positive, got {self.seed}")


@dataclass(frozen=True, eq=False)
class Schedule:
    """Weights of every candidate at every step. total: sum of the weights of a step, over all problems."""

    steps: int
    total: float
    per_problem: tuple[Floats, ...]  # (K_p, n) each

    def weights(self, problem: int) -> Floats:
        """(K, n) weights of a problem's candidates."""
        return self.per_problem[problem]


def quality_quantiles(pool: SimulationPool) -> list[Floats]:
    """For each problem the quality quantile (K,) of its candidates: 0 weakest, 1 strongest, ties share their mean."""
    grid = Grid([parse("qar(p=1)")])
    return [_quantiles(grid.evaluate(*problem.build(pool.calibration)).qar[0]) for problem in pool.problems]


def _quantiles(mean_percentile: Floats) -> Floats:
    from scipy.stats import rankdata  # here: a second that workers of a sweep need not wait

    worst_first = rankdata(np.round(-mean_percentile, _DECIMALS))
    return np.asarray((worst_first - 1) / max(1, len(mean_percentile) - 1))


def draw(quantiles: list[Floats], config: BandConfig) -> Schedule:
    """The run's schedule: the same draws for every configuration, so that curves differ by environment alone.

    quantiles: (K_p,) for each problem, as `quality_quantiles` gives them. Raises InvalidInputError without a problem.
    """
    if not quantiles:
        raise InvalidInputError("no problem to draw from")
    orders = [np.argsort(quantile, kind="stable") for quantile in quantiles]
    bands = [_band(quantile[order], config) for quantile, order in zip(quantiles, orders, strict=True)]
    if config.draws is None:
        return Schedule(config.steps, float(len(quantiles)), tuple(map(_even_weights, orders, bands)))
    rng = np.random.default_rng(config.seed)
    problem = rng.integers(len(quantiles), size=(config.steps, config.draws))
    share = rng.random((config.steps, config.draws))
    step = np.broadcast_to(np.arange(config.steps)[:, None], problem.shape)
    low, high = (np.stack(side) for side in zip(*bands, strict=True))
    start, size = low[problem, step], (high - low)[problem, step]
    place = start + np.minimum((share * size).astype(np.int64), size - 1)
    by_problem = np.argsort(problem, axis=None, kind="stable")
    edges = np.searchsorted(problem.ravel()[by_problem], np.arange(len(quantiles) + 1))
    weights = []
    for index, order in enumerate(orders):
        mine = by_problem[edges[index] : edges[index + 1]]
        counts = np.zeros((len(order), config.steps))
        np.add.at(counts, (order[place.ravel()[mine]], step.ravel()[mine]), 1.0)
        weights.append(counts)
    return Schedule(config.steps, float(config.draws), tuple(weights))


def _band(ascending: Floats, config: BandConfig) -> tuple[Ints, Ints]:
    """(n,) first and one-past-last place in the ascending quantiles that each step's band holds, never empty."""
    x = np.arange(config.steps) / (config.steps - 1)
    slack = 1e-12  # quantiles are fractions: a place exactly on the edge is inside
    low = np.searchsorted(ascending, x - config.width / 2 - slack, side="left")
    high = np.searchsorted(ascending, x + config.width / 2 + slack, side="right")
    empty = low == high
    distance = np.abs(ascending - x[empty, None])
    nearest = distance <= distance.min(axis=1, keepdims=True) + slack
    low[empty] = nearest.argmax(axis=1)
    high[empty] = len(ascending) - nearest[:, ::-1].argmax(axis=1)
    return low, high


def _even_weights(order: Ints, band: tuple[Ints, Ints]) -> Floats:
    low, high = band
    place = np.arange(len(order))[:, None]
    inside = (place >= low) & (place < high)
    weights = np.empty(inside.shape)
    weights[order] = inside / (high - low)
    return weights
