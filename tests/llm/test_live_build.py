"""`dmc-optim build` with a live model: the server is the fault-injecting fake, programs run on the fake engine."""

import asyncio
import contextlib
import json
import threading
from dataclasses import replace

import pytest

from dmc_optim.config import BuildConfig, GenerationConfig, SynthesisConfig
from dmc_optim.errors import ConfigError, GenerationError
from dmc_optim.llm import campaign as campaign_module
from dmc_optim.llm.campaign import RetryPolicy
from tests.llm.fake_server import MODEL, FakeServer, default_answer

pytest.importorskip("apache_beam")

from pipeline.build import build
from pipeline.request import BuildRequest
from schemas.enums import Stage
from tests.pipeline import naive
from tests.pipeline.corpus import SourceProblem, program, write_source
from transforms.context import EngineSpec

CONFIG = BuildConfig(synthesis=SynthesisConfig(attempts=3), generation=GenerationConfig(timeout_s=5.0))
ADAPTIVE = replace(CONFIG, synthesis=SynthesisConfig(attempts=3, adaptive_attempts=2))


async def end_others():
    """Connections that are still open end with the server."""
    others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)


@contextlib.contextmanager
def running(server):
    """The server on a thread of its own; yields its specification."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    port = asyncio.run_coroutine_threadsafe(server.start(), loop).result(10)
    try:
        yield f"openai:http://127.0.0.1:{port}#{MODEL}"
    finally:
        asyncio.run_coroutine_threadsafe(server.stop(), loop).result(10)
        asyncio.run_coroutine_threadsafe(end_others(), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    problems = []
    for number in range(3):
        correct = [program(f"c{number}-{i}", duration=0.001 if number else 0.3) for i in range(6)]
        incorrect = [program(f"w{number}-{i}", wrong=0.9) for i in range(3)]
        incorrect += [program(f"sly{number}-{i}", wrong=0.001) for i in range(2 if number == 1 else 0)]
        problems.append(SourceProblem(f"P{number}", correct, incorrect))
    return write_source(tmp_path_factory.mktemp("source") / "train-00000-of-00001.parquet", problems)


def run(source, out, generator, config=CONFIG, through=Stage.SYNTHESIZE_OPTIMIZATION, **more):
    said = []
    request = BuildRequest(str(source), str(out), config, generator=generator, engine=EngineSpec("fake"), **more)
    result = build(replace(request, through=through), said.append)
    return result, said


def attempts(out, campaign):
    rows = [row for row in naive.rows(out, "generator_attempts") if row["campaign"] == campaign]
    return {(row["problem_id"], row["attempt"]): row for row in rows}


def asked(server_prompts, words):
    return [text for text in server_prompts if words in text]


def test_a_live_build_equals_the_build_from_its_recorded_answers(tmp_path, source):
    server = FakeServer(faults=dict.fromkeys(("busy", "drop", "garbage", "empty_choices"), 0.1), max_faults=2)
    with running(server) as spec:
        run(source, tmp_path / "live", spec)
        asked_once = server.sent["answer"]
        result, _ = run(source, tmp_path / "live", spec)
        assert not result.ran and server.sent["answer"] == asked_once == 15
    for campaign, n in (("correctness", 9), ("optimization", 6)):  # train/1 falls to its false positives between them
        rows = attempts(tmp_path / "live", campaign)
        assert len(rows) == n and all(row["accepted"] and row["model"] == MODEL for row in rows.values())
        assert [rows["train/0", i]["seed"] for i in range(3)] == [0, 1, 2]
    usage = naive.rows(tmp_path / "live", "generation_usage")
    assert len(usage) == 15 and {row["prompt_tokens"] for row in usage} == {100}
    recorded = f"recorded:{tmp_path / 'live' / 'completions' / 'correctness.jsonl'}"
    run(source, tmp_path / "again", recorded, through=Stage.SYNTHESIZE_CORRECTNESS)
    for table in ("generator_attempts", "consensus"):
        live = [row for row in naive.rows(tmp_path / "live", table) if row["campaign"] == "correctness"]
        assert naive.rows(tmp_path / "again", table) == live


def test_attempts_without_an_answer_stop_the_build_and_are_asked_again(tmp_path, source, monkeypatch):
    monkeypatch.setattr(campaign_module, "RetryPolicy", lambda: RetryPolicy(tries=2, first_s=0.01))
    broken = FakeServer(faults={"server_error": 0.6}, max_faults=10**6)
    with running(broken) as spec, pytest.raises(GenerationError) as caught:
        run(source, tmp_path / "out", spec, config=replace(CONFIG, seed=1), through=Stage.SYNTHESIZE_CORRECTNESS)
    message = str(caught.value)
    assert "attempts have no answer yet, the others are kept; run the same command again" in message
    assert message.count("\n") == 0 and not (tmp_path / "out" / "stages" / "synthesize_correctness.json").exists()
    kept = len((tmp_path / "out" / "completions" / "correctness.jsonl").read_text().splitlines())
    healthy = FakeServer()
    with running(healthy) as spec:
        run(source, tmp_path / "out", spec, config=replace(CONFIG, seed=1), through=Stage.SYNTHESIZE_CORRECTNESS)
    assert 0 < kept < 9 and healthy.sent["answer"] == 9 - kept
    assert len(attempts(tmp_path / "out", "correctness")) == 9


def test_an_answer_without_code_is_a_ledger_row_and_not_an_error(tmp_path, source):
    def answer(messages, seed):
        return "I would rather not." if seed == 1 else default_answer(messages, seed)

    with running(FakeServer(answer=answer)) as spec:
        run(source, tmp_path / "out", spec, through=Stage.SYNTHESIZE_CORRECTNESS)
    rows = attempts(tmp_path / "out", "correctness")
    assert [rows["train/0", i]["reason"] for i in range(3)] == [None, "no_code", None]


def test_a_model_that_cannot_be_asked_is_said_before_the_first_stage(tmp_path, source):
    with running(FakeServer()) as spec, pytest.raises(ConfigError, match="has no model 'other'"):
        run(source, tmp_path / "a", spec.replace(MODEL, "other"))
    with pytest.raises(GenerationError, match="no server answers"):
        run(source, tmp_path / "a", "openai:http://127.0.0.1:9#m")
    with pytest.raises(GenerationError, match="no server answers"):
        run(source, tmp_path / "a", None, judge="openai:http://127.0.0.1:9#m", through=Stage.DEDUP)
    with pytest.raises(ConfigError, match="vLLM is not installed here"):
        run(source, tmp_path / "a", "vllm:m")
    assert not list((tmp_path / "a").glob("stages/*"))
    run(source, tmp_path / "a", "openai:http://127.0.0.1:9#m", through=Stage.INGEST)


def test_a_remote_directory_takes_no_live_answers(source):
    said = "answers of a live model are appended to a local file"
    with running(FakeServer()) as spec, pytest.raises(ConfigError, match=said):
        run(source, "memory://live-build", spec, judge=spec, through=Stage.DEDUP)


def test_the_adaptive_option_asks_again_only_where_tests_fall_short(tmp_path, source):
    prompts = []

    def answer(messages, seed):
        prompts.append(messages[1]["content"])
        return default_answer(messages, seed)

    with running(FakeServer(answer=answer)) as spec:
        run(source, tmp_path / "plain", spec)
        assert len(prompts) == 15 and not asked(prompts, "What earlier inputs did")
        prompts.clear()
        run(source, tmp_path / "adaptive", spec, config=ADAPTIVE)
        assert len(prompts) == 15 + 2 + 2
        result, _ = run(source, tmp_path / "adaptive", spec, config=ADAPTIVE)
        assert not result.ran and len(prompts) == 19
    extra = {key for key in attempts(tmp_path / "adaptive", "correctness") if key[1] >= 3}
    assert extra == {("train/1", 3), ("train/1", 4)}
    shown = asked(prompts, "A wrong program that passes every test so far")
    assert len(shown) == 2 and {text.split("# sly1-")[1][0] for text in shown} == {"0", "1"}
    extra = {key for key in attempts(tmp_path / "adaptive", "optimization") if key[1] >= 3}
    assert extra == {("train/2", 3), ("train/2", 4)}
    for text in asked(prompts, "What earlier inputs did"):
        assert "Even the slowest input is too small" in text and "- `large`, " in text


def test_a_model_judges_statements_and_what_it_refuses_is_dropped(tmp_path, source):
    def answer(messages, seed):
        fine = "Problem P1." not in messages[1]["content"]
        return json.dumps({"well_formed": True, "complete": fine, "unambiguous": True, "reason": "" if fine else "No."})

    with running(FakeServer(answer=answer)) as spec:
        run(source, tmp_path / "out", None, through=Stage.DEDUP, judge=spec)
    rows = {row["problem_id"]: row for row in naive.rows(tmp_path / "out", "statement_quality")}
    assert [rows[f"train/{i}"]["complete"] for i in range(3)] == [True, False, True]
    (drop,) = [row for row in naive.rows(tmp_path / "out", "exclusions") if row["stage"] == "dedup"]
    assert (drop["problem_id"], drop["reason"], drop["detail"]) == (
        "train/1",
        "statement_rejected",
        "not complete: No.",
    )
