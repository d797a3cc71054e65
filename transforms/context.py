"""What every worker of a stage knows: where things are, how it is configured, which engine runs programs."""

import hashlib
import threading
from dataclasses import dataclass, field
from functools import lru_cache

from dmc_optim.artifacts.layout import Layout
from dmc_optim.ces.types import Executor
from dmc_optim.config import BuildConfig, digest
from schemas.enums import Stage


@dataclass(frozen=True)
class EngineSpec:
    """Which execution service the workers use: `embedded`, `fake` or URLs; slots None means one a core."""

    ces: str = "embedded"
    slots: int | None = None
    tier: str | None = None

    def connect(self) -> Executor:
        """The executor of this process; every stage and thread shares one."""
        with _CONNECTING:  # a worker's threads begin together, and each would start an engine
            return _engine(self)


_CONNECTING = threading.Lock()


@lru_cache(maxsize=4)
def _engine(spec: EngineSpec) -> Executor:
    from dmc_optim.ces import connect

    return connect(spec.ces, slots=spec.slots, tier=spec.tier)


def close_engines() -> None:
    """End the engines of this process; the next use starts them anew."""
    _engine.cache_clear()


@dataclass(frozen=True)
class StageContext:
    """A stage of one build. Picklable and small: it travels to every worker.

    key: names the stage's inputs and configuration. shards: number of shards of every table.
    limit_solutions: per label and problem, None for all.
    """

    layout: Layout
    stage: Stage
    key: str
    config: BuildConfig
    shards: int
    engine: EngineSpec = field(default_factory=EngineSpec)
    limit_problems: int | None = None
    limit_solutions: int | None = None
    build_digest: str = ""

    @property
    def earlier(self) -> tuple[str, ...]:
        """The stages before this one, in build order."""
        order = [stage.value for stage in Stage]
        return tuple(order[: order.index(self.stage)])

    @property
    def work(self) -> str:
        """Folder of the stage's unfinished parts."""
        return f"work/{self.stage}-{self.key}"

    def part(self, *names: str) -> str:
        """Path of an unfinished part."""
        return self.layout.path(self.work, *names)

    def footer(self) -> dict[str, str]:
        """Entries that every Parquet footer of the stage carries.

        envelope: what stored executions and attempts depend on; rows of another envelope are never taken over.
        """
        execution = self.config.execution
        envelope = [digest(execution.limits()), execution.comparator, execution.repetitions, self.config.seed]
        if self.stage in (Stage.SYNTHESIZE_CORRECTNESS, Stage.SYNTHESIZE_OPTIMIZATION):
            envelope.append(digest(self.config.synthesis))
        return {
            "stage": self.stage,
            "stage_key": self.key,
            "build_digest": self.build_digest,
            "envelope": digest(envelope),
        }

    def shard_of(self, problem_id: str) -> int:
        """The shard that holds a problem's rows in every table."""
        return shard_of(problem_id, self.shards)


def shard_of(problem_id: str, shards: int) -> int:
    """A stable hash of the problem's id, modulo the number of shards."""
    return int(hashlib.sha256(problem_id.encode()).hexdigest()[:8], 16) % shards


def draw(seed: int, *names: object) -> str:
    """A stable pseudo-random hex string for (seed, names): sort by it to sample without order or state."""
    text = "\0".join((str(seed), *(str(name) for name in names)))
    return hashlib.sha256(text.encode()).hexdigest()
