"""The client against servers and links that misbehave: never a verdict that no node gave."""

import socket
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest

from dmc_optim.ces.client import Client, RetryPolicy
from dmc_optim.ces.client.client import NO_ANSWER
from dmc_optim.ces.types import Request, StopRule
from dmc_optim.errors import ServiceRejectedError
from schemas.enums import Status
from tests.ces_service.conftest import QUICK, Serve, check, dead_url
from tests.ces_service.crooked import INFO, ChaoticLink, CrookedServer, http, stream
from tests.ces_service.stand_in import program, suite

RIGHT = (
    {"i": 0, "test_id": "t0", "status": "success", "duration_s": 0.1},
    {"i": 1, "test_id": "t1", "status": "wrong_answer", "duration_s": 0.2},
)
END = {"end": {"results": 2, "stopped": False}}


@pytest.fixture
def crooked() -> Iterator[Callable[..., CrookedServer]]:
    servers: list[CrookedServer] = []

    def start(*answers: bytes, **options: Any) -> CrookedServer:
        servers.append(CrookedServer(*answers, **options))
        return servers[-1]

    yield start
    for server in servers:
        server.close()


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(b"", id="closed without a word"),
        pytest.param(b"\x16\x03\x01 not http at all\r\n\r\n", id="not http"),
        pytest.param(b"HTTP/1.1 200 OK\r\nContent-", id="cut in the head"),
        pytest.param(stream(length=500), id="cut before any line"),
        pytest.param(stream(RIGHT[0], b'{"i":1,"test_id":"t1","sta', length=900), id="cut in a line"),
        pytest.param(stream(RIGHT[0], b'{"i":1,"test_id":"t1","sta'), id="half a line, properly ended"),
        pytest.param(stream(*RIGHT), id="no last line"),
        pytest.param(stream(RIGHT[0], END), id="a result short"),
        pytest.param(stream(RIGHT[0], {"end": {"results": 1, "stopped": False}}), id="ends early"),
        pytest.param(stream(RIGHT[1], RIGHT[0], END), id="swapped"),
        pytest.param(stream(RIGHT[0], RIGHT[0], RIGHT[1], END), id="doubled"),
        pytest.param(stream({**RIGHT[0], "test_id": "t9"}, RIGHT[1], END), id="of another request"),
        pytest.param(stream({**RIGHT[0], "status": "fine"}, RIGHT[1], END), id="unknown status"),
        pytest.param(stream({**RIGHT[0], "duration_s": "fast"}, RIGHT[1], END), id="wrong type"),
        pytest.param(stream(b"\xff\xfe\x00garbage\n"), id="garbage"),
        pytest.param(stream(b"[1,2]\n"), id="not an object"),
        pytest.param(stream({"error": {"code": "engine_fault", "message": "lost"}}), id="engine fault"),
        pytest.param(stream({"error": "?"}), id="shapeless error"),
        pytest.param(stream({"end": 7}), id="shapeless end"),
        pytest.param(http("200 OK", b"<html>welcome</html>", "Content-Type: text/html"), id="a web page"),
        pytest.param(http("500 Internal Server Error", b"Traceback"), id="500"),
        pytest.param(http("502 Bad Gateway", b"<html>"), id="502"),
        pytest.param(http("503 Service Unavailable", b"", "Retry-After: 0"), id="503"),
        pytest.param(http("429 Too Many Requests", b"{", "Retry-After: 0"), id="429"),
        pytest.param(http("424 Failed Dependency", b'{"error":{"missing":[],"message":"","action":""}}'), id="424"),
        pytest.param(http("408 Request Timeout", b""), id="408"),
    ],
)
def test_bad_answers_are_asked_again_and_never_become_verdicts(crooked: Any, answer: bytes) -> None:
    server = crooked(answer, truth=RIGHT)
    with closing(Client(server.url, policy=QUICK)) as client:
        results = list(client.execute(Request(b"code", suite(2))))
    assert [(r.status, r.duration_s) for r in results] == [(Status.SUCCESS, 0.1), (Status.WRONG_ANSWER, 0.2)]
    keys = {line for head in server.executions for line in head.split("\r\n") if line.lower().startswith("idempotency")}
    assert len(keys) == 1


def test_a_broken_stream_is_resumed_from_the_first_missing_result(crooked: Any) -> None:
    server = crooked(stream(RIGHT[0], length=900), truth=RIGHT)
    with closing(Client(server.url, policy=QUICK)) as client:
        results = list(client.execute(Request(b"code", suite(2))))
    assert [(result.status, result.retries) for result in results] == [(Status.SUCCESS, 0), (Status.WRONG_ANSWER, 1)]
    assert "resume_from" not in server.executions[0]
    assert server.executions[1].startswith("POST /v1/execute?resume_from=1 ")


def test_a_lost_last_line_loses_nothing(crooked: Any) -> None:
    server = crooked(stream(*RIGHT, length=900))
    with closing(Client(server.url, policy=QUICK)) as client:
        assert len(list(client.execute(Request(b"code", suite(2))))) == 2
        stopped = Request(b"code", suite(3), stop=StopRule.FIRST_FAILURE)
        assert [result.test_id for result in client.execute(stopped)] == ["t0", "t1"]
    assert len(server.executions) == 2


def test_when_every_retry_fails_the_result_is_infrastructure(crooked: Any) -> None:
    server = crooked(http("500 Internal Server Error", b"no"))
    with closing(Client(server.url, policy=QUICK)) as client:
        results = list(client.execute(Request(b"code", suite(3))))
    assert [result.status for result in results] == [Status.INFRASTRUCTURE] * 3
    assert all(result.marks == (NO_ANSWER,) and result.duration_s is None for result in results)
    assert all("answered 500" in result.detail and server.url in result.detail for result in results)
    assert [result.retries for result in results] == [QUICK.attempts] * 3
    assert len(server.executions) == QUICK.attempts


def test_busy_services_are_waited_for_without_counting_as_faults(crooked: Any) -> None:
    refusals = [http("429 Too Many Requests", b'{"error":{"message":"","action":"","retry_after_s":0.01}}')] * 30
    server = crooked(*refusals, truth=RIGHT)
    with closing(Client(server.url, policy=QUICK)) as client:
        results = list(client.execute(Request(b"code", suite(2))))
    assert [result.retries for result in results] == [0, 0]
    assert len(server.executions) == 31


def test_busy_for_too_long_ends_as_infrastructure(crooked: Any) -> None:
    server = crooked(http("503 Service Unavailable", b"", "Retry-After: 3600"))
    policy = RetryPolicy(attempts=3, base_s=0.01, cap_s=0.02, busy_s=0.2)
    with closing(Client(server.url, policy=policy)) as client:
        results = list(client.execute(Request(b"code", suite(1))))
    assert results[0].status is Status.INFRASTRUCTURE and "503" in results[0].detail
    assert len(server.executions) == 1


def test_a_dead_node_among_several_is_ejected(serve_stand_in: Serve) -> None:
    url, _ = serve_stand_in()
    suites = [suite(3, f"r{i}x") for i in range(20)]
    with closing(Client(f"{dead_url()},{url}", policy=QUICK)) as client:
        assert client.parallelism == 2
        seen = dict(client.execute_many(Request(program(), tests) for tests in suites))
    for index, tests in enumerate(suites):
        check(seen[index], tests)


@pytest.mark.parametrize(
    "info", [http("200 OK", b"hello"), http("404 Not Found", b""), http("200 OK", INFO.replace(b"1", b"99"))]
)
def test_other_servers_are_told_apart(crooked: Any, info: bytes) -> None:
    server = crooked(b"", info=info)
    with pytest.raises(ServiceRejectedError) as refused:
        Client(server.url)
    assert server.url in str(refused.value)


def test_cut_links_double_nothing(serve_stand_in: Serve) -> None:
    url, executor = serve_stand_in(grace_s=20.0)
    link = ChaoticLink(url, cuts=25, most_bytes=3000, seed=7)
    suites = [suite(12, f"r{i}x", wrong=[i % 12]) for i in range(12)]
    policy = RetryPolicy(attempts=30, base_s=0.01, cap_s=0.05)  # more than there are cuts
    with closing(Client(link.url, policy=policy, wait_s=20.0)) as client:
        seen = dict(client.execute_many(Request(program(sleep=0.005), tests) for tests in suites))
    link.close()
    for index, tests in enumerate(suites):
        check(seen[index], tests)
    assert set(executor.started.values()) == {1} and len(executor.started) == 144
    assert link.cuts_left < 15  # the link did its worst


def test_a_node_that_stops_reading_or_sending_is_left(crooked: Any) -> None:
    silent = socket.create_server(("127.0.0.1", 0))
    url = f"http://127.0.0.1:{silent.getsockname()[1]}"  # accepts by its backlog, and never says a word
    policy = RetryPolicy(attempts=2, base_s=0.01, cap_s=0.01, read_s=0.2)
    server = crooked(truth=RIGHT)
    with closing(Client(f"{url},{server.url}", policy=policy)) as client:
        results = list(client.execute(Request(b"code", suite(2))))
    assert [result.status for result in results] == [Status.SUCCESS, Status.WRONG_ANSWER]
    silent.close()
