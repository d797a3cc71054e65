"""A build that is asked again with something changed gives the rows that a new directory would have."""

import errno
import json
import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from dmc_optim.config import BuildConfig, FilterabilityConfig
from dmc_optim.errors import ConfigError, SourceError, StageError
from pipeline.build import build
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


def manifest(out: Path) -> dict[str, object]:
    found: dict[str, object] = json.loads((out / "manifest.json").read_text())
    return found


def test_a_directory_never_mixes_two_configurations(asked: BuildRequest, tmp_path: Path) -> None:
    """`--through` with another threshold takes later stages back; with the same one it leaves them alone."""
    generator = recorded(tmp_path / "a.jsonl", {p.name: [GENERATOR, GENERATOR] for p in PROBLEMS})
    whole = replace(asked, generator=generator, through=Stage.DATASETS)
    out = tmp_path / "out"
    run(whole)
    assert manifest(out)["complete"]
    before = content(out)
    said: list[str] = []
    early = replace(whole, generator=None, through=Stage.VALIDATE)  # what later stages read need not be repeated
    assert build(early, said.append).ran == []
    assert said == []
    assert manifest(out)["complete"]
    assert content(out) == before
    config = BuildConfig(filterability=FilterabilityConfig(robust_cv=0.9))
    assert build(replace(early, config=config), said.append).ran == []
    assert said == [
        "note: filterability and what follows were decided otherwise; build without --through decides them again"
    ]
    assert not manifest(out)["complete"]
    assert set(manifest(out)["stages"]) == set(Stage) - {"filterability", "split", "datasets"}  # type: ignore[call-overload]
    assert naive.rows(out, "filterability") == []
    assert run(replace(whole, config=config)).ran == ["filterability", "split", "datasets"]
    assert not (out / "previous").exists()


@pytest.mark.parametrize("instant", ["record", "cleaning"])
def test_a_kill_around_the_record_leaves_nothing_behind(asked: BuildRequest, tmp_path: Path, instant: str) -> None:
    out = tmp_path / "out"
    asked = replace(asked, through=Stage.CONTROLS)
    with pytest.MonkeyPatch.context() as patch:
        if instant == "record":
            patch.setattr("pipeline.resume.content", killed)
        else:
            patch.setattr("pipeline.resume.clean", killed)
        with pytest.raises(Killed):
            run(asked)
    assert (out / "stages" / "ingest.json").exists() == (instant == "cleaning")
    assert any((out / "work").iterdir())
    (out / "tables" / "tests" / "ingest-00000.parquet.0.tmp").write_bytes(b"half")
    again = run(asked)
    assert again.skipped == (["ingest"] if instant == "cleaning" else [])
    assert not (out / "work").exists()
    assert not list(out.rglob("*.tmp"))
    run(replace(asked, out=str(tmp_path / "new")))
    assert content(out) == content(tmp_path / "new")


class Killed(BaseException):
    """As if the process had ended here."""


def killed(*arguments: object) -> None:
    raise Killed


def test_a_full_disk_is_one_line_and_the_next_run_goes_on(asked: BuildRequest, tmp_path: Path) -> None:
    def full(*arguments: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    asked = replace(asked, through=Stage.CONTROLS)
    for where in ("dmc_optim.artifacts.sink.ParquetSink._flush", "dmc_optim.artifacts.layout.Layout.write_bytes"):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(where, full)
            with pytest.raises(StageError, match=r"No space left on device.*run again to continue") as caught:
                run(asked)
        assert "\n" not in str(caught.value)
    assert run(asked).ran == ["ingest", "dedup", "controls"]


def test_published_files_that_are_gone_are_made_again(asked: BuildRequest, tmp_path: Path) -> None:
    generator = recorded(tmp_path / "a.jsonl", {p.name: [GENERATOR, GENERATOR] for p in PROBLEMS})
    whole = replace(asked, generator=generator, through=Stage.DATASETS)
    run(whole)
    dataset = tmp_path / "out" / "dataset"
    before = {path: path.read_bytes() for path in dataset.rglob("*.parquet")}
    next((dataset / "cleaned").glob("*.parquet")).unlink()
    assert run(whole).ran == ["datasets"]
    shutil.rmtree(dataset)
    assert run(whole).ran == ["datasets"]
    assert {path: path.read_bytes() for path in dataset.rglob("*.parquet")} == before
    assert (dataset / "README.md").exists()
    assert run(whole).ran == []


@pytest.mark.parametrize("text", ["{}", '{"key": null}', '{"stage": "controls"}'])
def test_a_record_that_says_nothing_is_no_record(asked: BuildRequest, tmp_path: Path, text: str) -> None:
    asked = replace(asked, through=Stage.CONTROLS)
    run(asked)
    (tmp_path / "out" / "stages" / "controls.json").write_text(text)
    assert run(asked).ran == ["controls"]


def test_what_cannot_be_used_is_said_before_anything_is_written(asked: BuildRequest, tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"none\.jsonl: cannot be read"):
        run(replace(asked, generator=f"recorded:{tmp_path}/none.jsonl"))
    with pytest.raises(ConfigError, match="execution service 'carrier-pigeon' is unknown"):
        run(replace(asked, engine=EngineSpec("carrier-pigeon")))
    assert not (tmp_path / "out").exists()


def test_answers_that_the_build_does_not_use_are_said(asked: BuildRequest, tmp_path: Path) -> None:
    generator = recorded(tmp_path / "a.jsonl", {"P0": ["x"] * 12, "Q": ["x"]})
    result = run(replace(asked, generator=generator, through=Stage.INGEST))
    assert result.warnings == [
        f"{tmp_path}/a.jsonl: 1 problems are not in the source, their answers wait: Q",
        f"{tmp_path}/a.jsonl: 2 answers are numbered 10 or higher, over synthesis.attempts",
    ]
