"""Beam machinery that all stages share: shards in, decisions applied and counted, attrition out.

Elements are references (a shard's number, a work unit's ids); bodies are read from and written to Parquet by the
worker that needs them and never cross a shuffle.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import apache_beam as beam

from dmc_optim import progress
from dmc_optim.artifacts.sink import ShardSink
from schemas.enums import Entity
from transforms.context import StageContext
from transforms.decision import (
    N_CREATED,
    N_OUT,
    CountKey,
    Decision,
    ProblemState,
    attrition_rows,
    exclusions,
    tally,
)
from transforms.survivors import survivors

Decide = Callable[[StageContext, ProblemState], Decision]


def apply_decision(context: StageContext, sink: ShardSink, state: ProblemState, decision: Decision) -> None:
    """Write everything a decision says into the shard's tables."""
    sink.write("tests", decision.created)
    sink.write("exclusions", exclusions(context.stage, state, decision))
    for table, rows in decision.rows.items():
        sink.write(table, rows)


class DecideShard(beam.DoFn):
    """Applies a rule to every surviving problem of a shard, in sorted order, and yields the counts."""

    def __init__(self, context: StageContext, decide: Decide) -> None:
        self._context, self._decide = context, decide

    def process(self, element: tuple[int, Any], *side: Any) -> Iterator[tuple[CountKey, int]]:
        """(shard, anything) → ((entity, label, figure), count)."""
        shard = element[0]
        sink = ShardSink(self._context.layout, self._context.stage, shard, self.footer(shard))
        for state in survivors(self._context, shard).values():
            decision = self._decide(self._context, state, *side)
            apply_decision(self._context, sink, state, decision)
            yield from tally(state, decision).items()
        sink.close()
        progress.current().step(f"shard {shard}", 0.0)

    def footer(self, shard: int) -> dict[str, str]:
        """Entries of the footers of the shard's files."""
        return self._context.footer()


class WriteAttrition(beam.PTransform):
    """Sums the counts of all shards and writes the stage's rows of `attrition`."""

    def __init__(self, context: StageContext) -> None:
        self._context = context

    def expand(self, counts: beam.PCollection) -> beam.PCollection:
        """((entity, label, figure), count) → nothing; one file is written."""
        return (
            counts
            | "SumCounts" >> beam.CombinePerKey(sum)  # (key, count)
            | "GatherCounts" >> beam.combiners.ToList()  # [(key, count)]
            | "WriteAttrition" >> beam.Map(_write_attrition, self._context)  # None
        )


def _write_attrition(counts: list[tuple[CountKey, int]], context: StageContext) -> None:
    sink = ShardSink(context.layout, context.stage, ATTRITION_SHARD, context.footer())
    empty = {(Entity.PROBLEM.value, "", N_OUT): 0, (Entity.PROBLEM.value, "", N_CREATED): 0}
    sink.write("attrition", attrition_rows(context.stage, {**empty, **dict(counts)}))
    sink.publish()


ATTRITION_SHARD = 0


class Shards(beam.PTransform):
    """The numbers of all shards, one element each, spread over the workers."""

    def __init__(self, context: StageContext) -> None:
        self._context = context

    def expand(self, root: beam.Pipeline) -> beam.PCollection:
        """→ (shard, None)."""
        return (
            root
            | "Shards" >> beam.Create([(shard, None) for shard in range(self._context.shards)])  # (shard, None)
            | "SpreadShards" >> beam.Reshuffle()  # (shard, None)
        )


class DecideStage(beam.PTransform):
    """A stage that only decides: no executions, no view beyond one problem."""

    def __init__(self, context: StageContext, decide: Decide) -> None:
        self._context, self._decide = context, decide

    def expand(self, root: beam.Pipeline) -> beam.PCollection:
        """→ nothing; the stage's tables are written."""
        return (
            root
            | Shards(self._context)  # (shard, None)
            | "Decide" >> beam.ParDo(DecideShard(self._context, self._decide))  # (key, count)
            | "Attrition" >> WriteAttrition(self._context)  # None
        )


class ForEveryShard(beam.PTransform):
    """Waits for all work of a shard: one element a shard, those without work included."""

    def __init__(self, context: StageContext) -> None:
        self._context = context

    def expand(self, done: beam.PCollection) -> beam.PCollection:
        """shard → (shard, its finished units)."""
        every = done.pipeline | "AllShards" >> beam.Create([(shard, "") for shard in range(self._context.shards)])
        keyed = done | "KeyByShard" >> beam.Map(lambda shard: (shard, "unit"))  # (shard, str)
        return (
            (keyed, every) | "WithIdleShards" >> beam.Flatten() | "GroupByShard" >> beam.GroupByKey()
        )  # (shard, [str])


def chunks(items: list[Any], size: int) -> Iterable[list[Any]]:
    """Consecutive parts of at most `size`."""
    return (items[i : i + size] for i in range(0, len(items), size))
