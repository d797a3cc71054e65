"""Stage 0, ingest: CodeContests rows become problems, solutions and tests; what is malformed is set aside.

Rule (paper B.2): keep the configured languages, collapse exact duplicates, set aside code found under both labels,
drop problems that read or write a named file. A row that cannot be read is an exclusions row, never a crash.
"""

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import apache_beam as beam

from dmc_optim import progress
from dmc_optim.artifacts.layout import read_parquet
from dmc_optim.artifacts.sink import ParquetSink, ShardSink, in_order
from dmc_optim.artifacts.source import SourceRange, read_range
from dmc_optim.config import LANGUAGES
from schemas import TABLES
from schemas.enums import DIFFICULTIES, SOURCES, Category, Entity, Label, Reason
from transforms.context import StageContext, draw
from transforms.decision import N_CREATED, N_IN, N_OUT, CountKey, Drop, exclusion
from transforms.stage import ForEveryShard, WriteAttrition

NANOS = 1e-9
_LANGUAGE_NAMES = {code: name for name, code in LANGUAGES.items()}
_TESTS = (
    ("public_tests", Category.PUBLIC),
    ("private_tests", Category.PRIVATE),
    ("generated_tests", Category.GENERATED),
)
_SOLUTIONS = (("solutions", Label.CORRECT), ("incorrect_solutions", Label.INCORRECT))


class MalformedRow(ValueError):
    """A row that cannot become a problem; the message names the column and what is wrong with it."""


@dataclass
class Ingested:
    """What one row became: rows by table, and counts for the attrition ledger."""

    rows: dict[str, list[dict[str, Any]]] = field(default_factory=lambda: defaultdict(list))
    counts: Counter[CountKey] = field(default_factory=Counter)


def solution_id(code: str) -> str:
    """First 16 hex digits of sha256 over the raw bytes of the program."""
    return hashlib.sha256(code.encode()).hexdigest()[:16]


def test_id(test_input: str, output: str) -> str:
    """First 16 hex digits of sha256(input NUL output), over the raw bytes."""
    return hashlib.sha256(test_input.encode() + b"\0" + output.encode()).hexdigest()[:16]


def ingest_row(context: StageContext, problem_id: str, source_split: str, row: dict[str, Any]) -> Ingested:
    """One source row (string columns as bytes) → rows of the tables, or one exclusions row."""
    done = Ingested()
    done.counts[Entity.ROW, "", N_IN] += 1
    try:
        problem = problem_row(problem_id, source_split, row)
        solutions = {label: _solutions(row, column) for column, label in _SOLUTIONS}
        tests = test_pairs(row)
        file_names = named_files(row)
    except MalformedRow as error:
        drop = Drop(Reason.MALFORMED_ROW, detail=str(error))
        done.rows["exclusions"].append(exclusion(context.stage, Entity.ROW, problem_id, problem_id, drop))
        done.counts[Entity.ROW, "", drop.reason] += 1
        return done
    done.counts[Entity.ROW, "", N_OUT] += 1
    done.counts[Entity.PROBLEM, "", N_CREATED] += 1
    done.rows["problems"].append(problem)
    file_drop = Drop(Reason.FILE_IO, detail="uses the file " + ", ".join(file_names)) if file_names else None
    if file_drop is not None:
        done.rows["exclusions"].append(exclusion(context.stage, Entity.PROBLEM, problem_id, problem_id, file_drop))
        done.counts[Entity.PROBLEM, "", file_drop.reason] += 1
    else:
        done.counts[Entity.PROBLEM, "", N_OUT] += 1
    _add_solutions(context, done, problem_id, solutions, survives=file_drop is None)
    _add_tests(done, problem_id, tests, survives=file_drop is None)
    return done


def problem_row(problem_id: str, source_split: str, row: dict[str, Any]) -> dict[str, Any]:
    """The row of `problems`. Raises MalformedRow."""
    limit = row["time_limit"]
    seconds = None
    if limit is not None and limit["seconds"] is not None:
        seconds = limit["seconds"] + (limit["nanos"] or 0) * NANOS
    for column, value in (("time_limit", seconds), ("memory_limit_bytes", row["memory_limit_bytes"])):
        if value is not None and value < 0:
            raise MalformedRow(f"{column}: negative")
    tags = row["cf_tags"]
    return {
        "problem_id": problem_id,
        "name": _text(row, "name"),
        "source": _named(row, "source", SOURCES),
        "source_split": source_split,
        "statement": _text(row, "description"),
        "difficulty": _named(row, "difficulty", DIFFICULTIES),
        "cf_contest_id": row["cf_contest_id"],
        "cf_index": _text(row, "cf_index", optional=True),
        "cf_rating": row["cf_rating"],
        "cf_tags": None if tags is None else [_decode(tag, "cf_tags") for tag in tags],
        "time_limit_s": seconds,
        "memory_limit_bytes": row["memory_limit_bytes"],
    }


def test_pairs(row: dict[str, Any]) -> dict[Category, list[tuple[str, str]]]:
    """(input, output) of the original tests, duplicates included. Raises MalformedRow."""
    return {category: _pairs(row, column, "input", "output") for column, category in _TESTS}


def named_files(row: dict[str, Any]) -> list[str]:
    """Files that the problem reads or writes instead of the standard streams. Raises MalformedRow."""
    return [name for column in ("input_file", "output_file") if (name := _text(row, column, optional=True))]


def _solutions(row: dict[str, Any], column: str) -> list[tuple[str, str]]:
    """(language name, code) pairs."""
    pairs = _lists(row, column, "language", "solution")
    named = []
    for language, code in pairs:
        if language is None:
            raise MalformedRow(f"{column}.language: null")
        if not isinstance(language, int):
            raise MalformedRow(f"{column}.language: expected a number, got {type(language).__name__}")
        named.append((_LANGUAGE_NAMES.get(language, "unknown"), _decode(code, f"{column}.solution")))
    return named


def _pairs(row: dict[str, Any], column: str, first: str, second: str) -> list[tuple[str, str]]:
    return [
        (_decode(a, f"{column}.{first}"), _decode(b, f"{column}.{second}"))
        for a, b in _lists(row, column, first, second)
    ]


def _lists(row: dict[str, Any], column: str, first: str, second: str) -> list[tuple[Any, Any]]:
    value = row[column]
    if value is None:
        raise MalformedRow(f"{column}: null")
    a, b = value[first], value[second]
    for name, items in ((first, a), (second, b)):
        if items is None:
            raise MalformedRow(f"{column}.{name}: null")
    if len(a) != len(b):
        raise MalformedRow(f"{column}: {first} has {len(a)} entries, {second} has {len(b)}")
    return list(zip(a, b, strict=True))


def _text(row: dict[str, Any], column: str, optional: bool = False) -> str:
    value = row[column]
    if value is None and optional:
        return ""
    return _decode(value, column)


def _decode(value: Any, column: str) -> str:
    if value is None:
        raise MalformedRow(f"{column}: null")
    if not isinstance(value, bytes):
        raise MalformedRow(f"{column}: expected text, got {type(value).__name__}")
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError as error:
        raise MalformedRow(f"{column}: invalid UTF-8 at byte {error.start}") from error


def _named(row: dict[str, Any], column: str, names: tuple[str, ...]) -> str:
    value = row[column]
    if value is None:
        raise MalformedRow(f"{column}: null")
    return names[value] if 0 <= value < len(names) else "unknown"


def _add_solutions(
    context: StageContext,
    done: Ingested,
    problem_id: str,
    solutions: dict[Label, list[tuple[str, str]]],
    *,
    survives: bool,
) -> None:
    """Languages, duplicates, contradictory labels, the limit; in this order."""
    kept: dict[Label, dict[str, tuple[str, str]]] = {}
    others: list[tuple[Label, str, str]] = []
    for label, items in solutions.items():
        done.counts[Entity.SOLUTION, label, N_CREATED] += len(items)
        own = [(solution_id(code), language, code) for language, code in items]
        kept[label] = {}
        for key, language, code in own:
            if language not in context.config.ingest.languages:
                others.append((label, key, language))
            elif key in kept[label]:
                done.counts[Entity.SOLUTION, label, Reason.DUPLICATE] += 1
            else:
                kept[label][key] = (language, code)
    contradictory = kept[Label.CORRECT].keys() & kept[Label.INCORRECT].keys()
    _exclude_solutions(context, done, problem_id, kept, others, contradictory)
    for label, found in kept.items():
        chosen = _limited(context, problem_id, sorted(found.keys() - contradictory))
        left_out = len(found.keys() - contradictory) - len(chosen)
        done.counts[Entity.SOLUTION, label, N_CREATED] -= left_out  # a limit is a smaller source, not a drop
        done.counts[Entity.SOLUTION, label, N_OUT if survives else Reason.PROBLEM_DROPPED] += len(chosen)
        for key in chosen:
            language, code = found[key]
            done.rows["solutions"].append(
                {
                    "problem_id": problem_id,
                    "solution_id": key,
                    "label": label.value,
                    "language": language,
                    "code": code,
                }
            )


def _exclude_solutions(
    context: StageContext,
    done: Ingested,
    problem_id: str,
    kept: dict[Label, dict[str, tuple[str, str]]],
    others: list[tuple[Label, str, str]],
    contradictory: set[str],
) -> None:
    """Exclusions rows of contradictory code, and of other languages unless the same text is kept or listed."""

    def exclude(key: str, drop: Drop) -> None:
        done.rows["exclusions"].append(exclusion(context.stage, Entity.SOLUTION, problem_id, key, drop))

    for key in sorted(contradictory):
        exclude(key, Drop(Reason.CONTRADICTORY_LABEL, detail="the same code is under both labels"))
        for label in Label:
            done.counts[Entity.SOLUTION, label, Reason.CONTRADICTORY_LABEL] += 1
    listed = kept[Label.CORRECT].keys() | kept[Label.INCORRECT].keys()
    for label, key, language in others:
        if key in listed:
            done.counts[Entity.SOLUTION, label, Reason.DUPLICATE] += 1
            continue
        listed = listed | {key}
        exclude(key, Drop(Reason.OTHER_LANGUAGE, detail=language))
        done.counts[Entity.SOLUTION, label, Reason.OTHER_LANGUAGE] += 1


def _limited(context: StageContext, problem_id: str, keys: list[str]) -> list[str]:
    """The seeded sample of a label's solutions under `--limit-solutions`."""
    if context.limit_solutions is None or len(keys) <= context.limit_solutions:
        return keys
    ranked = sorted(keys, key=lambda key: draw(context.config.seed, "limit", problem_id, key))
    return sorted(ranked[: context.limit_solutions])


def _add_tests(
    done: Ingested, problem_id: str, tests: dict[Category, list[tuple[str, str]]], *, survives: bool
) -> None:
    """Exact duplicates collapse, the first category wins."""
    seen: set[str] = set()
    for category, pairs in tests.items():
        for test_input, output in pairs:
            done.counts[Entity.TEST, category, N_CREATED] += 1
            key = test_id(test_input, output)
            if key in seen:
                done.counts[Entity.TEST, category, Reason.DUPLICATE] += 1
                continue
            seen.add(key)
            done.counts[Entity.TEST, category, N_OUT if survives else Reason.PROBLEM_DROPPED] += 1
            done.rows["tests"].append(test_row(problem_id, key, category, test_input, output, None))


def test_row(
    problem_id: str,
    key: str,
    category: Category,
    test_input: str,
    output: str,
    attempt: int | None,
    method: str | None = None,
) -> dict[str, Any]:
    """A row of `tests`. method: of the generator that made it."""
    return {
        "problem_id": problem_id,
        "test_id": key,
        "category": category.value,
        "input": test_input,
        "output": output,
        "n_chars": len(test_input) + len(output),
        "generator_attempt": attempt,
        "generator_method": method,
    }


test_row.__test__ = test_id.__test__ = test_pairs.__test__ = False  # type: ignore[attr-defined]  # not pytest functions


class Ingest(beam.PTransform):
    """Source ranges → parts by shard → one sorted file a shard and table."""

    def __init__(self, context: StageContext, ranges: list[SourceRange]) -> None:
        self._context, self._ranges = context, ranges

    def expand(self, root: beam.Pipeline) -> beam.PCollection:
        """→ nothing; `problems`, `solutions`, `tests`, `exclusions`, `attrition` are written."""
        parsed = (
            root
            | "Ranges" >> beam.Create(self._ranges)  # SourceRange
            | "SpreadRanges" >> beam.Reshuffle()  # SourceRange
            | "Parse" >> beam.ParDo(ParseRange(self._context)).with_outputs("counts", main="shards")
        )
        merged = (
            parsed.shards  # shard
            | "EveryShard" >> ForEveryShard(self._context)  # (shard, [str])
            | "Merge" >> beam.ParDo(MergeShard(self._context))  # nothing
        )
        parsed.counts | "Attrition" >> WriteAttrition(self._context)  # None
        return merged


class ParseRange(beam.DoFn):
    """Parses some rows of a source file into part files, one a shard and table."""

    def __init__(self, context: StageContext) -> None:
        self._context = context

    def process(self, span: SourceRange) -> Iterator[Any]:
        """SourceRange → shards that got rows; tagged `counts`: ((entity, label, figure), count)."""
        context = self._context
        sinks: dict[tuple[str, int], ParquetSink] = {}
        counts: Counter[CountKey] = Counter()
        for index, row in read_range(span):
            problem_id = f"{span.split}/{index}"
            done = ingest_row(context, problem_id, span.split, row)
            counts += done.counts
            shard = context.shard_of(problem_id)
            for table, rows in done.rows.items():
                if (table, shard) not in sinks:
                    path = context.part(table, f"{shard:05d}", f"{span.name}.parquet")
                    sinks[table, shard] = ParquetSink(context.layout, path, TABLES[table].schema)
                for item in in_order(table, rows):
                    sinks[table, shard].write(item)
        for (_, shard), sink in sinks.items():
            sink.close()
            yield shard
        progress.current().step(f"{span.split}, rows from {span.first + span.start}", 0.0)
        for key, number in counts.items():
            yield beam.pvalue.TaggedOutput("counts", (tuple(str(k) for k in key), number))


class MergeShard(beam.DoFn):
    """Merges a shard's parts, problem by problem, into its final files."""

    def __init__(self, context: StageContext) -> None:
        self._context = context

    def process(self, element: tuple[int, Any]) -> None:
        """(shard, anything) → nothing."""
        context, shard = self._context, element[0]
        sink = ShardSink(context.layout, context.stage, shard, context.footer())
        for table in ("problems", "solutions", "tests", "exclusions"):
            pieces: list[tuple[str, str]] = []
            for path in context.layout.glob(f"{context.work}/{table}/{shard:05d}/*.parquet"):
                ids = read_parquet(context.layout.fs, path, ["problem_id"]).column("problem_id").unique().to_pylist()
                pieces += [(problem_id, path) for problem_id in ids]
            for problem_id, path in sorted(pieces):
                wanted = [("problem_id", "=", problem_id)]
                sink.write(table, read_parquet(context.layout.fs, path, filters=wanted))
        sink.close()
