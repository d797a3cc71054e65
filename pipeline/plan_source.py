"""Counting a source for `dmc-optim plan`: problem by problem, without reading a program."""

from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from dmc_optim.artifacts.source import SOURCE_SCHEMA, SourceRange, read_range
from dmc_optim.config import LANGUAGES
from pipeline.plan import ProblemCounts
from transforms.ingest import MalformedRow, named_files, problem_row, test_pairs

_LANGUAGE = pa.struct([("language", pa.list_(pa.int64()))])
_SOLUTIONS = ("solutions", "incorrect_solutions")
_UNUSED = ("cf_points", "is_description_translated", "untranslated_description")
COUNTED_SCHEMA = pa.schema(
    [
        pa.field(field.name, _LANGUAGE) if field.name in _SOLUTIONS else field
        for field in SOURCE_SCHEMA
        if field.name not in _UNUSED
    ]
)
"""What is read of a row: all that ingest looks at, but of solutions the language only."""


@dataclass
class SourceCounts:
    """rows: of the source, under its limit. malformed: rows that ingest refuses, as far as no program's text decides.

    problems: the others, solutions of the configured languages listed, duplicates included. other_language: entries
    in other languages, both labels.
    """

    rows: int = 0
    malformed: int = 0
    problems: list[ProblemCounts] = field(default_factory=list)
    other_language: int = 0


def count_source(ranges: list[SourceRange], languages: tuple[str, ...]) -> SourceCounts:
    """Read the counted columns of every range, a few rows in memory at a time. Raises SourceError."""
    codes = {LANGUAGES[name] for name in languages}
    found = SourceCounts()
    for span in ranges:
        for _, row in read_range(span, COUNTED_SCHEMA):
            found.rows += 1
            try:
                problem, other = _count(row, codes)
            except MalformedRow:
                found.malformed += 1
                continue
            found.problems.append(problem)
            found.other_language += other
    return found


def _count(row: dict[str, Any], codes: set[int]) -> tuple[ProblemCounts, int]:
    """(counts, solutions in other languages) of a row. Raises MalformedRow."""
    problem_row("", "", row)
    labels = [_languages(row[column], column) for column in _SOLUTIONS]
    tests = {pair for pairs in test_pairs(row).values() for pair in pairs}
    correct, incorrect = (sum(code in codes for code in own) for own in labels)
    counts = ProblemCounts(
        correct=correct,
        incorrect=incorrect,
        tests=len(tests),
        test_chars=sum(len(test_input) + len(output) for test_input, output in tests),
        uses_files=bool(named_files(row)),
    )
    return counts, sum(len(own) for own in labels) - correct - incorrect


def _languages(value: dict[str, Any] | None, column: str) -> list[int]:
    codes = None if value is None else value["language"]
    if codes is None or any(code is None for code in codes):
        raise MalformedRow(f"{column}.language: null")
    return list(codes)
