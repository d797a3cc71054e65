"""A build that is asked again with something changed gives the rows that a new directory would have."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from dmc_optim.config import BuildConfig
from pipeline.request import BuildRequest
from schemas.enums import Stage
from tests.pipeline import naive
from tests.pipeline.corpus import GENERATOR, SourceProblem, program, write_source
from tests.pipeline.test_build_fake import content, run
from transforms.context import EngineSpec

PROBLEMS = [
    SourceProblem(f"P{n}", [program(f"c{n}{i}") for i in range(5)], [program(f"w{n}", wrong=1)]) for n in range(3)
]


def recorded(file: Path, answers: dict[str, list[str]]) -> str:
    rows = [
        {"name": name, "campaign": None, "attempt": attempt, "completion": text}
        for name, texts in answers.items()
        for attempt, text in enumerate(texts)
    ]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return f"recorded:{file}"


@pytest.fixture
def asked(tmp_path: Path) -> BuildRequest:
    source = write_source(tmp_path / "train.parquet", PROBLEMS)
    return BuildRequest(
        source=str(source),
        out=str(tmp_path / "out"),
        config=BuildConfig(),
        engine=EngineSpec("fake"),
        through=Stage.SYNTHESIZE_OPTIMIZATION,
    )


def test_answers_that_are_taken_away_leave_no_tests(asked: BuildRequest, tmp_path: Path) -> None:
    all_of_them = recorded(tmp_path / "a.jsonl", {p.name: [GENERATOR, "no code"] for p in PROBLEMS})
    fewer = recorded(tmp_path / "b.jsonl", {"P0": [GENERATOR, "no code"], "P2": ["no code", GENERATOR]})
    run(replace(asked, generator=all_of_them))
    assert {row["problem_id"] for row in naive.rows(tmp_path / "out", "generator_attempts")} == {
        "train/0",
        "train/1",
        "train/2",
    }
    run(replace(asked, generator=fewer))
    run(replace(asked, generator=fewer, out=str(tmp_path / "new")))
    assert content(tmp_path / "out") == content(tmp_path / "new")
    run(replace(asked, generator=None))
    assert naive.rows(tmp_path / "out", "generator_attempts") == []
    assert {row["category"] for row in naive.rows(tmp_path / "out", "tests")} == {"public"}


def test_text_that_no_file_can_hold_is_read_around(asked: BuildRequest, tmp_path: Path) -> None:
    """JSON may carry lone surrogates; so may the usage of an answer be anything."""
    generator = recorded(tmp_path / "a.jsonl", {"P0": ["\ud83d\n" + GENERATOR + "\n\udc00", "\ud83d"]})
    usage = {"prompt_tokens": "7", "latency_s": 0.5}
    rows = [json.loads(line) | {"usage": usage} for line in (tmp_path / "a.jsonl").read_text().splitlines()]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    benchmark = tmp_path / "b.jsonl"
    benchmark.write_text(json.dumps({"statement": "\ud800 lone", "id": "\udc00"}) + "\n")
    run(replace(asked, generator=generator, benchmarks=(str(benchmark),)))
    attempts = naive.rows(tmp_path / "out", "generator_attempts")
    assert [(row["accepted"], row["reason"]) for row in attempts if row["campaign"] == "correctness"] == [
        (True, None),
        (False, "no_code"),
    ]
    assert attempts[0]["completion"].startswith("\ufffd")
    stored = naive.rows(tmp_path / "out", "generation_usage")
    assert {(row["prompt_tokens"], row["latency_s"]) for row in stored} == {(None, 0.5)}
