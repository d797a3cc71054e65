"""Attempts as stored rows: how accepted pairs collapse into tests, and when an outdated run's attempts still answer."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from dmc_optim.artifacts.layout import read_footer, read_parquet
from dmc_optim.config import digest
from schemas.enums import AttemptReason, Category
from transforms.context import StageContext
from transforms.ingest import test_id, test_row

KNOWN_TESTS = "known_tests"  # footer entry: {problem: digest of the tests that earlier stages had}
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


def known_tests(context: StageContext, shard: int, problem_id: str | None = None) -> dict[str, set[str]]:
    """{problem: ids of all tests that earlier stages have, dropped ones too}: what new pairs collapse into."""
    columns = ["problem_id", "test_id"]
    found: dict[str, set[str]] = {}
    for row in context.layout.rows(
        "tests", stages=context.earlier, shard=shard, problem_id=problem_id, columns=columns
    ):
        found.setdefault(row["problem_id"], set()).add(row["test_id"])
    return found


def known_digests(known: Mapping[str, set[str]]) -> dict[str, str]:
    """A digest a problem, for the footer KNOWN_TESTS of the stage's files."""
    return {problem_id: digest(sorted(tests)) for problem_id, tests in known.items()}


def stored_attempts(
    context: StageContext, problem_id: str, questions: Mapping[int, tuple[str, tuple[str, ...]]], known: set[str]
) -> list[dict[str, Any]] | None:
    """Attempts of an outdated run of this stage, if all of them still answer the same questions; else None.

    questions: {attempt: (completion, pool)}. known: tests of earlier stages. Same question: same completion, the
    same voting pool wherever it came to a vote, and the same known tests, as pairs that collapsed into one of them
    are not stored.
    """
    attempts = _previous(context, "generator_attempts", problem_id, known)
    if not attempts:
        return None
    votes: dict[int, list[dict[str, Any]]] = {}
    for vote in _previous(context, "consensus", problem_id):
        votes.setdefault(vote["attempt"], []).append(vote)
    if not _same(attempts, votes, questions):
        return None
    pairs: dict[int, list[tuple[str, str, str]]] = {}
    for row in _previous(context, "tests", problem_id):
        pairs.setdefault(row["generator_attempt"], []).append((row["input"], row["output"], row["generator_method"]))
    details = {row["entity_id"]: row["detail"] for row in _previous(context, "exclusions", problem_id)}
    usage = {row["attempt"]: row for row in _previous(context, "generation_usage", problem_id)}
    return [
        {
            "row": row,
            "detail": details.get(str(row["attempt"]), ""),
            # Pairs that had collapsed are not stored again; they count as duplicates once more.
            "pairs": pairs.get(row["attempt"], []),
            "collapsed": row["n_tests"] - len(pairs.get(row["attempt"], [])),
            "votes": votes.get(row["attempt"], []),
            "usage": usage.get(row["attempt"]),
        }
        for row in sorted(attempts, key=lambda row: row["attempt"])
    ]


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


def _previous(
    context: StageContext, table: str, problem_id: str, known: set[str] | None = None
) -> list[dict[str, Any]]:
    """Rows of an outdated run under this build's envelope; those of a file with other known tests are left out."""
    layout, shard = context.layout, context.shard_of(problem_id)
    rows: list[dict[str, Any]] = []
    for path in layout.glob(f"previous/{context.stage}/{table}/*-{shard:05d}.parquet"):
        footer = read_footer(layout, path)
        if footer.get("envelope") != context.footer()["envelope"]:
            continue
        before = json.loads(footer.get(KNOWN_TESTS, "{}")).get(problem_id)
        if known is None or before == digest(sorted(known)):
            rows += read_parquet(layout.fs, path, filters=[("problem_id", "=", problem_id)]).to_pylist()
    return rows
