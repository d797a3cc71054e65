"""Recorded completions: what is accepted, how attempts are found, and how errors read."""

import json
import pickle
from pathlib import Path

import pytest

from dmc_optim.errors import SourceError
from dmc_optim.llm.extract import extract_generator
from dmc_optim.llm.recorded import RecordedCompletions

SHARED = Path(__file__).resolve().parents[3] / "shared" / "data" / "recorded_generators.jsonl"


def write(path: Path, *rows: object) -> Path:
    path.write_text("".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows))
    return path


def row(attempt=0, completion="x", **fields):
    return {"name": "sum", "campaign": None, "attempt": attempt, "completion": completion} | fields


def texts(recorded, problem_id="train/0", name="sum", campaign="correctness"):
    return [(a.attempt, a.completion) for a in recorded.attempts(problem_id, name, campaign)]


def test_attempts_come_sorted_and_null_campaign_serves_both(tmp_path):
    recorded = RecordedCompletions.load(write(tmp_path / "r.jsonl", row(2, "c"), row(0, "a"), row(1, "b")))
    assert texts(recorded) == [(0, "a"), (1, "b"), (2, "c")] == texts(recorded, campaign="optimization")
    assert texts(recorded, name="other") == [] and len(recorded) == 3


def test_the_more_specific_row_wins(tmp_path):
    recorded = RecordedCompletions.load(
        write(
            tmp_path / "r.jsonl",
            row(0, "by id", problem_id="train/0", name=None),
            row(0, "by name"),
            row(1, "both campaigns"),
            row(1, "this campaign", campaign="optimization"),
        )
    )
    assert texts(recorded, campaign="optimization") == [(0, "by id"), (1, "this campaign")]
    assert texts(recorded) == [(0, "by id"), (1, "both campaigns")]
    assert texts(recorded, problem_id="train/1") == [(0, "by name"), (1, "both campaigns")]


def test_an_id_beats_a_name_in_the_same_row(tmp_path):
    recorded = RecordedCompletions.load(write(tmp_path / "r.jsonl", row(problem_id="train/7")))
    assert texts(recorded, problem_id="train/7", name="anything") == [(0, "x")]
    assert texts(recorded, problem_id="train/0", name="sum") == []


def test_optional_fields_are_kept(tmp_path):
    usage = {"completion_tokens": 7}
    given = row(model="m", seed=4, usage=usage, reasoning="hm", prompt_solution_id="ab", finish_reason="stop")
    (attempt,) = RecordedCompletions.load(write(tmp_path / "r.jsonl", given)).attempts("", "sum", "correctness")
    assert (attempt.model, attempt.seed, attempt.usage, attempt.reasoning) == ("m", 4, usage, "hm")
    assert (attempt.prompt_solution_id, attempt.finish_reason) == ("ab", "stop")


def test_unknown_problems_are_told(tmp_path):
    recorded = RecordedCompletions.load(write(tmp_path / "r.jsonl", row(), row(problem_id="t/3"), row(name="zip")))
    assert recorded.unknown(["t/1"], ["sum"]) == ["t/3", "zip"]
    assert recorded.unknown(["t/3"], ["sum", "zip"]) == []


def test_digest_ignores_order_and_usage_and_sees_texts(tmp_path):
    a, b = row(0, "a"), row(1, "b")
    digest = RecordedCompletions.load(write(tmp_path / "1", a, b)).digest
    assert RecordedCompletions.load(write(tmp_path / "2", b, a | {"usage": {"latency_s": 1.0}}, a)).digest == digest
    assert RecordedCompletions.load(write(tmp_path / "3", a, b | {"completion": "c"})).digest != digest


def test_survives_pickling_and_wide_characters(tmp_path):
    path = write(tmp_path / "r.jsonl", row(0, "наборы\n→"), row(1, "b"))
    recorded = pickle.loads(pickle.dumps(RecordedCompletions.load(path)))
    assert texts(recorded) == [(0, "наборы\n→"), (1, "b")]


def test_an_answer_to_a_changed_request_replaces_the_earlier_one(tmp_path):
    first, second = row(0, "a", request_key="k1"), row(0, "b", request_key="k2")
    assert texts(RecordedCompletions.load(write(tmp_path / "r.jsonl", first, second, first | {"attempt": 1}))) == [
        (0, "b"),
        (1, "a"),
    ]


BAD = {
    "json": ("{", "not a JSON object"),
    "list": ("[1]", "not a JSON object; write one object a line"),
    "deep": ("[" * 100_000, "not a JSON object"),
    "no_completion": (row(completion=None), "`completion` is missing; it must be a string"),
    "completion_type": (row(completion=3), "`completion` is 3; it must be a string"),
    "no_attempt": (row(attempt=None), "`attempt` is missing"),
    "negative": (row(attempt=-1), "`attempt` is -1; it must be an integer from 0"),
    "bool": (row(attempt=True), "`attempt` is true"),
    "campaign": (row(campaign="original"), '`campaign` is "original"; it must be correctness, optimization or null'),
    "campaign_type": (row(campaign=["correctness"]), "`campaign` is"),
    "anonymous": (row(name=None), "neither `problem_id` nor `name`; add one of them"),
    "empty_name": (row(name=""), '`name` is ""'),
    "seed": (row(seed="one"), '`seed` is "one"; it must be an integer'),
    "usage": (row(usage=[1]), "`usage` is [1]; it must be an object"),
    "model": (row(model=1), "`model` is 1; it must be a string"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_row_is_one_clear_line_with_file_and_line(tmp_path, name):
    bad, words = BAD[name]
    path = write(tmp_path / "r.jsonl", row(), "", bad)
    with pytest.raises(SourceError) as caught:
        RecordedCompletions.load(path)
    message = str(caught.value)
    assert message.startswith(f"{path}:3: ") and words in message and "\n" not in message and len(message) < 400


def test_two_answers_to_one_attempt_are_refused_and_a_repeated_row_is_not(tmp_path):
    RecordedCompletions.load(write(tmp_path / "r.jsonl", row(), row()))
    with pytest.raises(SourceError, match=r":2: attempt 0 of sum is already on line 1 with another completion"):
        RecordedCompletions.load(write(tmp_path / "r.jsonl", row(), row(completion="y")))


def test_unreadable_files_are_one_clear_line(tmp_path):
    for path, words in [(tmp_path / "absent", "cannot be read"), (tmp_path, "is a directory")]:
        with pytest.raises(SourceError, match=words):
            RecordedCompletions.load(path)
    with pytest.raises(SourceError, match="no completions"):
        RecordedCompletions.load(write(tmp_path / "empty.jsonl", ""))
    cut = write(tmp_path / "cut.jsonl", row())
    cut.write_text(cut.read_text() + '{"name": "su')
    with pytest.raises(SourceError, match="ends inside this line"):
        RecordedCompletions.load(cut)


def test_a_file_that_changes_under_us_is_an_error_not_another_answer(tmp_path):
    path = write(tmp_path / "r.jsonl", row(0, "a"), row(1, "b"))
    recorded = RecordedCompletions.load(path)
    write(path, row(0, "z"), row(1, "b"))
    with pytest.raises(SourceError, match="changed while"):
        recorded.attempts("", "sum", "correctness")


@pytest.mark.skipif(not SHARED.exists(), reason="no recorded generators of real problems here")
def test_real_recorded_generators_all_yield_a_class():
    recorded = RecordedCompletions.load(SHARED)
    names = {name for _, name in recorded._by_problem}
    assert (len(recorded), len(names)) == (168, 42)
    for name in names:
        answers = recorded.attempts("", name, "optimization")
        assert [a.attempt for a in answers] == [0, 1, 2, 3]
        assert all(extract_generator(a.completion).source for a in answers)
