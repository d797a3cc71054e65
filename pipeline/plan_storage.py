"""Bytes of the tables that a build is expected to leave: rows × measured bytes a row, and footers × files."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pipeline.plan import FILTERS, SYNTHESIS, Measured, PartPlan, Totals, Work
from schemas.enums import Stage


@dataclass(frozen=True)
class TablePlan:
    """A table as it is expected to be; rows is None for the published data sets."""

    table: str
    rows: float | None
    bytes: float


@dataclass(frozen=True)
class Growth:
    """This source's figures ÷ the build's, one for each thing that rows go with.

    text: of tests, in characters. test_rows and text count original and expected new tests.
    """

    problems: float
    solutions: float
    test_rows: float
    text: float
    executions: float
    correct: float
    votes: float
    attempts: float
    other_language: int
    shards: float


def growth(
    likely: Totals, parts: Sequence[PartPlan], attempts: float, other_language: int, shards: int, like: Measured
) -> Growth:
    """How much larger this build is expected to be than that one. attempts: expected, of both campaigns."""
    expected = {(part.stage, part.work): part.expected or 0.0 for part in parts}

    def ratio(*keys: tuple[Stage, Work]) -> float:
        return _ratio(sum(expected.get(key, 0.0) for key in keys), sum(like.parts.get(key, 0.0) for key in keys))

    tested = (Stage.VALIDATE, *FILTERS)
    new = ratio(*((stage, Work.VERIFICATION) for stage in SYNTHESIS))  # both go with accepted attempts
    kept = sum(like.new_tests.values())
    return Growth(
        problems=_ratio(likely.problems, like.bound.problems),
        solutions=_ratio(likely.solutions, like.bound.solutions),
        test_rows=_ratio(likely.tests + kept * new, like.bound.tests + kept),
        text=_ratio(likely.test_chars + like.new_test_chars * new, like.bound.test_chars + like.new_test_chars),
        executions=ratio(*((stage, work) for stage in tested for work in (Work.CORRECT, Work.CONTROLS))),
        correct=ratio(*((stage, Work.CORRECT) for stage in tested)),
        votes=ratio(*((stage, Work.CONSENSUS) for stage in SYNTHESIS)),
        attempts=_ratio(attempts, sum(like.attempts.values())),
        other_language=other_language,
        shards=_ratio(shards, like.shards),
    )


def storage(grown: Growth, like: Measured) -> list[TablePlan]:
    """Every table that the build has, in order of its name, then `dataset`, the published configurations."""
    rows_by: Mapping[str, float] = {
        "solutions": grown.solutions,
        "tests": grown.test_rows,
        "executions": grown.executions,
        "consensus": grown.votes,
        "generator_attempts": grown.attempts,
        "generation_usage": grown.attempts,
        "reference_durations": grown.correct,
        "attrition": 1.0,  # stages × reasons, whatever the source
    }
    plans = []
    for name, own in sorted(like.tables.items()):
        rows = own.rows * rows_by.get(name, grown.problems)
        if name == "exclusions":  # mostly programs in other languages
            rows = (own.rows - like.other_language) * grown.problems + grown.other_language
        size = own.data_bytes * (grown.text if name == "tests" else _ratio(rows, own.rows))
        files = own.overhead_bytes * (1.0 if name == "attrition" else grown.shards)
        plans.append(TablePlan(name, rows, size + files))
    heavy = ("solutions", "tests", "reference_durations")  # what the published rows are made of
    before = sum(own.data_bytes + own.overhead_bytes for name, own in like.tables.items() if name in heavy)
    after = sum(plan.bytes for plan in plans if plan.table in heavy)
    return [*plans, TablePlan("dataset", None, like.dataset_bytes * _ratio(after, before))]


def _ratio(ours: float, theirs: float) -> float:
    """0 of nothing: what a build had none of gives nothing to scale."""
    return ours / theirs if theirs else 0.0
