"""Attempts as stored rows: how accepted pairs collapse into tests, and when an outdated run's attempts still answer."""

from collections.abc import Mapping, Sequence
from typing import Any

from dmc_optim.artifacts.layout import read_parquet
from schemas.enums import AttemptReason, Category
from transforms.context import StageContext
from transforms.execution import same_envelope
from transforms.ingest import test_id, test_row

UNSETTLED = {AttemptReason.INFRASTRUCTURE.value, AttemptReason.NO_COMPLETION.value}


def collapse(
    problem_id: str, category: str, attempt: int, pairs: Sequence[tuple[str, str, str]], known: set[str]
) -> tuple[list[dict[str, Any]], int]:
    """Rows of `tests` for (input, output, method) not known yet, and how many were; `known` grows."""
    created = []
    for test_input, output, method in pairs:
        key = test_id(test_input, output)
        if key in known:
            continue
        known.add(key)
        created.append(test_row(problem_id, key, Category(category), test_input, output, attempt, method))
    return created, len(pairs) - len(created)


def stored_attempts(
    context: StageContext, problem_id: str, questions: Mapping[int, tuple[str, tuple[str, ...]]] | None
) -> list[dict[str, Any]] | None:
    """Attempts of an outdated run of this stage, if all of them still answer the same questions; else None.

    questions: {attempt: (completion, pool)}; None skips the comparison (it was made when the stage was planned).
    Same question: same completion, and the same voting pool wherever it came to a vote.
    """
    attempts = _previous(context, "generator_attempts", problem_id)
    if not attempts:
        return None
    votes: dict[int, list[dict[str, Any]]] = {}
    for vote in _previous(context, "consensus", problem_id):
        votes.setdefault(vote["attempt"], []).append(vote)
    if questions is not None and not _same(attempts, votes, questions):
        return None
    tests = _previous(context, "tests", problem_id)
    pairs: dict[int, list[tuple[str, str, str]]] = {}
    for row in tests:
        pairs.setdefault(row["generator_attempt"], []).append((row["input"], row["output"], row["generator_method"]))
    details = {row["entity_id"]: row["detail"] for row in _previous(context, "exclusions", problem_id)}
    usage = {row["attempt"]: row for row in _previous(context, "generation_usage", problem_id)}
    kept = []
    for row in sorted(attempts, key=lambda row: row["attempt"]):
        own = row["attempt"]
        found = pairs.get(own, [])
        kept.append(
            {
                "row": row,
                "detail": details.get(str(own), ""),
                # Pairs that had collapsed are not stored again; they count as duplicates once more.
                "pairs": found,
                "collapsed": row["n_tests"] - len(found),
                "votes": votes.get(own, []),
                "usage": usage.get(own),
            }
        )
    return kept


def _same(
    attempts: Sequence[dict[str, Any]],
    votes: Mapping[int, Sequence[dict[str, Any]]],
    questions: Mapping[int, tuple[str, tuple[str, ...]]],
) -> bool:
    if {row["attempt"] for row in attempts} != set(questions):
        return False
    for row in attempts:
        completion, pool = questions[row["attempt"]]
        if row["completion"] != completion or row["reason"] in UNSETTLED:
            return False
        voted = sorted(vote["solution_id"] for vote in votes.get(row["attempt"], []))
        if voted and voted != sorted(pool):
            return False
        if row["reason"] == AttemptReason.TOO_FEW_SOLUTIONS and len(pool) >= 2:
            return False
    return True


def _previous(context: StageContext, table: str, problem_id: str) -> list[dict[str, Any]]:
    layout, shard = context.layout, context.shard_of(problem_id)
    rows: list[dict[str, Any]] = []
    for path in layout.glob(f"previous/{context.stage}/{table}/*-{shard:05d}.parquet"):
        if same_envelope(context, path):
            rows += read_parquet(layout.fs, path, filters=[("problem_id", "=", problem_id)]).to_pylist()
    return rows
