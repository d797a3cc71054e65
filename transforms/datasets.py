"""Last stage, datasets: reference durations, and the published configurations materialised by join.

`rl_pool` (train, test) is the duration-filterable pool; `rl_pool_mixed` and `rl_pool_complement` are the ablation
pools of the train split's size (paper B.9); `cleaned` is the whole corpus; `lightweight` has one correct and one
incorrect solution a problem and no optimization tests.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import apache_beam as beam

from dmc_optim import progress
from dmc_optim.artifacts.sink import ParquetSink, ShardSink
from schemas import TABLES
from schemas.enums import Category, Label, Pool, Split, Stage
from schemas.published import PUBLISHED
from transforms.context import StageContext, draw
from transforms.decision import ProblemState, tally
from transforms.split import keep_all
from transforms.stage import DecideShard, Shards, WriteAttrition
from transforms.survivors import survivors

COMPLEMENT_SPLIT = "complement"  # the side of problems outside the RL pool in the whole-corpus configurations
_STAGES = tuple(stage.value for stage in Stage)
UNTIL_COMPLETE = _STAGES[: _STAGES.index(Stage.COMPLETE) + 1]

Membership = dict[str, dict[str, str]]  # configuration → {problem: split}


def memberships(splits: Mapping[str, tuple[str, str]], clusters: Mapping[str, str], seed: int) -> Membership:
    """Which problem is in which configuration and split: {problem: (pool, split)} and {problem: cluster} in.

    The mixed pool keeps the corpus ratio of the two pools at the train split's size; where the complement is too
    small for that, or for the complement pool, all of it is taken. Both are trained on, so neither has a near
    duplicate of a test problem.
    """
    rl = {p: split for p, (pool, split) in splits.items() if pool == Pool.RL}
    tested = {clusters.get(p, p) for p, split in rl.items() if split == Split.TEST}
    others = (p for p in splits if p not in rl and clusters.get(p, p) not in tested)
    complement = sorted(others, key=lambda p: draw(seed, "ablation", p))
    train = sorted((p for p, split in rl.items() if split == Split.TRAIN), key=lambda p: draw(seed, "ablation", p))
    size = len(train)
    n_rl = round(size * len(rl) / len(splits)) if splits else 0
    mixed = train[:n_rl] + complement[: size - n_rl]
    whole = {p: rl.get(p, COMPLEMENT_SPLIT) for p in splits}
    return {
        "rl_pool": dict(rl),
        "rl_pool_mixed": dict.fromkeys(mixed, Split.TRAIN.value),
        "rl_pool_complement": dict.fromkeys(complement[:size], Split.TRAIN.value),
        "cleaned": whole,
        "lightweight": whole,
    }


def reference_durations(state: ProblemState, executions: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Measured durations of every reference solution on every retained test; a time-out keeps its measured time.

    executions: their rows, with the columns of `reference_durations`.
    """
    references = set(state.solutions_of(Label.CORRECT))
    return [row for row in executions if row["solution_id"] in references and row["test_id"] in state.tests]


class Datasets(beam.PTransform):
    """Reference durations and dataset files, shard by shard."""

    def __init__(self, context: StageContext) -> None:
        self._context = context

    def expand(self, root: beam.Pipeline) -> beam.PCollection:
        """→ nothing; `reference_durations`, `attrition` and `<out>/dataset` are written."""
        return (
            root
            | Shards(self._context)  # (shard, None)
            | "Materialise" >> beam.ParDo(MaterialiseShard(self._context))  # (key, count)
            | "Attrition" >> WriteAttrition(self._context)  # None
        )


class MaterialiseShard(DecideShard):
    """Writes a shard's reference durations and its file in every configuration and split."""

    def __init__(self, context: StageContext) -> None:
        super().__init__(context, keep_all)
        self._members: Membership = {}

    def setup(self) -> None:
        """Every worker reads the splits itself: a corpus of problem ids is no part of a job."""
        self._members = stored_memberships(self._context)

    def process(self, element: tuple[int, Any], *side: Any) -> Iterator[Any]:
        """(shard, anything) → ((entity, label, figure), count)."""
        context, shard = self._context, element[0]
        sink = ShardSink(context.layout, context.stage, shard, context.footer())
        files: dict[tuple[str, str], ParquetSink] = {}
        pool = survivors(context, shard)
        for state in survivors(context, shard, UNTIL_COMPLETE).values():
            if state.problem_id in pool:
                yield from tally(pool[state.problem_id], keep_all(context, state)).items()
            bodies = _Bodies(context, state)
            sink.write("reference_durations", bodies.durations)
            for config, members in self._members.items():
                if state.problem_id not in members:
                    continue
                target = (config, members[state.problem_id])
                if target not in files:
                    files[target] = ParquetSink(
                        context.layout, self._path(*target, shard), PUBLISHED[config], context.footer()
                    )
                files[target].write(bodies.row(config))
        sink.close()
        for file in files.values():
            file.close()
        progress.current().step(f"shard {shard}", 0.0)

    def _path(self, config: str, split: str, shard: int) -> str:
        name = f"{split}-{shard:05d}-of-{self._context.shards:05d}.parquet"
        return self._context.layout.path("dataset", config, name)


class _Bodies:
    """Everything the configurations say about one problem, loaded once."""

    def __init__(self, context: StageContext, state: ProblemState) -> None:
        self._context, self._state = context, state
        self._problem = self._rows("problems")[0]
        self._cluster = next((row["cluster_id"] for row in self._rows("clusters")), state.problem_id)
        self._pool = next((row["pool"] for row in self._rows("splits")), Pool.COMPLEMENT.value)
        self._cv = next(
            (r["robust_cv"] for r in self._rows("filterability") if r["category"] == Category.OPTIMIZATION), None
        )
        self._solutions = {row["solution_id"]: row for row in self._rows("solutions")}
        self._tests = {row["test_id"]: row for row in self._rows("tests")}
        self.durations = reference_durations(
            state, self._rows("executions", columns=TABLES["reference_durations"].column_names)
        )
        self._by_pair = {(row["test_id"], row["solution_id"]): row for row in self.durations}

    def _rows(self, table: str, columns: Sequence[str] | None = None) -> list[dict[str, Any]]:
        context, pid = self._context, self._state.problem_id
        selection: dict[str, Any] = {"stages": context.earlier, "shard": context.shard_of(pid), "problem_id": pid}
        return context.layout.rows(table, columns=None if columns is None else list(columns), **selection)

    def row(self, config: str) -> dict[str, Any]:
        """The problem's row in one configuration."""
        schema = PUBLISHED[config]
        light = config == "lightweight"
        correct = self._pick(Label.CORRECT, 1 if light else None)
        categories = [c for c in Category if not (light and c is Category.OPTIMIZATION)]
        row = {name: self._problem[name] for name in schema.names if name in self._problem}
        row |= {"cluster_id": self._cluster, "pool": self._pool, "robust_cv": self._cv}
        row["solutions"] = [self._solution(s) for s in correct]
        row["tests"] = [self._test(t, correct) for t in self._state.tests_of(*categories)]
        if "incorrect_solutions" in schema.names:
            row["incorrect_solutions"] = [self._solution(s) for s in self._pick(Label.INCORRECT, 1 if light else None)]
        return row

    def _pick(self, label: Label, most: int | None) -> list[str]:
        ids = self._state.solutions_of(label)
        if most is None:
            return ids
        return sorted(ids, key=lambda s: draw(self._context.config.seed, "lightweight", s))[:most]

    def _solution(self, solution_id: str) -> dict[str, Any]:
        row = self._solutions[solution_id]
        return {name: row[name] for name in ("solution_id", "language", "code")}

    def _test(self, test_id: str, solutions: list[str]) -> dict[str, Any]:
        row = self._tests[test_id]
        measured: dict[str, list[Any]] = defaultdict(list)
        for solution in solutions:
            found = self._by_pair.get((test_id, solution), {})
            measured["durations_s"].append(found.get("duration_s"))
            measured["duration_stds_s"].append(found.get("duration_std_s"))
            measured["statuses"].append(found.get("status"))
        return {
            **{name: row[name] for name in ("test_id", "category", "input", "output", "n_chars")},
            **{name: measured[name] for name in ("durations_s", "duration_stds_s", "statuses")},
        }


def stored_memberships(context: StageContext) -> Membership:
    """`memberships` from the stored splits and clusters."""
    splits = {row["problem_id"]: (row["pool"], row["split"]) for row in context.layout.rows("splits")}
    clusters = {row["problem_id"]: row["cluster_id"] for row in context.layout.rows("clusters")}
    return memberships(splits, clusters, context.config.seed)
