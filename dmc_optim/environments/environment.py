"""Environments: one operator before, one during and one after execution, evaluated on rollouts (paper D.2)."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dmc_optim.environments.operators import (
    AllTests,
    Intra,
    NoRanking,
    NoTests,
    Post,
    Pre,
    QarRanking,
    QpRanking,
    Unlimited,
)
from dmc_optim.environments.outcomes import Outcomes
from dmc_optim.environments.records import Problem, Rollout, Rollouts, Signals
from dmc_optim.errors import InvalidInputError
from dmc_optim.ranking import TOLERANCE, Pool
from dmc_optim.ranking.references import Bools

CELLS = 1 << 22  # rollouts × references × tests held at once: bounds memory at a few hundred MiB


@dataclass(frozen=True)
class Environment:
    """One point of the environment space; made by `parse`, `build` or `compose`, which name it.

    name: canonical name, what `str()` gives and `parse` reads back for every family.
    pre, intra, post: the three operators. rho: ρ, timeout tolerance in [0, 1].
    added_tests: T^C = T_0 ∪ T_+, otherwise T_0. correctness_cap_s: cap on correctness tests, None for the default.
    """

    name: str
    pre: Pre = field(default_factory=AllTests)
    intra: Intra = field(default_factory=Unlimited)
    post: Post = field(default_factory=NoRanking)
    rho: float = 1.0
    added_tests: bool = True
    correctness_cap_s: float | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.rho <= 1:
            raise InvalidInputError(f"rho must lie between 0 and 1; got {self.rho}")

    def __str__(self) -> str:
        return self.name

    @property
    def default_reward(self) -> str:
        """The reward this environment is used with unless another is asked for."""
        return "correctness_only/binary" if isinstance(self.pre, NoTests) else "collapsed/binary"

    def optimization_tests(self, problem: Problem) -> Bools:
        """(T,) optimization tests that this environment executes: what the filter keeps and no limit omits."""
        pool = Pool(problem.references)
        kept = self.pre.select(pool, problem.chars)
        return np.array((kept & ~np.isnan(self.intra.limits(pool, kept)))[0])

    def evaluate(self, problem: Problem, rollout: "Rollout | Rollouts") -> Signals:
        """Signals of one rollout (scalars), or of a batch (arrays (K,)).

        Raises:
            InvalidInputError: the rollout does not have the tests of the problem, or lacks one that is used.
        """
        batch = rollout if isinstance(rollout, Rollouts) else Rollouts.stack([rollout])
        signals = self._alone.evaluate(problem, batch)
        if isinstance(rollout, Rollouts):
            return Signals(**{f.name: getattr(signals, f.name)[0] for f in fields(Signals)})
        return Signals(**{f.name: _scalar(getattr(signals, f.name)[0, 0]) for f in fields(Signals)})

    @cached_property
    def _alone(self) -> "Grid":
        return Grid([self])


class Grid:
    """Many environments evaluated at once on one problem, sharing all the work their operators have in common.

    Args:
        environments: E environments, in the order of the rows of the result.

    Raises:
        InvalidInputError: no environment at all.
    """

    def __init__(self, environments: Iterable[Environment]) -> None:
        self.environments: Sequence[Environment] = tuple(environments)
        if not self.environments:
            raise InvalidInputError("a grid needs at least one environment")
        self._pairs: dict[tuple[Pre, Intra], int] = {}
        self._sides: dict[tuple[bool, float | None], int] = {}
        pair, side, kind, p = [], [], [], []
        for env in self.environments:
            pair.append(self._pairs.setdefault((env.pre, env.intra), len(self._pairs)))
            side.append(self._sides.setdefault((env.added_tests, env.correctness_cap_s), len(self._sides)))
            kind.append(1 if isinstance(env.post, QarRanking) else 2 if isinstance(env.post, QpRanking) else 0)
            p.append(0.0 if isinstance(env.post, NoRanking) else env.post.p)
        self._pair, self._side, self._kind = (np.array(index, dtype=np.int64) for index in (pair, side, kind))
        self._rho = np.array([env.rho for env in self.environments], dtype=np.float64)
        self._p = np.array(p, dtype=np.float64)
        self._active = np.array([env.intra.active for env in self.environments], dtype=bool)
        self._ranked_pairs = sorted({i for i, k in zip(pair, kind, strict=True) if k})

    def __len__(self) -> int:
        """E."""
        return len(self.environments)

    def evaluate(self, problem: Problem, rollouts: Rollouts) -> Signals:
        """Signals as arrays (E, K); qar and qp are NaN where an environment ranks nothing.

        Raises:
            InvalidInputError: the rollouts do not have the tests of the problem.
        """
        step = max(1, CELLS // max(1, problem.references.durations.size))
        if len(rollouts) <= step:
            return self._evaluate(Outcomes(problem, rollouts))
        parts = [
            self._evaluate(Outcomes(problem, rollouts.part(slice(start, start + step))))
            for start in range(0, len(rollouts), step)
        ]
        return Signals(
            **{f.name: np.concatenate([getattr(part, f.name) for part in parts], axis=1) for f in fields(Signals)}
        )

    def _evaluate(self, outcomes: Outcomes) -> Signals:
        timeouts = [outcomes.timeouts(pre, intra) for pre, intra in self._pairs]

        def spread(rows: list[Any], index: NDArray[np.int64]) -> Any:
            return np.array(rows).reshape(len(rows), len(outcomes.rollouts))[index]

        c_cor = spread([outcomes.correct(added, cap) for added, cap in self._sides], self._side)
        c_strict = c_cor & spread([t.clean for t in timeouts], self._pair)
        complete = spread([t.complete for t in timeouts], self._pair)
        if np.any(c_strict & ~complete):
            raise InvalidInputError("optimization tests were not run, and none that ran failed: run them first")
        phi = spread([t.phi for t in timeouts], self._pair)
        n_used = spread([t.n_used for t in timeouts], self._pair)
        qar, qp = self._ranked(outcomes)
        kind, active = self._kind[:, None], self._active[:, None]
        q_rank = np.where(kind == 1, qar, qp)
        ranked = (kind > 0) & ~np.isnan(q_rank)
        g_dur = ~ranked | (q_rank <= self._p[:, None] + TOLERANCE)
        q_dur = np.where(ranked, q_rank, 0.0)
        g_to = ~active | (phi <= self._rho[:, None])
        q_to = np.where(active, phi, 0.0)
        q = np.where(ranked, np.where(active, 1 - (1 - q_to) * (1 - q_dur), q_dur), q_to)  # Eq. 26, exact if one side
        g, q = g_to & g_dur & complete, np.where(complete, q, 1.0)
        return Signals(c_cor, c_strict, g, q, g_to, g_dur, q_to, q_dur, phi, n_used, qar, qp, complete)

    def _ranked(self, outcomes: Outcomes) -> tuple[Any, Any]:
        """q_QAR and q_QP, (E, K), NaN for environments without ranking."""
        shape = (len(self._pairs), len(outcomes.rollouts))
        qar, qp = np.full(shape, np.nan), np.full(shape, np.nan)
        pairs = list(self._pairs)
        for i in self._ranked_pairs:
            rankings = outcomes.ranking(*pairs[i])
            qar[i], qp[i] = rankings.qar, rankings.qp
        ranks = self._kind[:, None] > 0
        return np.where(ranks, qar[self._pair], np.nan), np.where(ranks, qp[self._pair], np.nan)


def _scalar(value: Any) -> bool | int | float | None:
    scalar = value.item()
    return None if isinstance(scalar, float) and np.isnan(scalar) else scalar
