"""How correctness, gate and quality become one reward (paper D.4, Table 41).

Table 41's rows are missing from the paper's text. What follows is a reconstruction that agrees with every sentence
of D.4, with Figure 42's and Table 3's captions and with Table 40; docs/deviations.md gives the reasoning.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from dmc_optim.environments import Signals
from dmc_optim.errors import InvalidInputError
from dmc_optim.rewards.maps import BINARY, MAPS, signed
from schemas.enums import RewardFamily

WRONG = -1.0
ENDS_EARLY = (RewardFamily.CORRECTNESS_ONLY, RewardFamily.COLLAPSED, RewardFamily.TWO_GATE)
TASKS = (RewardFamily.CORRECTNESS_ONLY, RewardFamily.OPTIMIZATION_ONLY)
Composition = Callable[[Signals, Any], Any]


def correctness_only(signals: Signals, credit: Any) -> Any:
    """m_signed(c_cor)."""
    return signed(signals.c_cor)


def optimization_only(signals: Signals, credit: Any) -> Any:
    """m_signed(credit); correctness is not looked at."""
    return signed(credit)


def collapsed(signals: Signals, credit: Any) -> Any:
    """m_signed(credit) for a strictly correct program, else −1: one conjunction."""
    return np.where(np.asarray(signals.c_strict, dtype=bool), signed(credit), WRONG)


def two_gate(signals: Signals, credit: Any) -> Any:
    """credit itself, in [0, 1], for a strictly correct program, else −1."""
    return np.where(np.asarray(signals.c_strict, dtype=bool), credit, WRONG)


def additive_blend(signals: Signals, credit: Any) -> Any:
    """(m_signed(c_cor) + m_signed(credit)) / 2: partial credit is possible."""
    return (signed(signals.c_cor) + signed(credit)) / 2


COMPOSITIONS: dict[RewardFamily, Composition] = {
    RewardFamily.CORRECTNESS_ONLY: correctness_only,
    RewardFamily.OPTIMIZATION_ONLY: optimization_only,
    RewardFamily.COLLAPSED: collapsed,
    RewardFamily.TWO_GATE: two_gate,
    RewardFamily.ADDITIVE_BLEND: additive_blend,
}


@dataclass(frozen=True)
class Reward:
    """A composition family with a map of q; the credit of `binary` is the gate g itself.

    Called on Signals of scalars it gives a float, on Signals of arrays an array of their shape. Values are in
    [−1, 1] and the object can be pickled.
    """

    family: RewardFamily
    map: str = BINARY

    def __post_init__(self) -> None:
        if self.map != BINARY and self.map not in MAPS:
            raise InvalidInputError(f"unknown map of q {self.map!r}; known: {', '.join((BINARY, *MAPS))}")
        if self.family == RewardFamily.CORRECTNESS_ONLY and self.map != BINARY:
            raise InvalidInputError("correctness_only has no graded form; use correctness_only/binary")

    def __str__(self) -> str:
        return f"{self.family}/{self.map}"

    @property
    def ends_early(self) -> bool:
        """Whether a definitive hard failure decides the reward, so that the remaining tests need not run (C.4)."""
        return self.family in ENDS_EARLY

    def __call__(self, signals: Signals) -> Any:
        """The reward of a rollout, or of every rollout of a batch.

        Raises:
            InvalidInputError: a trajectory ended early although this family pays for the tests that were not run.
        """
        if not self.ends_early and not np.all(signals.complete):
            raise InvalidInputError(f"{self} pays for every optimization test: run them all, also after a failure")
        credit = np.asarray(signals.g, dtype=np.float64) if self.map == BINARY else MAPS[self.map](signals.q)
        reward = np.asarray(COMPOSITIONS[self.family](signals, credit))
        return float(reward) if reward.ndim == 0 else reward


@dataclass(frozen=True)
class Multitask:
    """Whole groups alternate between two tasks: all G rollouts of a prompt share one (paper D.4).

    map: map of q of the optimization task.
    """

    map: str = BINARY

    def __post_init__(self) -> None:
        Reward(RewardFamily.OPTIMIZATION_ONLY, self.map)

    def __str__(self) -> str:
        return f"{RewardFamily.MULTITASK}/{self.map}"

    def task(self, group: int) -> Reward:
        """Reward shared by all rollouts of the group-th group: correctness when even, optimization when odd."""
        return multitask(TASKS[group % 2], self.map)

    def __call__(self, signals: Signals, group: int | None = None) -> Any:
        """Reward of rollouts of the group-th group.

        Raises:
            InvalidInputError: no group is given, so no task is known.
        """
        if group is None:
            raise InvalidInputError("a multitask reward needs the number of the group, which decides its task")
        return self.task(group)(signals)


def multitask(task: str, map: str = BINARY) -> Reward:
    """Reward of one task of a multitask mixture.

    Args:
        task: correctness_only or optimization_only, the latter also as "optimization_only/linear".
        map: map of q of the optimization task.

    Raises:
        InvalidInputError: another task, or an unknown map.
    """
    name, _, own_map = task.partition("/")
    if name not in TASKS:
        raise InvalidInputError(f"unknown task {task!r}; known: {', '.join(TASKS)}")
    chosen = own_map or (map if name == RewardFamily.OPTIMIZATION_ONLY else BINARY)
    return Reward(RewardFamily(name), chosen)


def parse(text: str) -> Reward | Multitask:
    """Reward of "family/map"; "family" alone is binary; "quality_percentile" is two_gate/linear.

    Raises:
        InvalidInputError: an unknown family or map.
    """
    family, slash, name = text.strip().lower().partition("/")
    if family == "quality_percentile":
        family, name, slash = RewardFamily.TWO_GATE, name or "linear", "/"
    if family not in list(RewardFamily):
        raise InvalidInputError(f"unknown reward family {family!r}; known: {', '.join(RewardFamily)}")
    chosen = name if slash else BINARY
    return Multitask(chosen) if family == RewardFamily.MULTITASK else Reward(RewardFamily(family), chosen)


def all_rewards() -> list[Reward]:
    """Every family with every map it has, multitask apart: it is two of these in turn."""
    return [
        Reward(family, name)
        for family in COMPOSITIONS
        for name in (BINARY, *MAPS)
        if name == BINARY or family != RewardFamily.CORRECTNESS_ONLY
    ]
