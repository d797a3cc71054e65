"""The client against nodes in threads and against servers that misbehave: never a verdict that no node gave."""

import random
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest

from dmc_optim.ces.client import Client, RetryPolicy
from dmc_optim.ces.client.client import NO_ANSWER
from dmc_optim.ces.client.policy import Troubles
from dmc_optim.ces.client.pool import EndpointPool, NoEndpointError, parse_urls
from dmc_optim.ces.service.app import create_app
from dmc_optim.ces.service.settings import ServiceSettings
from dmc_optim.ces.types import Executor, Request, Result, StopRule, TestCase
from dmc_optim.errors import ConfigError, ServiceError, ServiceRejectedError
from schemas.enums import Status
from tests.ces_service.conftest import metric, until
from tests.ces_service.crooked import INFO, ChaoticLink, CrookedServer, http, stream
from tests.ces_service.stand_in import StandIn, duration_of, program, suite

QUICK = RetryPolicy(attempts=4, base_s=0.01, cap_s=0.05, read_s=5.0)
Serve = Callable[..., tuple[str, StandIn]]

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


def dead_url() -> str:
    """An address where nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return f"http://127.0.0.1:{listener.getsockname()[1]}"


def check(results: list[Result], tests: tuple[TestCase, ...]) -> None:
    """Every test has its one right verdict, with the duration the executor gave."""
    assert [result.test_id for result in results] == [test.id for test in tests]
    for result, test in zip(results, tests, strict=True):
        right = test.expected in (None, test.input.upper())
        assert result.status is (Status.SUCCESS if right else Status.WRONG_ANSWER)
        assert result.duration_s == duration_of(test.input)


def test_the_client_is_an_executor(serve_stand_in: Serve) -> None:
    url, _ = serve_stand_in(slots=3)
    with closing(Client(url)) as client:
        assert isinstance(client, Executor)
        assert client.parallelism == 3


def test_results_are_those_of_the_executor_itself(serve_stand_in: Serve) -> None:
    url, _ = serve_stand_in()
    request = Request(program(), suite(20, wrong=[3, 9]), return_output=True)
    with closing(Client(url)) as client:
        over_http = list(client.execute(request))
    direct = list(StandIn().execute(request))
    for ours, theirs in zip(over_http, direct, strict=True):
        for name in ("test_id", "status", "duration_s", "output", "marks", "engine", "tier", "retries"):
            assert getattr(ours, name) == getattr(theirs, name)


def test_execute_many_yields_every_request_once(serve_stand_in: Serve) -> None:
    urls = [serve_stand_in()[0] for _ in range(2)]
    suites = [suite(count, f"r{count}x", wrong=[0]) for count in range(1, 30)]
    with closing(Client(",".join(urls))) as client:
        assert client.parallelism == 4
        seen = dict(client.execute_many(Request(program(sleep=0.001), tests) for tests in suites))
    assert sorted(seen) == list(range(29))
    for index, results in seen.items():
        check(results, suites[index])


def test_all_slots_of_all_nodes_are_kept_busy(serve_stand_in: Serve) -> None:
    nodes = [serve_stand_in() for _ in range(2)]
    with closing(Client(",".join(url for url, _ in nodes))) as client:
        for _ in client.execute_many(Request(program(sleep=0.02), suite(5)) for _ in range(24)):
            pass
    assert [executor.most_at_once for _, executor in nodes] == [2, 2]
    shares = [sum(executor.started.values()) for _, executor in nodes]
    assert sum(shares) == 120 and min(shares) >= 40


@pytest.mark.parametrize("stop", StopRule)
def test_stop_rules_travel(serve_stand_in: Serve, stop: StopRule) -> None:
    url, executor = serve_stand_in()
    with closing(Client(url)) as client:
        results = list(client.execute(Request(program(), suite(6, wrong=[2]), stop=stop)))
    assert len(results) == sum(executor.started.values()) == (6 if stop is StopRule.ALL else 3)


def test_a_large_input_crosses_once_for_any_number_of_programs(serve_stand_in: Serve) -> None:
    url, _ = serve_stand_in(max_body_bytes=100_000)
    data = bytes(2_000_000)
    tests = (TestCase("big", data, data), TestCase("same", data, data))
    with closing(Client(url)) as client:
        requests = [Request(program(sleep=i / 1000), tests) for i in range(10)]
        for _, results in client.execute_many(requests):
            check(results, tests)
    assert metric(url, "ces_blob_uploads_total") == 1
    assert metric(url, "ces_blob_uploaded_bytes_total") == 2_000_000
    assert metric(url, "ces_body_bytes_total") < 20_000


def test_a_restarted_node_gets_its_blobs_again(serve_app: Callable[[Any], str], tmp_path: Any) -> None:
    app = create_app(StandIn(), ServiceSettings(spool_dir=tmp_path, blob_memory_bytes=0, blob_disk_bytes=1 << 27))
    url = serve_app(app)
    tests = (TestCase("big", bytes(100_000), bytes(100_000)),)
    with closing(Client(url)) as client:
        check(list(client.execute(Request(program(), tests))), tests)
        blobs = app.state.node.blobs
        for digest in list(blobs._blobs):
            blobs._drop(digest)
        results = list(client.execute(Request(program(), tests)))
    check(results, tests)
    assert results[0].retries == 0  # nothing failed: the node only said what it lacked


def test_a_balancer_that_sends_uploads_elsewhere_gets_everything_inline(serve_app: Any, tmp_path: Any) -> None:
    app = create_app(StandIn(), ServiceSettings(spool_dir=tmp_path))

    async def forgetful(scope: Any, receive: Any, send: Any) -> None:
        await app(scope, receive, send)
        if scope["type"] == "http" and scope["method"] == "PUT":
            for digest in list(app.state.node.blobs._blobs):
                app.state.node.blobs._drop(digest)

    url = serve_app(forgetful)
    tests = (TestCase("big", bytes(100_000), bytes(100_000)),)
    with closing(Client(url, policy=QUICK)) as client:
        check(list(client.execute(Request(program(), tests))), tests)


def test_infrastructure_results_are_asked_again_and_counted(serve_stand_in: Serve) -> None:
    url, executor = serve_stand_in()
    with closing(Client(url)) as client:
        results = list(client.execute(Request(program(faults=1), suite(4, wrong=[2]))))
    check(results, suite(4, wrong=[2]))
    assert [result.retries for result in results] == [1] * 4
    assert set(executor.started.values()) == {2}


def test_infrastructure_that_stays_is_reported_as_such(serve_stand_in: Serve) -> None:
    url, executor = serve_stand_in()
    with closing(Client(url)) as client:
        results = list(client.execute(Request(program(faults=99), suite(2))))
    assert [result.status for result in results] == [Status.INFRASTRUCTURE] * 2
    assert [result.status.outcome for result in results] == [None, None]
    assert set(executor.started.values()) == {3}


def test_a_recovered_hard_failure_ends_the_request_where_it_stands(serve_stand_in: Serve) -> None:
    class FaultsOnce(StandIn):
        """Test t1 is an infrastructure fault at first, and a wrong answer when asked again."""

        def execute(self, request: Request) -> Iterator[Result]:
            for result in super().execute(request):
                if result.test_id == "t1" and self.started["t1"] == 1:
                    result = Result("t1", Status.INFRASTRUCTURE)
                yield result

    url = serve_app_of(serve_stand_in, FaultsOnce())
    with closing(Client(url)) as client:
        request = Request(program(), suite(4, wrong=[1]), stop=StopRule.FIRST_FAILURE)
        results = list(client.execute(request))
    assert [result.status for result in results] == [Status.SUCCESS, Status.WRONG_ANSWER]


def serve_app_of(serve: Any, executor: StandIn) -> str:
    """Put another executor behind a node that the fixture serves."""
    url, original = serve()
    original.execute = executor.execute  # type: ignore[method-assign]
    return str(url)


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


def test_nodes_are_found_by_name(serve_stand_in: Serve) -> None:
    url, _ = serve_stand_in()
    with closing(Client(url.replace("http://127.0.0.1", "dns+http://localhost"), policy=QUICK)) as client:
        check(list(client.execute(Request(program(), suite(3)))), suite(3))


@pytest.mark.parametrize("url", ["", "ftp://a", "localhost:80", "http://", "http://a:b", "http://u:p@a", "dns+a:80"])
def test_addresses_that_are_none(url: str) -> None:
    with pytest.raises(ConfigError) as wrong:
        parse_urls(url)
    assert "http://host:port" in str(wrong.value) and "\n" not in str(wrong.value)


def test_nobody_there_is_one_clear_line() -> None:
    with pytest.raises(ServiceError) as nobody:
        Client(dead_url(), wait_s=0.0)
    assert "no execution service answers" in str(nobody.value) and "ces serve" in str(nobody.value)
    assert "\n" not in str(nobody.value)


@pytest.mark.parametrize("token", ["wrong", None])
def test_a_wrong_token_is_one_clear_line(serve_stand_in: Serve, token: str | None) -> None:
    url, _ = serve_stand_in(token="secret")
    with pytest.raises(ServiceRejectedError) as refused:
        Client(url, token=token)
    assert "token" in str(refused.value) and "401" in str(refused.value) and "\n" not in str(refused.value)
    with closing(Client(url, token="secret")) as client:
        check(list(client.execute(Request(program(), suite(1)))), suite(1))


def test_the_token_comes_from_the_environment(serve_stand_in: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    url, _ = serve_stand_in(token="secret")
    monkeypatch.setenv("DMC_OPTIM_CES_TOKEN", "secret")
    with closing(Client(url)) as client:
        assert client.parallelism == 2


@pytest.mark.parametrize(
    "info", [http("200 OK", b"hello"), http("404 Not Found", b""), http("200 OK", INFO.replace(b"1", b"99"))]
)
def test_other_servers_are_told_apart(crooked: Any, info: bytes) -> None:
    server = crooked(b"", info=info)
    with pytest.raises(ServiceRejectedError) as refused:
        Client(server.url)
    assert server.url in str(refused.value)


def test_requests_the_service_will_never_take_raise(serve_stand_in: Serve) -> None:
    url, _ = serve_stand_in(max_tests=3, max_blob_bytes=1000)
    with closing(Client(url, inline_bytes=100)) as client:
        with pytest.raises(ServiceRejectedError, match="4 tests in one request"):
            list(client.execute(Request(program(), suite(4))))
        with pytest.raises(ServiceRejectedError, match="1000 bytes"):
            list(client.execute(Request(program(), (TestCase("a", bytes(1001)),))))
        with pytest.raises(ServiceRejectedError, match="comparator"):
            list(client.execute_many([Request(program(), suite(1), comparator="vague")]))
        check(list(client.execute(Request(program(), suite(1)))), suite(1))


def test_an_explicit_id_is_executed_once_whoever_asks(serve_stand_in: Serve) -> None:
    url, executor = serve_stand_in()
    request = Request(program(sleep=0.02), suite(8), request_id="problem 7 / solution 12 / ü")
    answers: list[list[Result]] = []
    with closing(Client(url)) as client:
        threads = [threading.Thread(target=lambda: answers.append(list(client.execute(request)))) for _ in range(5)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(answers) == 5
    for results in answers:
        check(results, suite(8))
    assert dict(executor.started) == {f"t{i}": 1 for i in range(8)}
    assert metric(url, 'ces_executions_total{status="success"}') == 8


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


def test_closing_an_iterator_cancels_at_the_node(serve_stand_in: Serve) -> None:
    url, executor = serve_stand_in(slots=1, grace_s=0.1)
    with closing(Client(url)) as client:
        iterator = client.execute(Request(program(sleep=0.02), suite(2000)))
        next(iterator)
        iterator.close()  # type: ignore[attr-defined]
        until(lambda: metric(url, 'ces_requests_total{outcome="cancelled"}') == 1, "cancellation")
        assert metric(url, "ces_in_flight") == 0
        check(list(client.execute(Request(program(), suite(2, "n")))), suite(2, "n"))
    assert sum(executor.started.values()) < 1500


def test_leaving_execute_many_early_cancels_the_rest(serve_stand_in: Serve) -> None:
    url, _ = serve_stand_in(grace_s=0.1)
    with closing(Client(url)) as client:
        long = Request(program(sleep=60), suite(1, "long"))
        iterator = client.execute_many([Request(program(), suite(1)), long, long, long])
        assert next(iterator)[0] == 0
        iterator.close()  # type: ignore[attr-defined]
        until(lambda: metric(url, "ces_in_flight") + metric(url, "ces_queue_depth") == 0, "an idle node")


def test_a_closed_client_ends_what_runs_and_takes_nothing_more(serve_stand_in: Serve) -> None:
    url, _ = serve_stand_in()
    client = Client(url)
    failures: list[Exception] = []

    def run() -> None:
        try:
            list(client.execute(Request(program(sleep=60), suite(1))))
        except Exception as error:
            failures.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    until(lambda: metric(url, "ces_in_flight") == 1, "a running request")
    client.close()
    thread.join(20)
    assert not thread.is_alive()
    assert isinstance(failures[0], ServiceError)
    with pytest.raises(ServiceError, match="closed"):
        list(client.execute(Request(program(), suite(1))))


def test_a_request_without_tests_asks_nobody(serve_stand_in: Serve) -> None:
    url, _ = serve_stand_in()
    with closing(Client(url)) as client:
        assert list(client.execute(Request(program(), ()))) == []
        assert list(client.execute_many([])) == []


class _Never:
    called = False


def test_the_pool_takes_the_least_loaded_and_leaves_out_the_ejected() -> None:
    now = [0.0]
    pool = EndpointPool("http://a,http://b,http://c", QUICK, lambda: now[0], random.Random(0))
    a, b, c = pool.endpoints
    a.slots, b.slots, c.slots = 2, 2, 4
    with pool.lease(1.0, None, None, _Never()) as first, pool.lease(1.0, None, None, _Never()) as second:
        assert first is not second
        pool.failed(a)
        pool.failed(b)
        with pool.lease(1.0, None, None, _Never()) as third:
            assert third is c
        pool.refused(c, 5.0)
        with pytest.raises(NoEndpointError), pool.lease(0.0, None, None, _Never()):
            pass
        now[0] = 0.5  # a's pause is over: one thread tries whether it is back, no other joins it
        with pool.lease(0.6, None, b, _Never()) as fourth:
            assert fourth is a
            pool.succeeded(a)
            assert a.free_at == 0.0
    assert [endpoint.in_flight for endpoint in (a, b, c)] == [0, 0, 0]


def test_back_off_doubles_and_is_capped() -> None:
    policy = RetryPolicy(base_s=0.1, cap_s=2.0)
    for faults, whole in [(1, 0.1), (2, 0.2), (4, 0.8), (6, 2.0), (5000, 2.0)]:
        waits = [policy.backoff_s(faults, random.Random(seed)) for seed in range(50)]
        assert whole / 2 <= min(waits) < max(waits) <= whole


def test_troubles_are_over_with_progress() -> None:
    now = [0.0]
    troubles = Troubles(RetryPolicy(attempts=3, faulty_s=10.0, busy_s=100.0), lambda: now[0])
    troubles.fault("a")
    troubles.fault("b")
    assert not troubles.hopeless
    now[0] = 10.0
    assert troubles.hopeless
    troubles.progress()
    assert not troubles.hopeless and (troubles.in_a_row, troubles.total) == (0, 2)
    now[0] = 100.0
    troubles.busy("full")
    assert not troubles.hopeless
    now[0] = 110.0
    assert troubles.hopeless and "full" in troubles.account()


def test_a_node_that_stops_reading_or_sending_is_left(crooked: Any) -> None:
    silent = socket.create_server(("127.0.0.1", 0))
    url = f"http://127.0.0.1:{silent.getsockname()[1]}"  # accepts by its backlog, and never says a word
    policy = RetryPolicy(attempts=2, base_s=0.01, cap_s=0.01, read_s=0.2)
    server = crooked(truth=RIGHT)
    with closing(Client(f"{url},{server.url}", policy=policy)) as client:
        results = list(client.execute(Request(b"code", suite(2))))
    assert [result.status for result in results] == [Status.SUCCESS, Status.WRONG_ANSWER]
    silent.close()


def test_no_proxy_of_the_environment_is_used(serve_stand_in: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    url, _ = serve_stand_in()
    monkeypatch.setenv("HTTP_PROXY", dead_url())
    monkeypatch.setenv("http_proxy", dead_url())
    with closing(Client(url)) as client:
        assert client.parallelism == 2
