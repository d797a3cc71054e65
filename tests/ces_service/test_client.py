"""The client against nodes in threads and against servers that misbehave: never a verdict that no node gave."""

import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest

from dmc_optim.ces.client import Client
from dmc_optim.ces.service.app import create_app
from dmc_optim.ces.service.settings import ServiceSettings
from dmc_optim.ces.types import Executor, Request, Result, StopRule, TestCase
from dmc_optim.errors import ServiceError, ServiceRejectedError
from schemas.enums import Status
from tests.ces_service.conftest import QUICK, Serve, check, dead_url, metric, until
from tests.ces_service.crooked import ChaoticLink
from tests.ces_service.stand_in import StandIn, program, suite


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


def test_nodes_are_found_by_name(serve_stand_in: Serve) -> None:
    url, _ = serve_stand_in()
    with closing(Client(url.replace("http://127.0.0.1", "dns+http://localhost"), policy=QUICK)) as client:
        check(list(client.execute(Request(program(), suite(3)))), suite(3))


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


def test_connections_are_used_again(serve_stand_in: Serve) -> None:
    url, _ = serve_stand_in()
    link = ChaoticLink(url, cuts=0, most_bytes=1, seed=0)
    with closing(Client(link.url)) as client:
        for turn in range(10):
            check(list(client.execute(Request(program(), suite(3, f"r{turn}x")))), suite(3, f"r{turn}x"))
            stopped = Request(program(), suite(3, f"s{turn}x", wrong=[0]), stop=StopRule.FIRST_FAILURE)
            assert len(list(client.execute(stopped))) == 1
    link.close()
    assert link.connections == 1


def test_a_request_without_tests_asks_nobody(serve_stand_in: Serve) -> None:
    url, _ = serve_stand_in()
    with closing(Client(url)) as client:
        assert list(client.execute(Request(program(), ()))) == []
        assert list(client.execute_many([])) == []


def test_no_proxy_of_the_environment_is_used(serve_stand_in: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    url, _ = serve_stand_in()
    monkeypatch.setenv("HTTP_PROXY", dead_url())
    monkeypatch.setenv("http_proxy", dead_url())
    with closing(Client(url)) as client:
        assert client.parallelism == 2
