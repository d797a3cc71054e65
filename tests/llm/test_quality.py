"""Statement verdicts: strict parsing, asking again, resume."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dmc_optim.errors import GenerationBusyError
from dmc_optim.llm.backends.fake import FakeBackend
from dmc_optim.llm.campaign import RetryPolicy
from dmc_optim.llm.quality import StatementVerdict, judge, judge_statements, parse_verdict

GOOD = {"well_formed": True, "complete": True, "unambiguous": True, "reason": ""}
BAD = GOOD | {"complete": False, "reason": "The figure\n is missing."}
NO_TRIES = RetryPolicy(tries=1, first_s=0.0)


@pytest.mark.parametrize(
    "text",
    [
        json.dumps(GOOD),
        f"```json\n{json.dumps(GOOD)}\n```",
        f"<think>hm {{}}</think>\n{json.dumps(GOOD)}\n",
        f"hm</think>```\n{json.dumps(GOOD)}```",
    ],
    ids=["plain", "fence", "reasoning", "template"],
)
def test_a_verdict_is_read(text):
    assert parse_verdict(text, "m") == StatementVerdict(True, True, True, "", "m")


def test_a_refusal_says_what_is_wrong():
    verdict = parse_verdict(json.dumps(BAD))
    assert not verdict.accepted and verdict.detail == "not complete: The figure is missing."
    assert StatementVerdict(False, True, False).detail == "not well_formed, not unambiguous"
    assert StatementVerdict(True, True, True).accepted


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "not a JSON object"),
        ("Yes, it is fine.", "not a JSON object"),
        (f"Here it is: {json.dumps(GOOD)}", "not a JSON object"),
        (f"{json.dumps(GOOD)}\n{json.dumps(BAD)}", "not a JSON object"),
        ("[" * 100_000, "characters"),
        ("[" * 60_000, "not a JSON object"),
        ("[true, true, true]", "not a JSON object"),
        (json.dumps({k: v for k, v in GOOD.items() if k != "complete"}), "complete is neither"),
        (json.dumps(GOOD | {"complete": "true"}), "complete is neither"),
        (json.dumps(GOOD | {"well_formed": 1}), "well_formed is neither"),
        (json.dumps(GOOD | {"score": 1}), "unknown field 'score'"),
        (json.dumps(GOOD | {"reason": [1]}), "reason is no string"),
        ("<think>the statement", "ends inside its reasoning"),
        ('{"well_formed": true, "complete', "not a JSON object"),
    ],
)
def test_anything_else_is_no_verdict(text, words):
    assert words in parse_verdict(text)


@given(st.text())
def test_any_text_gives_a_verdict_or_a_line(text):
    found = parse_verdict(text)
    assert isinstance(found, StatementVerdict) or (found and "\n" not in found)


def test_verdicts_by_problem_and_the_second_run_asks_nothing(tmp_path):
    def answer(request):
        return json.dumps(BAD if "See the image" in request.prompt.messages.messages[1]["content"] else GOOD)

    statements = [("t/0", "Add two numbers."), ("t/1", "See the image.")]
    judgement = judge(statements, FakeBackend(answer), tmp_path / "q.jsonl")
    assert {p: v.accepted for p, v in judgement.verdicts.items()} == {"t/0": True, "t/1": False}
    again = FakeBackend(answer)
    assert judge(statements, again, tmp_path / "q.jsonl").verdicts == judgement.verdicts and again.calls == 0


def test_an_answer_that_is_no_verdict_is_asked_again_with_another_seed(tmp_path):
    asked = []

    def answer(request):
        asked.append((request.attempt, request.seed, request.sampling.temperature))
        return json.dumps(GOOD) if request.attempt == 2 else "it is fine"

    judgement = judge([("t/0", "A.")], FakeBackend(answer), tmp_path / "q.jsonl", seed=5)
    assert judgement.verdicts["t/0"].accepted and not judgement.unjudged
    assert asked == [(0, 5, 0.0), (1, 6, 1.0), (2, 7, 1.0)]


def test_no_verdict_in_the_end_is_no_refusal(tmp_path):
    judgement = judge([("t/0", "A.")], FakeBackend(lambda request: "well"), tmp_path / "q.jsonl")
    assert judgement.verdicts == {} and judgement.unjudged == {"t/0": "the answer is not a JSON object"}
    busy = FakeBackend(lambda request: GenerationBusyError("busy", "busy"))
    judgement = judge([("t/0", "A.")], busy, tmp_path / "r.jsonl", retry=NO_TRIES)
    assert judgement.verdicts == {} and judgement.unjudged == {"t/0": "no_answer"}
    assert (
        judge([("t/0", "A.")], FakeBackend(lambda r: json.dumps(GOOD)), tmp_path / "r.jsonl").verdicts["t/0"].accepted
    )


def test_rows_of_the_table_and_lines_for_a_person(tmp_path):
    from schemas import TABLES

    def answer(request):
        text = request.prompt.messages.messages[1]["content"]
        return "hm" if "Third" in text else json.dumps(BAD if "Second" in text else GOOD)

    statements = {"t/0": "First.", "t/1": "Second.", "t/2": "Third."}
    rows, lines = judge_statements(statements, FakeBackend(answer, model="m"), tmp_path / "q.jsonl")
    assert list(rows) == list(statements)
    assert set(rows["t/0"]) == set(TABLES["statement_quality"].column_names)
    assert [rows[p]["complete"] for p in statements] == [True, False, None]
    assert rows["t/0"]["reason"] is None and rows["t/1"]["reason"] == "The figure is missing."
    assert rows["t/2"]["reason"] == "the answer is not a JSON object" and rows["t/2"]["model"] == "m"
    assert lines[-1] == "statements: 2 judged, 1 refused, 1 without a verdict (kept)"
