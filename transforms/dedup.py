"""Stage 1, dedup: drop what an evaluation benchmark contains and what is no usable statement; cluster twins.

Exact matches of normalised statements and near duplicates by MinHash-LSH over word shingles (datasketch), every
candidate confirmed by the exact Jaccard similarity (paper B.2).
"""

import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import apache_beam as beam
import numpy as np
from datasketch import MinHash, MinHashLSH

from dmc_optim.artifacts.benchmark import BenchmarkRow, read_benchmark
from dmc_optim.artifacts.sink import ShardSink
from dmc_optim.config import DedupConfig
from schemas.enums import Reason
from transforms.context import StageContext
from transforms.decision import Decision, Drop, ProblemState
from transforms.stage import DecideShard, Shards, WriteAttrition

LSH_THRESHOLD = 0.5  # well under the confirmed similarity, so that the index misses almost no true pair
_NOT_WORD = re.compile(r"[^\w\s]|_")
_IMAGE = re.compile(r"<\s*image\s*>|<img\b[^>]*>|!\[[^\]]*\]\([^)]*\)", re.IGNORECASE)
_Hashes = np.ndarray[Any, np.dtype[np.uint64]]


def normalise(statement: str) -> str:
    """Lower case, punctuation out, white space folded."""
    return " ".join(_NOT_WORD.sub(" ", statement.lower()).split())


def shingles(normalised: str, words: int) -> _Hashes:
    """Sorted distinct 64-bit hashes of all runs of `words` words; a shorter text is one shingle.

    Returns shape (n,), empty for an empty text.
    """
    tokens = normalised.split()
    if not tokens:
        return np.empty(0, np.uint64)
    runs = {" ".join(tokens[i : i + words]) for i in range(max(1, len(tokens) - words + 1))}
    hashes = [int.from_bytes(hashlib.sha256(run.encode()).digest()[:8]) for run in runs]
    return np.unique(np.array(hashes, np.uint64))


def jaccard(a: _Hashes, b: _Hashes) -> float:
    """|A ∩ B| / |A ∪ B| of two sorted sets; 0 where both are empty."""
    common = len(np.intersect1d(a, b, assume_unique=True))
    union = len(a) + len(b) - common
    return common / union if union else 0.0


@dataclass(frozen=True)
class Signature:
    """What matching needs of one statement."""

    key: str
    normalised: str
    hashes: _Hashes
    minhash: MinHash


def signature(key: str, statement: str, config: DedupConfig) -> Signature:
    """Shingles and MinHash of a statement."""
    normalised = normalise(statement)
    hashes = shingles(normalised, config.shingle_words)
    minhash = MinHash(num_perm=config.permutations, seed=1)
    minhash.update_batch([value.tobytes() for value in hashes])
    return Signature(key, normalised, hashes, minhash)


class Matcher:
    """Finds statements equal or similar to a query among those it was built from. Keys name them; they may repeat."""

    def __init__(self, signatures: Iterable[Signature], config: DedupConfig) -> None:
        self.threshold = config.jaccard
        self._lsh = MinHashLSH(threshold=min(LSH_THRESHOLD, config.jaccard), num_perm=config.permutations)
        self._signatures: list[Signature] = []
        self._exact: dict[str, str] = {}
        for own in signatures:
            if not own.normalised:
                continue
            self._exact.setdefault(own.normalised, own.key)
            self._lsh.insert(len(self._signatures), own.minhash)
            self._signatures.append(own)

    def exact(self, query: Signature) -> str | None:
        """Key of a statement with the same normalised text."""
        return self._exact.get(query.normalised) if query.normalised else None

    def near(self, query: Signature) -> list[tuple[float, str]]:
        """(similarity, key) of all others at or over the threshold, most similar first, ties by key."""
        if not query.normalised:
            return []
        others = [self._signatures[position] for position in self._lsh.query(query.minhash)]
        pairs = [(jaccard(query.hashes, other.hashes), other.key) for other in others if other.key != query.key]
        return sorted((p for p in pairs if p[0] >= self.threshold), key=lambda p: (-p[0], p[1]))


def statement_rules(statement: str, config: DedupConfig) -> Drop | None:
    """The deterministic part of statement quality: empty, too short, nothing but images."""
    text = statement.strip()
    least = config.min_statement_chars
    if not text:
        return Drop(Reason.STATEMENT_EMPTY, 0, least)
    if len(text) < least:
        return Drop(Reason.STATEMENT_SHORT, len(text), least)
    if not normalise(_IMAGE.sub(" ", text)):
        return Drop(Reason.STATEMENT_IMAGES_ONLY, 0, least, "nothing but images")
    return None


def benchmark_match(query: Signature, benchmark: Matcher) -> Drop | None:
    """Whether an evaluation benchmark contains the statement: exactly, else nearly."""
    key = benchmark.exact(query)
    if key is not None:
        return Drop(Reason.BENCHMARK_EXACT, 1.0, 1.0, f"equals {key}")
    near = benchmark.near(query)
    if near:
        similarity, key = near[0]
        return Drop(Reason.BENCHMARK_NEAR, similarity, benchmark.threshold, f"similar to {key}")
    return None


def model_verdict(verdict: dict[str, Any] | None) -> Drop | None:
    """The optional model's part of statement quality; no verdict is no objection."""
    if verdict is None:
        return None
    failed = [name for name in ("well_formed", "complete", "unambiguous") if verdict.get(name) is False]
    if not failed:
        return None
    return Drop(Reason.STATEMENT_REJECTED, detail=f"not {', not '.join(failed)}: {verdict.get('reason') or ''}")


def clusters(signatures: Sequence[Signature], config: DedupConfig) -> dict[str, str]:
    """{problem: smallest problem of its cluster} by confirmed near duplicates, transitively."""
    parent = {own.key: own.key for own in signatures}

    def find(key: str) -> str:
        while parent[key] != key:
            parent[key] = parent[parent[key]]
            key = parent[key]
        return key

    matcher = Matcher(signatures, config)
    for own in signatures:
        others = [key for _, key in matcher.near(own)]
        twin = matcher.exact(own)
        for other in [*others, *([twin] if twin else [])]:
            a, b = sorted((find(own.key), find(other)))
            parent[b] = a
    return {key: find(key) for key in parent}


@lru_cache(maxsize=4)
def _benchmark_matcher(paths: tuple[str, ...], config: DedupConfig) -> Matcher:
    rows: list[BenchmarkRow] = [row for path in paths for row in read_benchmark(path)]
    return Matcher((signature(row.key, row.statement, config) for row in rows), config)


@dataclass(frozen=True)
class DecideStatement:
    """The stage's rule with its inputs: benchmark files, and whether a model has judged the statements."""

    benchmarks: tuple[str, ...]
    judged: bool = False

    def __call__(self, context: StageContext, state: ProblemState) -> Decision:
        """Benchmark first, then the rules, then the model."""
        config = context.config.dedup
        statement = statement_of(context, state.problem_id)
        query = signature(state.problem_id, statement, config)
        verdict = verdict_of(context, state.problem_id) if self.judged else None
        drop = (
            benchmark_match(query, _benchmark_matcher(self.benchmarks, config))
            or statement_rules(statement, config)
            or model_verdict(verdict)
        )
        decision = Decision(problem=drop)
        if verdict is not None:
            decision.rows["statement_quality"] = [verdict]
        return decision


def store_verdicts(context: StageContext, verdicts: dict[str, dict[str, Any]]) -> None:
    """Put a model's verdicts, by problem, where the workers look for them: a part for every shard."""
    by_shard: dict[int, dict[str, Any]] = {}
    for problem_id, verdict in verdicts.items():
        by_shard.setdefault(context.shard_of(problem_id), {})[problem_id] = verdict
    for shard, own in by_shard.items():
        context.layout.write_json(context.part("verdicts", f"{shard:05d}.json"), own)


def verdict_of(context: StageContext, problem_id: str) -> dict[str, Any] | None:
    """The model's verdict on a problem's statement, None when it has none."""
    path = context.part("verdicts", f"{context.shard_of(problem_id):05d}.json")
    return (context.layout.read_json(path) or {}).get(problem_id)


def statement_of(context: StageContext, problem_id: str) -> str:
    """A problem's statement."""
    shard = context.shard_of(problem_id)
    rows = context.layout.rows(
        "problems", stages=context.earlier, shard=shard, problem_id=problem_id, columns=["problem_id", "statement"]
    )
    return str(rows[0]["statement"])


class Dedup(beam.PTransform):
    """Decide shard by shard, then cluster the survivors of all shards together."""

    def __init__(self, context: StageContext, rule: DecideStatement) -> None:
        self._context, self._rule = context, rule

    def expand(self, root: beam.Pipeline) -> beam.PCollection:
        """→ nothing; `exclusions`, `clusters`, `statement_quality`, `attrition` are written."""
        context = self._context
        counts = (
            root
            | Shards(context)  # (shard, None)
            | "Decide" >> beam.ParDo(DecideShard(context, self._rule))  # (key, count)
        )
        counts | "Attrition" >> WriteAttrition(context)  # None
        # Counting is the barrier: signatures are read once every shard has decided.
        decided = counts | "Decided" >> beam.combiners.Count.Globally()  # int
        return (
            root
            | "Once" >> beam.Create([None])  # None
            | "Cluster" >> beam.FlatMap(_cluster_all, context, beam.pvalue.AsSingleton(decided))  # (shard, rows)
            | "SpreadClusters" >> beam.Reshuffle()  # (shard, rows)
            | "WriteClusters" >> beam.Map(_write_clusters, context)  # None
        )


def _cluster_all(_: None, context: StageContext, decided: int) -> Iterator[tuple[int, list[dict[str, Any]]]]:
    """Read the survivors' statements and yield each shard's rows of `clusters`."""
    config = context.config.dedup
    signatures = []
    for shard in range(context.shards):
        dropped = {
            row["problem_id"]
            for row in context.layout.rows(
                "exclusions", stages=(*context.earlier, context.stage), shard=shard, columns=["entity", "problem_id"]
            )
            if row["entity"] == "problem"
        }
        for row in context.layout.rows(
            "problems", stages=context.earlier, shard=shard, columns=["problem_id", "statement"]
        ):
            if row["problem_id"] not in dropped:
                signatures.append(signature(row["problem_id"], row["statement"], config))
    found = clusters(sorted(signatures, key=lambda own: own.key), config)
    by_shard: dict[int, list[dict[str, Any]]] = {}
    for problem_id, cluster_id in sorted(found.items()):
        row = {"problem_id": problem_id, "cluster_id": cluster_id}
        by_shard.setdefault(context.shard_of(problem_id), []).append(row)
    yield from by_shard.items()


def _write_clusters(element: tuple[int, list[dict[str, Any]]], context: StageContext) -> None:
    shard, rows = element
    sink = ShardSink(context.layout, context.stage, shard, context.footer())
    sink.write("clusters", rows)
    sink.publish()
