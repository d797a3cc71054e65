"""Campaigns: bounded, resumable, failures never kept, errors in one line. The backend is the shipped fake."""

import asyncio
import json
import random
import resource

import pytest

from dmc_optim.errors import (
    ConfigError,
    GenerationBusyError,
    GenerationError,
    GenerationRejectedError,
    SourceError,
)
from dmc_optim.llm.backends import Completion, Sampling
from dmc_optim.llm.backends.fake import FakeBackend
from dmc_optim.llm.backends.replay import ReplayBackend
from dmc_optim.llm.campaign import Campaign, Price, RetryPolicy, run_campaign
from dmc_optim.llm.prompts import Messages, Prompt
from dmc_optim.llm.recorded import RecordedCompletions
from tests.llm.conftest import make_prompts

FAST = RetryPolicy(tries=4, first_s=0.0, longest_s=0.0)


def echo(request):
    return f"{request.prompt.problem_id} {request.attempt} seed {request.seed}"


def digest(path):
    return RecordedCompletions.load(path).digest


def test_every_sample_is_asked_once_with_its_own_seed(tmp_path):
    backend = FakeBackend(echo, model="m")
    report = run_campaign(make_prompts(3), backend, tmp_path / "c.jsonl", k=4, seed=100)
    assert (report.wanted, report.already, report.answered, report.failed) == (12, 0, 12, 0)
    attempts = RecordedCompletions.load(tmp_path / "c.jsonl").attempts("train/1", "", "correctness")
    assert [(a.attempt, a.seed, a.completion, a.model) for a in attempts] == [
        (i, 100 + i, f"train/1 {i} seed {100 + i}", "m") for i in range(4)
    ]
    assert all(a.prompt_solution_id == "0123456789abcdef" and a.prompt_digest for a in attempts)


def test_a_second_run_asks_nothing_and_does_not_open_the_backend(tmp_path):
    run_campaign(make_prompts(3), FakeBackend(echo), tmp_path / "c.jsonl", k=2)
    before = (tmp_path / "c.jsonl").read_bytes()

    class Closed(FakeBackend):
        async def open(self):
            raise AssertionError("opened for nothing")

    report = run_campaign(make_prompts(3), Closed(echo), tmp_path / "c.jsonl", k=2)
    assert (report.already, report.answered) == (6, 0) and (tmp_path / "c.jsonl").read_bytes() == before


def test_more_attempts_and_more_problems_ask_only_for_the_new_ones(tmp_path):
    run_campaign(make_prompts(2), FakeBackend(echo), tmp_path / "c.jsonl", k=2)
    backend = FakeBackend(echo)
    report = run_campaign(make_prompts(3), backend, tmp_path / "c.jsonl", k=3)
    assert (report.already, report.answered, backend.calls) == (4, 5, 5)


def test_concurrency_is_bounded(tmp_path):
    backend = FakeBackend(echo, latency_s=0.001)
    run_campaign(make_prompts(20), backend, tmp_path / "c.jsonl", k=5, concurrency=7)
    assert backend.calls == 100 and backend.peak == 7


def test_more_requests_than_files_may_be_open_is_one_clear_line(tmp_path):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard == resource.RLIM_INFINITY:
        pytest.skip("this system sets no limit")
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, 256), hard))
    try:
        run_campaign(make_prompts(2), FakeBackend(echo), tmp_path / "a.jsonl", k=1, concurrency=400)
        assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] >= 400
        with pytest.raises(ConfigError, match=f"this system allows {hard}; ask for fewer"):
            run_campaign(make_prompts(2), FakeBackend(echo), tmp_path / "b.jsonl", k=1, concurrency=hard)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_prompts_are_drawn_as_they_are_needed(tmp_path):
    drawn = []

    def prompts():
        for prompt in make_prompts(50):
            drawn.append(prompt.problem_id)
            yield prompt

    seen = []
    backend = FakeBackend(lambda request: seen.append(len(drawn)) or "x")
    run_campaign(prompts(), backend, tmp_path / "c.jsonl", k=1, concurrency=3)
    assert all(ahead - done <= 3 for done, ahead in enumerate(seen))


def flaky(errors_before_answer):
    tries = {}

    def answer(request):
        key = (request.prompt.problem_id, request.attempt)
        tries[key] = tries.get(key, 0) + 1
        return GenerationBusyError("busy", "busy") if tries[key] <= errors_before_answer else echo(request)

    return answer


def test_busy_requests_are_tried_again_and_counted(tmp_path):
    report = run_campaign(make_prompts(2), FakeBackend(flaky(2)), tmp_path / "c.jsonl", k=2, retry=FAST)
    assert (report.answered, report.failed, dict(report.retries)) == (4, 0, {"busy": 8})


def test_failures_are_never_kept_and_asked_again(tmp_path):
    path, failures = tmp_path / "c.jsonl", []
    answer = flaky(4)
    report = run_campaign(make_prompts(2), FakeBackend(answer), path, k=2, retry=FAST, on_failure=failures.append)
    assert (report.answered, report.failed, dict(report.failures)) == (0, 4, {"busy": 4})
    assert len(failures) == 4 and path.read_bytes() == b""
    assert "run the same command again" in report.lines()[-1]
    report = run_campaign(make_prompts(2), FakeBackend(answer), path, k=2, retry=FAST)
    assert (report.answered, report.failed) == (4, 0)


def test_a_refused_request_is_one_failure_and_the_others_go_on(tmp_path):
    def answer(request):
        if request.prompt.problem_id == "train/1":
            return GenerationRejectedError("context too long")
        return echo(request)

    backend = FakeBackend(answer)
    report = run_campaign(make_prompts(3), backend, tmp_path / "c.jsonl", k=2, retry=FAST)
    assert (report.answered, dict(report.failures), backend.calls) == (4, {"rejected": 2}, 6)
    assert "context too long" in "\n".join(report.lines())


@pytest.mark.parametrize("error", [ConfigError("wrong model"), GenerationError("engine died")])
def test_an_error_that_concerns_every_request_ends_the_campaign_and_keeps_the_answers(tmp_path, error):
    def answer(request):
        return error if request.prompt.problem_id == "train/3" else echo(request)

    with pytest.raises(type(error), match=str(error)):
        run_campaign(make_prompts(9), FakeBackend(answer), tmp_path / "c.jsonl", k=2, concurrency=2)
    kept = RecordedCompletions.load(tmp_path / "c.jsonl")
    assert {p for p, _ in kept._by_problem} == {"train/0", "train/1", "train/2"}


def test_a_server_that_answers_nothing_any_more_ends_the_campaign(tmp_path):
    now = [0.0]

    async def sleep(seconds):
        now[0] += seconds
        await asyncio.sleep(0)

    campaign = Campaign(
        FakeBackend(lambda request: GenerationBusyError("gone", "connection")),
        tmp_path / "c.jsonl",
        retry=RetryPolicy(give_up_after_s=120.0),
        concurrency=2,
        clock=lambda: now[0],
        sleep=sleep,
    )
    with pytest.raises(GenerationError, match=r"no answer at all for 120 s.*0 answers are kept"):
        asyncio.run(campaign.run(make_prompts(1000)))
    assert now[0] < 400


def test_pauses_grow_are_capped_and_heed_the_server():
    policy, rng = RetryPolicy(first_s=1.0, longest_s=10.0), random.Random(1)
    pauses = [policy.pause_s(n, None, rng) for n in range(1, 9)]
    assert all(0.5 * min(10, 2 ** (n - 1)) <= p <= min(10, 2 ** (n - 1)) for n, p in enumerate(pauses, start=1))
    assert policy.pause_s(1, 30.0, rng) == 30.0
    assert policy.pause_s(10_000, None, rng) <= 10.0


def prompt(text, campaign="correctness"):
    return Prompt("train/0", "p", campaign, Messages(({"role": "user", "content": text},), "t@1"))


def test_a_changed_request_is_asked_and_an_earlier_one_is_not_asked_again(tmp_path):
    path = tmp_path / "c.jsonl"
    backend = FakeBackend(lambda request: request.prompt.messages.messages[0]["content"])

    def current():
        return [a.completion for a in RecordedCompletions.load(path).attempts("train/0", "", "correctness")]

    for text, calls in [("a", 1), ("b", 2), ("a", 2), ("b", 2), ("b", 2)]:
        run_campaign([prompt(text)], backend, path, k=1)
        assert (current(), backend.calls) == ([text], calls)


def test_an_answer_to_an_earlier_request_does_not_stand_in_for_a_failed_one(tmp_path):
    path = tmp_path / "c.jsonl"
    run_campaign([prompt("a")], FakeBackend(lambda request: "old"), path, k=2)
    busy = FakeBackend(lambda request: "new" if request.attempt else GenerationBusyError("busy", "busy"))
    run_campaign([prompt("b")], busy, path, k=2, retry=FAST)
    assert [a.completion for a in RecordedCompletions.load(path).attempts("train/0", "", "correctness")] == ["new"]
    backend = FakeBackend(lambda request: "again")
    run_campaign([prompt("b")], backend, path, k=2)
    assert [a.completion for a in RecordedCompletions.load(path).attempts("train/0", "", "correctness")] == [
        "again",
        "new",
    ]
    run_campaign([prompt("a")], backend, path, k=2)
    assert [a.completion for a in RecordedCompletions.load(path).attempts("train/0", "", "correctness")] == [
        "old",
        "old",
    ]
    assert backend.calls == 1


@pytest.mark.parametrize(
    "change",
    [{"sampling": Sampling(temperature=0.5)}, {"seed": 7}, {"sampling": Sampling(extra={"min_p": 0.1})}],
    ids=["temperature", "seed", "extra"],
)
def test_whatever_decides_the_answer_is_part_of_the_key(tmp_path, change):
    backend = FakeBackend(echo)
    run_campaign([prompt("a")], backend, tmp_path / "c.jsonl", k=1)
    run_campaign([prompt("a")], backend, tmp_path / "c.jsonl", k=1, **change)
    assert backend.calls == 2
    for other in (FakeBackend(echo, model="other"), FakeBackend(echo, revision="abc")):
        run_campaign([prompt("a")], other, tmp_path / "c.jsonl", k=1)
        assert other.calls == 1


def test_usage_and_cost_are_in_every_row_and_in_the_report(tmp_path):
    backend = FakeBackend(lambda request: Completion("x", "thought", "length", 1000, 500, 2.5))
    report = run_campaign(make_prompts(2), backend, tmp_path / "c.jsonl", k=1, price=Price(2.0, 8.0))
    rows = [json.loads(line) for line in (tmp_path / "c.jsonl").read_text().splitlines()]
    assert rows[0]["usage"] == {"prompt_tokens": 1000, "completion_tokens": 500, "latency_s": 2.5, "cost_usd": 0.006}
    assert (rows[0]["reasoning"], rows[0]["finish_reason"]) == ("thought", "length")
    assert (report.prompt_tokens, report.completion_tokens, report.cost_usd) == (2000, 1000, pytest.approx(0.012))
    assert json.dumps(report.to_dict())


def test_a_line_cut_off_by_a_crash_is_asked_again_wherever_it_was_cut(tmp_path):
    path = tmp_path / "c.jsonl"
    run_campaign(make_prompts(3), FakeBackend(echo), path, k=2)
    whole, wanted = path.read_bytes(), digest(path)
    lines = whole.splitlines(keepends=True)
    for cut in (1, 10, len(lines[-1]) // 2, len(lines[-1]) - 1):
        path.write_bytes(b"".join(lines[:-1]) + lines[-1][:cut])
        report = run_campaign(make_prompts(3), FakeBackend(echo), path, k=2)
        assert report.answered == 1 and digest(path) == wanted
    path.write_bytes(lines[0][:5])
    assert run_campaign(make_prompts(3), FakeBackend(echo), path, k=2).answered == 6 and digest(path) == wanted


def test_two_campaigns_do_not_write_one_file(tmp_path):
    async def both():
        first = Campaign(FakeBackend(echo, latency_s=0.05), tmp_path / "c.jsonl", k=1)
        task = asyncio.create_task(first.run(make_prompts(2)))
        await asyncio.sleep(0.01)
        with pytest.raises(ConfigError, match="another campaign is writing"):
            await Campaign(FakeBackend(echo), tmp_path / "c.jsonl", k=1).run(make_prompts(2))
        await task

    asyncio.run(both())


def test_files_it_cannot_or_must_not_write_are_one_clear_line(tmp_path):
    foreign = tmp_path / "recorded.jsonl"
    foreign.write_text('{"name": "a", "attempt": 0, "completion": "x"}\n')
    with pytest.raises(SourceError, match=r":1: this row was not written by a campaign"):
        run_campaign(make_prompts(1), FakeBackend(echo), foreign)
    with pytest.raises(ConfigError, match="local file"):
        run_campaign(make_prompts(1), FakeBackend(echo), "gs://bucket/c.jsonl")
    with pytest.raises(ConfigError, match="cannot be written"):
        run_campaign(make_prompts(1), FakeBackend(echo), "/proc/none/c.jsonl")
    with pytest.raises(ConfigError, match="cannot be written"):
        run_campaign(make_prompts(1), FakeBackend(echo), tmp_path)
    with pytest.raises(ConfigError, match="not a regular file"):
        run_campaign(make_prompts(1), FakeBackend(echo), "/dev/null")


def test_a_full_disk_is_one_clear_line_and_costs_only_what_did_not_fit(tmp_path):
    path = tmp_path / "c.jsonl"
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))  # the write that crosses the limit is a short one
    try:
        with pytest.raises(GenerationError, match=r"c.jsonl: cannot be written \(.*\); the answers so far are kept"):
            run_campaign(make_prompts(3), FakeBackend(echo), path, k=2)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert path.stat().st_size == 1000
    report = run_campaign(make_prompts(3), FakeBackend(echo), path, k=2)
    assert report.already > 0 and report.answered > 0 and len(RecordedCompletions.load(path)) == 6


def test_replay_makes_a_campaign_of_answers_recorded_elsewhere(tmp_path):
    run_campaign(make_prompts(2), FakeBackend(echo), tmp_path / "a.jsonl", k=2)
    backend = ReplayBackend(RecordedCompletions.load(tmp_path / "a.jsonl"))
    report = run_campaign(make_prompts(3), backend, tmp_path / "b.jsonl", k=2)
    assert (report.answered, dict(report.failures)) == (4, {"rejected": 2})
    a, b = (
        RecordedCompletions.load(tmp_path / name).attempts("train/1", "", "correctness")
        for name in ("a.jsonl", "b.jsonl")
    )
    assert [x.completion for x in a] == [x.completion for x in b]
