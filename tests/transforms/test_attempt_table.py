"""Attempts of an outdated run: taken over exactly where they answer the same questions with the same result."""

import json
from pathlib import Path
from typing import Any

import pytest

from dmc_optim.artifacts.layout import Layout
from dmc_optim.artifacts.sink import ParquetSink
from dmc_optim.config import BuildConfig
from schemas import TABLES
from schemas.enums import Category, Stage
from transforms.attempt_table import KNOWN_TESTS, collapse, known_digests, stored_attempts
from transforms.context import StageContext

KNOWN = {"k1", "k2"}
POOL = ("s1", "s2")
QUESTIONS = {0: ("good", POOL), 1: ("none", POOL)}


@pytest.fixture
def context(tmp_path: Path) -> StageContext:
    """An outdated run: attempt 0 accepted with 15 tests of which two are stored, attempt 1 without code."""
    found = StageContext(Layout(str(tmp_path)), Stage.SYNTHESIZE_OPTIMIZATION, "key", BuildConfig(), 1)
    footer = found.footer() | {KNOWN_TESTS: json.dumps(known_digests({"t/0": KNOWN}))}
    common = {"problem_id": "t/0", "campaign": "optimization"}
    attempt = {**common, "model": "m", "seed": None, "prompt_solution_id": None}
    tests, _ = collapse("t/0", Category.OPTIMIZATION, 0, [("1", "x", "edge"), ("2", "y", "large")], set())
    rows: dict[str, list[dict[str, Any]]] = {
        "generator_attempts": [
            attempt | {"attempt": 0, "completion": "good", "accepted": True, "reason": None}
            | {"n_tests": 15, "n_agreeing": 2},
            attempt | {"attempt": 1, "completion": "none", "accepted": False, "reason": "no_code"}
            | {"n_tests": 0, "n_agreeing": None},
        ],
        "consensus": [
            common | {"attempt": 0, "solution_id": s, "status": "success", "outputs_sha256": "d", "agreed": True}
            for s in POOL
        ],
        "tests": tests,
        "exclusions": [
            {"stage": found.stage, "entity": "attempt", "problem_id": "t/0", "entity_id": "1", "reason": "no_code"}
            | {"value": None, "threshold": None, "detail": "only words"}
        ],
    }  # fmt: skip
    for table, own in rows.items():
        path = found.layout.path("previous", found.stage, table, f"{found.stage}-00000.parquet")
        sink = ParquetSink(found.layout, path, TABLES[table].schema, footer)
        for row in own:
            sink.write(row)
        sink.close()
    return found


def test_the_same_questions_have_the_same_answers(context: StageContext) -> None:
    stored = stored_attempts(context, "t/0", QUESTIONS, KNOWN)
    assert stored is not None
    accepted, rejected = stored
    assert sorted(accepted["pairs"]) == [("1", "x", "edge"), ("2", "y", "large")]
    assert accepted["collapsed"] == 13
    assert [vote["solution_id"] for vote in accepted["votes"]] == list(POOL)
    assert rejected["detail"] == "only words"
    assert rejected["pairs"] == []


@pytest.mark.parametrize(
    "questions",
    [
        {},
        {0: ("good", POOL)},
        QUESTIONS | {2: ("more", POOL)},
        QUESTIONS | {0: ("other", POOL)},
        QUESTIONS | {0: ("good", ("s1", "s3"))},
    ],
    ids=["nothing asked", "one fewer", "one more", "another completion", "another pool"],
)
def test_other_questions_are_asked_again(
    context: StageContext, questions: dict[int, tuple[str, tuple[str, ...]]]
) -> None:
    assert stored_attempts(context, "t/0", questions, KNOWN) is None


def test_a_pool_that_did_not_vote_may_change(context: StageContext) -> None:
    assert stored_attempts(context, "t/0", QUESTIONS | {1: ("none", ("s3",))}, KNOWN) is not None


@pytest.mark.parametrize("known", [{"k1"}, {"k1", "k2", "k3"}, set()])
def test_pairs_that_collapsed_into_tests_that_are_gone_are_made_again(context: StageContext, known: set[str]) -> None:
    """Their texts were not stored, so only the generator can give them back."""
    assert stored_attempts(context, "t/0", QUESTIONS, known) is None


def test_another_envelope_is_another_question(context: StageContext) -> None:
    other = StageContext(context.layout, context.stage, "key", BuildConfig(seed=7), 1)
    assert stored_attempts(other, "t/0", QUESTIONS, KNOWN) is None
