"""The HTTP backend against a server that misbehaves in every way; faults are drawn from a seed."""

import asyncio
import gc
import itertools
import socket

import pytest

from dmc_optim.errors import ConfigError, GenerationBusyError, GenerationError, GenerationRejectedError
from dmc_optim.llm.backends import CompletionRequest, Sampling
from dmc_optim.llm.backends.openai import OpenAIBackend, base_url
from dmc_optim.llm.campaign import Campaign, RetryPolicy
from dmc_optim.llm.prompts import Messages, Prompt
from dmc_optim.llm.recorded import RecordedCompletions
from tests.llm.conftest import make_prompts
from tests.llm.fake_server import FAULTS, MODEL, FakeServer, default_answer

QUICK = RetryPolicy(tries=8, first_s=0.001, longest_s=0.01)


def free_port():
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


async def campaign(path, servers, prompts, k=3, concurrency=16, timeout_s=60.0, max_bytes=1 << 20, model=MODEL):
    """One run against started servers: (report, backend)."""
    ports = [await server.start() for server in servers]
    urls = [f"http://127.0.0.1:{port}" for port in ports]
    backend = OpenAIBackend(urls, model, timeout_s=timeout_s, max_bytes=max_bytes, longest_rest_s=0.05)
    try:
        return await Campaign(backend, path, k=k, concurrency=concurrency, retry=QUICK).run(prompts)
    finally:
        for server in servers:
            await server.stop()


def run(*args, **kwargs):
    return asyncio.run(campaign(*args, **kwargs))


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """Digest of 20 × 3 attempts answered by a server without faults."""
    path = tmp_path_factory.mktemp("calm") / "c.jsonl"
    assert run(path, [FakeServer()], make_prompts(20)).answered == 60
    return RecordedCompletions.load(path).digest


@pytest.mark.parametrize("fault", FAULTS)
def test_each_fault_costs_tries_and_no_answer(tmp_path, undisturbed, fault):
    server = FakeServer(faults={fault: 0.4}, max_faults=3)
    timeout_s = 1.0 if fault == "endless" else 60.0
    report = run(tmp_path / "c.jsonl", [server], make_prompts(20), max_bytes=200_000, timeout_s=timeout_s)
    assert (report.answered, report.failed) == (60, 0)
    assert RecordedCompletions.load(tmp_path / "c.jsonl").digest == undisturbed
    kinds = {
        "busy": {"busy"},
        "server_error": {"server_error"},
        "drop": {"connection"},
        "drop_midway": {"connection"},
        "empty_choices": {"empty_choices"},
        "endless": {"timeout"},
        "flood": {"too_long"},
        "garbage": {"garbage"},
        "half_json": {"garbage"},
    }
    assert server.sent[fault] > 5 and set(report.retries) == kinds[fault], report.retries


def test_all_faults_at_once_and_three_servers(tmp_path, undisturbed):
    servers = [FakeServer(faults=dict.fromkeys(FAULTS, 0.05), seed=i, max_faults=2) for i in range(3)]
    report = run(tmp_path / "c.jsonl", servers, make_prompts(20), max_bytes=200_000, timeout_s=2.0)
    assert report.answered == 60 and RecordedCompletions.load(tmp_path / "c.jsonl").digest == undisturbed
    assert all(server.sent["answer"] > 5 for server in servers)


def test_a_storm_of_429_is_weathered(tmp_path, undisturbed):
    server = FakeServer(slots=2, latency_s=0.002, queue=2)
    report = run(tmp_path / "c.jsonl", [server], make_prompts(20), concurrency=8)
    assert report.retries["busy"] > 0
    assert report.answered + report.failed == 60
    run(tmp_path / "c.jsonl", [FakeServer()], make_prompts(20))
    assert RecordedCompletions.load(tmp_path / "c.jsonl").digest == undisturbed


def test_the_server_is_kept_full_and_no_prompt_is_held(tmp_path):
    """The functional half of bench/bench_llm.py."""
    alive, answered = [], itertools.count(1)

    def count_prompts():
        gc.collect()
        return sum(isinstance(thing, Prompt) for thing in gc.get_objects())

    def answer(messages, seed):
        if next(answered) % 150 == 0:
            alive.append(count_prompts())
        return default_answer(messages, seed)

    before = count_prompts()
    server = FakeServer(slots=16, latency_s=0.01, answer=answer)
    report = run(tmp_path / "c.jsonl", [server], make_prompts(600), k=1, concurrency=20)
    assert report.answered == 600 and server.full > 0
    assert len(alive) == 4 and max(alive) - before <= 22


def test_load_goes_to_the_server_that_is_less_busy(tmp_path):
    fast, slow = FakeServer(), FakeServer(latency_s=1.5)
    run(tmp_path / "c.jsonl", [fast, slow], make_prompts(40), k=1, concurrency=4)
    assert fast.sent["answer"] > 3 * slow.sent["answer"] > 0


def test_a_dead_replica_does_not_stop_the_others(tmp_path, undisturbed):
    async def with_dead_replica():
        server = FakeServer()
        urls = [f"http://127.0.0.1:{await server.start()}", f"http://127.0.0.1:{free_port()}"]
        report = await Campaign(OpenAIBackend(urls, MODEL), tmp_path / "c.jsonl", k=3, retry=QUICK).run(
            make_prompts(20)
        )
        await server.stop()
        return report

    report = asyncio.run(with_dead_replica())
    assert (report.answered, sum(report.retries.values())) == (60, 0)
    assert RecordedCompletions.load(tmp_path / "c.jsonl").digest == undisturbed


def test_an_unreachable_server_is_one_clear_line_at_once(tmp_path):
    backend = OpenAIBackend([f"http://127.0.0.1:{free_port()}"], "m")
    with pytest.raises(
        GenerationError, match=r"^http://127.0.0.1:\d+/v1: no server answers \(.*\); start it with"
    ) as got:
        asyncio.run(Campaign(backend, tmp_path / "c.jsonl").run(make_prompts(1)))
    assert "\n" not in str(got.value)


def test_a_wrong_model_name_is_one_clear_line_with_the_names_offered(tmp_path):
    with pytest.raises(ConfigError, match=r"has no model 'other'; it offers fake-model: write openai:URL#NAME"):
        run(tmp_path / "c.jsonl", [FakeServer()], make_prompts(1), model="other")


def test_an_address_that_is_no_model_server_is_one_clear_line(tmp_path):
    async def page(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n<html>")
        await writer.drain()
        writer.close()

    async def ask():
        server = await asyncio.start_server(page, "127.0.0.1", 0)
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        await Campaign(OpenAIBackend([url], "m"), tmp_path / "c.jsonl").run(make_prompts(1))

    with pytest.raises(ConfigError, match="not an OpenAI-compatible server"):
        asyncio.run(ask())


def test_the_key_comes_from_the_environment_and_is_not_written_down(tmp_path, monkeypatch):
    monkeypatch.delenv("DMC_OPTIM_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(ConfigError, match="refuses the API key; set DMC_OPTIM_API_KEY"):
        run(tmp_path / "c.jsonl", [FakeServer(key="s3cret")], make_prompts(1))
    monkeypatch.setenv("DMC_OPTIM_API_KEY", "s3cret")
    assert run(tmp_path / "c.jsonl", [FakeServer(key="s3cret")], make_prompts(1)).answered == 3
    assert "s3cret" not in (tmp_path / "c.jsonl").read_text()


def one(text, **sampling):
    prompt = Prompt("train/0", "p", "correctness", Messages(({"role": "user", "content": text},), "t@1"))
    return CompletionRequest(prompt, 0, 11, Sampling(**sampling))


async def ask(server, request, model=MODEL, timeout_s=0.3):
    backend = OpenAIBackend([f"http://127.0.0.1:{await server.start()}"], model, timeout_s=timeout_s)
    await backend.open()
    try:
        return await backend.complete(request)
    finally:
        await backend.close()
        await server.stop()


def test_an_answer_carries_text_tokens_and_latency():
    answer = asyncio.run(ask(FakeServer(latency_s=0.02), one("hello")))
    assert answer.text == default_answer([{"role": "user", "content": "hello"}], 11)
    assert (answer.prompt_tokens, answer.completion_tokens, answer.finish_reason) == (100, 50, "stop")
    assert answer.latency_s >= 0.02


def test_a_prompt_longer_than_the_context_is_refused_for_good():
    with pytest.raises(GenerationRejectedError, match="status 400: maximum context length"):
        asyncio.run(ask(FakeServer(), one("x" * 1_000_001)))


def test_a_slow_answer_is_a_time_out():
    with pytest.raises(GenerationBusyError, match=r"no whole answer within 0.3 s") as got:
        asyncio.run(ask(FakeServer(latency_s=5), one("x")))
    assert got.value.kind == "timeout"


def test_addresses_are_completed_and_checked():
    assert base_url("http://h:1") == base_url("http://h:1/") == base_url("http://h:1/v1/") == "http://h:1/v1"
    assert base_url("https://gateway/llm/v2") == "https://gateway/llm/v2"
    for wrong in ("h:1", "ftp://h", "http://", "", "http://h:port"):
        with pytest.raises(ConfigError, match="address"):
            base_url(wrong)
