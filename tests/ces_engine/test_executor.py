"""The Executor contract: order, stop rules, many requests, cancelling, closing; the same with any number of slots."""

import threading
import time
from collections.abc import Iterator

import pytest

from dmc_optim.ces import Executor, Limits, Request, Result, Status, StopRule, TestCase, connect
from dmc_optim.ces.engine.embedded import Embedded
from dmc_optim.ces.engine.jobs import Job
from dmc_optim.ces.fake import FakeEngine
from dmc_optim.errors import ConfigError, EngineError

ECHO = b"""
import sys, time
word = sys.stdin.read()
if word == "wrong": print("no")
elif word == "crash": 1 / 0
elif word == "slow":
    while True: pass
else: print(word)
"""


def cases_of(*words: str) -> tuple[TestCase, ...]:
    return tuple(TestCase(f"{index}:{word}", word.encode(), word.encode()) for index, word in enumerate(words))


def statuses(results: list[Result]) -> list[str]:
    return [str(result.status) for result in results]


@pytest.fixture(scope="module")
def single(engine: Embedded) -> Iterator[Embedded]:
    with Embedded(1) as one:
        yield one


@pytest.fixture(params=["engine", "single"])
def any_engine(request: pytest.FixtureRequest) -> Embedded:
    found = request.getfixturevalue(request.param)
    assert isinstance(found, Embedded)
    return found


def test_it_is_an_executor(engine: Embedded) -> None:
    assert isinstance(engine, Executor)
    assert engine.parallelism >= 1


def test_results_come_in_test_order_whatever_the_slots(any_engine: Embedded) -> None:
    words = [f"w{index}" if index % 7 else "wrong" for index in range(100)]
    results = list(any_engine.execute(Request(ECHO, cases_of(*words))))
    assert [result.test_id for result in results] == [test.id for test in cases_of(*words)]
    assert statuses(results) == ["success" if word != "wrong" else "wrong_answer" for word in words]


@pytest.mark.parametrize(
    ("stop", "words", "seen"),
    [
        (StopRule.ALL, ["a", "wrong", "slow", "b"], ["success", "wrong_answer", "timeout", "success"]),
        (StopRule.FIRST_FAILURE, ["a", "slow", "crash", "b"], ["success", "timeout", "runtime_exception"]),
        (StopRule.FIRST_FAILURE, ["wrong", "b"], ["wrong_answer"]),
        (StopRule.FIRST_NON_SUCCESS, ["a", "b", "slow", "wrong"], ["success", "success", "timeout"]),
        (StopRule.FIRST_NON_SUCCESS, ["a"] * 40 + ["crash"] + ["a"] * 40, ["success"] * 40 + ["runtime_exception"]),
    ],
)
def test_stop_rules(any_engine: Embedded, stop: StopRule, words: list[str], seen: list[str]) -> None:
    request = Request(ECHO, cases_of(*words), Limits(time_s=0.3), stop=stop)
    assert statuses(list(any_engine.execute(request))) == seen


def test_many_requests_come_back_once_each_with_all_their_results(any_engine: Embedded) -> None:
    requests = [Request(ECHO, cases_of(*[f"r{index}t{test}" for test in range(index % 5)])) for index in range(30)]
    found = dict(any_engine.execute_many(iter(requests)))
    assert sorted(found) == list(range(30))
    for index, results in found.items():
        assert [result.test_id for result in results] == [test.id for test in requests[index].tests]
        assert set(statuses(results)) <= {"success"}


def test_requests_are_pulled_only_as_they_are_needed(engine: Embedded) -> None:
    pulled = []

    def requests() -> Iterator[Request]:
        for index in range(1000):
            pulled.append(index)
            yield Request(ECHO, cases_of("a"))

    stream = engine.execute_many(requests())
    next(stream)
    assert len(pulled) <= 4 * engine.parallelism
    stream.close()  # type: ignore[attr-defined]


def test_an_error_in_the_callers_iterable_reaches_the_caller_and_nothing_hangs(engine: Embedded) -> None:
    def requests() -> Iterator[Request]:
        yield Request(ECHO, cases_of("a"))
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        list(engine.execute_many(requests()))
    assert statuses(list(engine.execute(Request(ECHO, cases_of("a"))))) == ["success"]


def test_threads_share_an_engine(engine: Embedded) -> None:
    found: dict[int, list[str]] = {}

    def work(number: int) -> None:
        found[number] = statuses(list(engine.execute(Request(ECHO, cases_of(*(["x"] * number))))))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(1, 9)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {number: ["success"] * number for number in range(1, 9)}


SLEEP = b"import time\ntime.sleep(60)"


@pytest.mark.parametrize("how", ["cancel", "close", "drop"])
def test_cancelled_work_stops_at_once_and_the_slot_is_free(single: Embedded, how: str) -> None:
    started = time.monotonic()
    stream = single.execute(Request(SLEEP, cases_of("a", "b"), request_id="gone"))
    time.sleep(0.5)
    if how == "cancel":
        single.cancel("unknown")
        single.cancel("gone")
        assert list(stream) == []
    elif how == "close":
        stream.close()  # type: ignore[attr-defined]
    del stream
    after = list(single.execute(Request(ECHO, cases_of("a"))))
    assert statuses(after) == ["success"]
    assert (after[0].queue_s or 0) < 20
    assert time.monotonic() - started < 50  # the sleeper alone would take its wall limit, 15 s, twice and again


def test_waiting_requests_can_be_cancelled_before_they_start(single: Embedded) -> None:
    first = single.execute(Request(SLEEP, cases_of("a"), request_id="first"))
    second = single.execute(Request(SLEEP, cases_of("a"), request_id="second"))
    single.cancel("second")
    assert list(second) == []
    single.cancel("first")
    assert list(first) == []


def test_time_in_the_queue_is_no_part_of_a_duration(single: Embedded) -> None:
    burn = b"s = 0\nfor i in range(1000000): s += i\nprint(s)"
    streams = [single.execute(Request(burn, (TestCase("t", b"", b"499999500000"),))) for _ in range(6)]
    results = [next(stream) for stream in streams]
    queued = [result.queue_s or 0 for result in results]
    assert queued == sorted(queued)
    assert queued[-1] > sum(result.duration_s or 0 for result in results[:-1]) * 0.9
    assert max(result.duration_s or 0 for result in results) < queued[-1]


def test_a_closed_engine_refuses_and_ends_what_runs() -> None:
    engine = Embedded(1)
    stream = engine.execute(Request(SLEEP, cases_of("a")))
    time.sleep(0.2)
    engine.close()
    assert list(stream) == []
    with pytest.raises(EngineError, match="closed"):
        engine.execute(Request(ECHO, cases_of("a")))
    engine.close()


def test_a_request_without_tests_has_no_results(engine: Embedded) -> None:
    assert list(engine.execute(Request(ECHO, ()))) == []
    assert next(iter(engine.execute_many([Request(ECHO, ()), Request(ECHO, cases_of("a"))])))[0] in (0, 1)


def test_bad_requests_are_refused_in_one_line(engine: Embedded) -> None:
    with pytest.raises(ConfigError, match="comparator 'fuzzy' is unknown"):
        engine.execute(Request(ECHO, cases_of("a"), comparator="fuzzy"))
    for slots in (0, 10_000):
        with pytest.raises(ConfigError, match="slots"):
            Embedded(slots)
    with pytest.raises(ConfigError, match="tier"):
        Embedded(1, "castle")


def test_connect() -> None:
    fake = connect("fake:7")
    assert isinstance(fake, FakeEngine) and fake.seed == 7
    with connect(slots=1) as embedded:  # type: ignore[attr-defined]
        assert isinstance(embedded, Embedded)
    for spec in ("", "ftp://x", "fake:x", "embedded:2"):
        with pytest.raises(ConfigError, match="unknown"):
            connect(spec)


class TestJob:
    """How tests are handed to slots."""

    def job(self, count: int, stop: StopRule = StopRule.ALL) -> Job:
        return Job(Request(b"", tuple(TestCase(str(i), b"") for i in range(count)), stop=stop), 1, lambda _: None)

    def result(self, position: int, status: Status = Status.SUCCESS) -> Result:
        return Result(str(position), status)

    def test_chunks_grow_and_cover_every_test_once(self) -> None:
        job, taken, size = self.job(1000), [], 0
        while chunk := job.take(size, 2):
            taken += chunk
            size = len(chunk)
            assert size <= 64
        assert taken == list(range(1000))

    def test_several_slots_share_what_may_be_spread_and_no_more(self) -> None:
        assert self.job(10).spreadable and not self.job(10, StopRule.FIRST_FAILURE).spreadable
        ordered = self.job(10, StopRule.FIRST_FAILURE)
        assert ordered.wants_worker
        ordered.workers = 1
        assert not ordered.wants_worker

    def test_lost_tests_are_taken_again_and_results_are_never_doubled(self) -> None:
        job = self.job(4)
        assert job.take(4, 1) == [0, 1, 2, 3]
        job.deliver(0, self.result(0))
        job.give_back([0, 1, 2, 3])
        assert job.take(4, 1) == [1, 2, 3]
        for position in (3, 2, 1, 1, 0):
            job.deliver(position, self.result(position))
        assert job.finished
        assert [result.test_id for result in iter(job.next_result, None)] == ["0", "1", "2", "3"]

    def test_the_stop_rule_ends_the_request(self) -> None:
        job = self.job(5, StopRule.FIRST_NON_SUCCESS)
        job.deliver(0, self.result(0))
        job.deliver(1, self.result(1, Status.INFRASTRUCTURE))
        job.deliver(2, self.result(2, Status.TIMEOUT))
        assert job.finished and len(job.all_results()) == 3
