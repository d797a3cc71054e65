"""Stage 8, split: the seeded, cluster-aware resplit of the RL pool into train and test (paper B.8)."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

import apache_beam as beam

from dmc_optim.artifacts.sink import ShardSink
from dmc_optim.config import SplitConfig
from schemas.enums import Category, Entity, Pool, Split, Stage
from transforms.context import StageContext, draw
from transforms.decision import Decision, ProblemState
from transforms.stage import DecideShard, Shards, WriteAttrition


def assign(clusters: Mapping[str, str], config: SplitConfig, seed: int) -> dict[str, Split]:
    """Side of every problem of the RL pool; a cluster is never split.

    clusters: {problem: cluster}. Clusters come in a seeded order; each goes to test if it still fits. At least one
    problem stays in train, and test is empty only if asked for (or where every cluster is too large).
    """
    members: dict[str, list[str]] = defaultdict(list)
    for problem, cluster in clusters.items():
        members[cluster].append(problem)
    wanted = test_size(len(clusters), config)
    sides = dict.fromkeys(clusters, Split.TRAIN)
    for cluster in sorted(members, key=lambda name: draw(seed, "split", name)):
        if len(members[cluster]) <= wanted:
            wanted -= len(members[cluster])
            sides |= dict.fromkeys(members[cluster], Split.TEST)
    return sides


def test_size(pool: int, config: SplitConfig) -> int:
    """Problems on the test side: the size asked for, else the fraction, rounded, at least one of two or more."""
    if config.test_size >= 0:
        return min(config.test_size, max(pool - 1, 0))
    if config.test_fraction == 0 or pool < 2:
        return 0
    return min(max(1, round(config.test_fraction * pool)), pool - 1)


test_size.__test__ = False  # type: ignore[attr-defined]  # not a pytest function


def keep_all(context: StageContext, state: ProblemState) -> Decision:
    """The split drops nothing."""
    return Decision()


class SplitPool(beam.PTransform):
    """Assign every complete problem to a pool and a side."""

    def __init__(self, context: StageContext) -> None:
        self._context = context

    def expand(self, root: beam.Pipeline) -> beam.PCollection:
        """→ nothing; `splits` and `attrition` are written."""
        context = self._context
        counts = (
            root
            | Shards(context)  # (shard, None)
            | "Count" >> beam.ParDo(DecideShard(context, keep_all))  # (key, count)
        )
        counts | "Attrition" >> WriteAttrition(context)  # None
        counted = counts | "Counted" >> beam.combiners.Count.Globally()  # int
        return (
            root
            | "Once" >> beam.Create([None])  # None
            | "Assign" >> beam.FlatMap(_assign_all, context, beam.pvalue.AsSingleton(counted))  # (shard, rows)
            | "SpreadSplits" >> beam.Reshuffle()  # (shard, rows)
            | "WriteSplits" >> beam.Map(_write_splits, context)  # None
        )


def complete_problems(context: StageContext) -> tuple[dict[str, str], set[str]]:
    """({problem: cluster} of the cleaned corpus, those that are duration filterable)."""
    through = [stage.value for stage in Stage]
    until_complete = tuple(through[: through.index(Stage.COMPLETE) + 1])
    dropped = {
        row["problem_id"]
        for row in context.layout.rows("exclusions", stages=until_complete, columns=["entity", "problem_id"])
        if row["entity"] == Entity.PROBLEM
    }
    clusters = {
        row["problem_id"]: row["cluster_id"]
        for row in context.layout.rows("clusters")
        if row["problem_id"] not in dropped
    }
    filterable = {
        row["problem_id"]
        for row in context.layout.rows("filterability", columns=["problem_id", "category", "duration_filterable"])
        if row["category"] == Category.OPTIMIZATION and row["duration_filterable"]
    }
    return clusters, filterable


def _assign_all(_: None, context: StageContext, counted: int) -> Iterator[tuple[int, list[dict[str, Any]]]]:
    clusters, filterable = complete_problems(context)
    pool = {problem: cluster for problem, cluster in clusters.items() if problem in filterable}
    sides = assign(pool, context.config.split, context.config.seed)
    by_shard: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for problem in sorted(clusters):
        by_shard[context.shard_of(problem)].append(
            {
                "problem_id": problem,
                "pool": (Pool.RL if problem in pool else Pool.COMPLEMENT).value,
                "split": sides.get(problem, Split.NONE).value,
            }
        )
    yield from by_shard.items()


def _write_splits(element: tuple[int, list[dict[str, Any]]], context: StageContext) -> None:
    shard, rows = element
    sink = ShardSink(context.layout, context.stage, shard, context.footer())
    sink.write("splits", rows)
    sink.publish()
