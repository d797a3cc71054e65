"""Faults of whole nodes, over real sockets and real processes: killed, drained, overloaded, left by their clients."""

import os
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import httpx2
import psutil
import pytest

from dmc_optim.ces.client import Client, RetryPolicy
from dmc_optim.ces.service.wire import encode_request
from dmc_optim.ces.types import Request, Result, TestCase
from tests.ces_service.conftest import ROOT, NodeProcess, check, metric, until
from tests.ces_service.stand_in import program, suite

Start = Callable[..., NodeProcess]
POLICY = RetryPolicy(base_s=0.05, cap_s=0.5)


def run_all(client: Client, suites: list[tuple[TestCase, ...]], sleep: float) -> dict[int, list[Result]]:
    """Run the suites; results by request, each request seen once."""
    seen: dict[int, list[Result]] = {}
    for index, results in client.execute_many(Request(program(sleep=sleep), tests) for tests in suites):
        assert index not in seen
        seen[index] = results
    return seen


def check_all(seen: dict[int, list[Result]], suites: list[tuple[TestCase, ...]]) -> None:
    assert sorted(seen) == list(range(len(suites)))
    for index, tests in enumerate(suites):
        check(seen[index], tests)


def when_executed(nodes: list[NodeProcess], count: int, act: Callable[[], object]) -> threading.Thread:
    """Do something once the nodes have executed so many tests."""

    def wait() -> None:
        until(lambda: sum(len(node.executions("end")) for node in nodes) >= count, "the middle of the batch")
        act()

    thread = threading.Thread(target=wait)
    thread.start()
    return thread


def test_a_killed_node_costs_no_verdict_while_another_lives(start_node: Start) -> None:
    nodes = [start_node(), start_node()]
    suites = [suite(16, f"r{i}x", wrong=[i % 16]) for i in range(24)]
    with closing(Client(",".join(node.url for node in nodes), policy=POLICY)) as client:
        killer = when_executed(nodes, 80, nodes[0].kill)
        seen = run_all(client, suites, sleep=0.01)
        killer.join()
    check_all(seen, suites)
    killed, living = (Counter(node.executions("end")) for node in nodes)
    assert max(living.values()) == 1  # the one that lived executed nothing twice
    both = sum((killed & living).values())
    assert both <= 2 * 16 + 4  # only what was under way, its results not yet received, ran on both
    assert any(result.retries for results in seen.values() for result in results)


def test_a_restarted_node_takes_up_where_the_killed_one_was(start_node: Start) -> None:
    node = start_node()

    def restart() -> None:
        node.kill()
        time.sleep(0.3)
        node.start()

    suites = [suite(16, f"r{i}x", wrong=[i % 16]) for i in range(12)]
    with closing(Client(node.url, policy=POLICY)) as client:
        killer = when_executed([node], 60, restart)
        seen = run_all(client, suites, sleep=0.01)
        killer.join()
    check_all(seen, suites)
    spool = Path(node.options["spool_dir"])
    assert len(list(spool.iterdir())) == 1  # the killed node's own was cleared away


@pytest.mark.slow
def test_many_kills_cost_no_verdict(start_node: Start) -> None:
    nodes = [start_node(), start_node()]
    stop = threading.Event()

    def torment() -> None:
        turn = 0
        while not stop.wait(1.0):
            node = nodes[turn % 2]
            node.kill()
            node.start()
            turn += 1

    suites = [suite(20, f"r{i}x", wrong=[i % 20]) for i in range(120)]
    thread = threading.Thread(target=torment)
    thread.start()
    with closing(Client(",".join(node.url for node in nodes), policy=POLICY)) as client:
        seen = run_all(client, suites, sleep=0.02)
    stop.set()
    thread.join()
    check_all(seen, suites)


def test_sigterm_finishes_accepted_work_and_refuses_new(start_node: Start) -> None:
    node = start_node(slots=1)
    tests = suite(12, wrong=[5])
    answers: list[list[Result]] = []
    with closing(Client(node.url, policy=POLICY)) as client:
        request = Request(program(sleep=0.1), tests)
        threads = [threading.Thread(target=lambda: answers.append(list(client.execute(request)))) for _ in range(2)]
        for thread in threads:
            thread.start()
        until(lambda: metric(node.url, "ces_in_flight") + metric(node.url, "ces_queue_depth") == 2, "both accepted")
        node.terminate()
        until(lambda: httpx2.get(f"{node.url}/readyz").status_code == 503, "closed readiness")
        body = encode_request(Request(program(), suite(1, "new")))
        refused = httpx2.post(f"{node.url}/v1/execute", content=body, headers={"Content-Type": "application/json"})
        assert refused.status_code == 503
        assert refused.json()["error"]["code"] == "draining"
        assert int(refused.headers["retry-after"]) >= 1
        assert httpx2.get(f"{node.url}/healthz").status_code == 200
        for thread in threads:
            thread.join()
    assert node.process.wait(30) == 0
    assert len(answers) == 2
    for results in answers:
        check(results, tests)
        assert {result.retries for result in results} == {0}
    assert Counter(node.executions("end")) == {test.id: 2 for test in tests} | {"probe": 1}
    assert list(Path(node.options["spool_dir"]).iterdir()) == []


def test_a_drained_node_hands_its_clients_to_another(start_node: Start) -> None:
    nodes = [start_node(), start_node()]
    suites = [suite(8, f"r{i}x") for i in range(30)]
    with closing(Client(",".join(node.url for node in nodes), policy=POLICY)) as client:
        killer = when_executed(nodes, 60, nodes[0].terminate)
        seen = run_all(client, suites, sleep=0.01)
        killer.join()
    check_all(seen, suites)
    assert nodes[0].process.wait(30) == 0
    ended = Counter(test for node in nodes for test in node.executions("end") if test != "probe")
    assert set(ended.values()) == {1} and len(ended) == 240  # a drain makes nothing run twice


def test_a_second_signal_stops_at_once(start_node: Start) -> None:
    node = start_node()
    body = encode_request(Request(program(sleep=300), suite(1)))
    with socket.create_connection(("127.0.0.1", node.options["port"])) as raw:
        raw.sendall(_head(len(body)) + body)
        until(lambda: metric(node.url, "ces_in_flight") == 1, "a running request")
        node.terminate()
        until(lambda: httpx2.get(f"{node.url}/readyz").status_code == 503, "closed readiness")
        node.terminate()
        assert node.process.wait(30) == 0


def test_the_drain_time_is_bounded_and_what_is_unfinished_is_told_to_go_elsewhere(start_node: Start) -> None:
    node = start_node(drain_s=0.5)
    body = encode_request(Request(program(sleep=300), suite(1)))
    with socket.create_connection(("127.0.0.1", node.options["port"])) as raw:
        raw.sendall(_head(len(body)) + body)
        until(lambda: metric(node.url, "ces_in_flight") == 1, "a running request")
        node.terminate()
        assert node.process.wait(30) == 0
        answer = b""
        while part := raw.recv(65536):
            answer += part
    assert b'"error":{"code":"cancelled"' in answer


def _head(length: int) -> bytes:
    return (
        "POST /v1/execute HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        f"Content-Length: {length}\r\n\r\n"
    ).encode()


@pytest.mark.parametrize("leave", ["close", "reset", "kill"])
def test_the_work_of_a_client_that_is_gone_is_stopped(start_node: Start, leave: str) -> None:
    node = start_node(slots=1)
    body = encode_request(Request(program(sleep=300), suite(2)))
    if leave == "kill":
        script = f"import socket,time; s=socket.create_connection(('127.0.0.1',{node.options['port']})); "
        script += f"s.sendall({_head(len(body)) + body!r}); time.sleep(300)"
        client = subprocess.Popen([sys.executable, "-c", script])
    else:
        raw = socket.create_connection(("127.0.0.1", node.options["port"]))
        raw.sendall(_head(len(body)) + body)
    until(lambda: node.executions("start")[-1:] == ["t0"], "the first execution")
    if leave == "kill":
        client.kill()
        client.wait()
    elif leave == "reset":
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        raw.close()
    else:
        raw.close()
    until(lambda: metric(node.url, "ces_in_flight") == 0, "an idle node")
    assert metric(node.url, 'ces_requests_total{outcome="cancelled"}') == 1
    assert metric(node.url, 'ces_window_rate{kind="unknown"}') > 0
    assert node.executions("start") == ["probe", "t0"]
    assert node.executions("end") == ["probe"]


def test_a_waiting_request_of_a_client_that_is_gone_never_starts(start_node: Start) -> None:
    node = start_node(slots=1)
    long = encode_request(Request(program(sleep=300), suite(1, "long")))
    last = encode_request(Request(program(), suite(1, "last")))

    def connect() -> socket.socket:
        return socket.create_connection(("127.0.0.1", node.options["port"]))

    with connect() as running, connect() as handed:  # one runs, one is in the engine's own queue
        running.sendall(_head(len(long)) + long)
        handed.sendall(_head(len(long)) + long)
        until(lambda: metric(node.url, "ces_in_flight") == 2, "two requests with the engine")
        with connect() as waiting:
            waiting.sendall(_head(len(last)) + last)
            until(lambda: metric(node.url, "ces_queue_depth") == 1, "a waiting request")
        until(lambda: metric(node.url, "ces_queue_depth") == 0, "an empty queue")
    until(lambda: metric(node.url, "ces_in_flight") == 0, "an idle node")
    assert "last0" not in node.executions("start")


def _overload(node: NodeProcess, threads: int, each: int, sleep: float) -> tuple[list[str], int]:
    """Many clients at once on a small node; every answer is checked. Returns the tests, and how many refusals."""
    failures: list[BaseException] = []

    def run(number: int) -> None:
        try:
            with closing(Client(node.url)) as client:
                for turn in range(each):
                    tests = suite(4, f"c{number}r{turn}x", wrong=[turn % 4])
                    check(list(client.execute(Request(program(sleep=sleep), tests))), tests)
        except BaseException as error:
            failures.append(error)

    workers = [threading.Thread(target=run, args=(number,)) for number in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert failures == []
    asked = [f"c{number}r{turn}x{i}" for number in range(threads) for turn in range(each) for i in range(4)]
    return asked, int(metric(node.url, 'ces_refusals_total{code="queue_full"}'))


def test_overload_brings_only_refusals_and_late_answers(start_node: Start) -> None:
    node = start_node(slots=2, queue_limit=2)
    asked, refusals = _overload(node, threads=40, each=3, sleep=0.005)
    assert refusals > 40
    ended = [test for test in node.executions("end") if test != "probe"]
    assert sorted(ended) == sorted(asked)  # each exactly once
    assert metric(node.url, 'ces_window_rate{kind="infrastructure"}') == 0
    assert metric(node.url, "ces_queue_depth") == metric(node.url, "ces_in_flight") == 0


@pytest.mark.slow
def test_a_minute_of_overload(start_node: Start) -> None:
    node = start_node(slots=2, queue_limit=2)
    process = psutil.Process(node.process.pid)
    asked, refusals = _overload(node, threads=20, each=20, sleep=0.02)
    files, resident = process.num_fds(), process.memory_info().rss
    more, _ = _overload(node, threads=40, each=40, sleep=0.02)
    assert refusals > 200
    ended = Counter(test for test in node.executions("end") if test != "probe")
    assert ended == Counter(asked) + Counter(more)
    assert process.num_fds() <= files + 2
    assert process.memory_info().rss < resident * 1.3


def test_large_blobs_do_not_grow_the_node(start_node: Start) -> None:
    node = start_node(blob_memory_bytes=8 << 20, blob_disk_bytes=128 << 20, memory_per_run_bytes=8 << 20)
    process = psutil.Process(node.process.pid)

    def send(rounds: range) -> None:
        with closing(Client(node.url, policy=POLICY)) as client:
            for number in rounds:
                tests = tuple(TestCase(str(i), os.urandom(4 << 20)) for i in range(3))
                results = list(client.execute(Request(program(), tests, request_id=f"big-{number}")))
                assert [result.status.value for result in results] == ["success"] * 3

    send(range(6))
    before = process.memory_info().rss
    send(range(6, 24))
    assert metric(node.url, "ces_blob_uploaded_bytes_total") == 24 * 3 * (4 << 20)
    assert metric(node.url, "ces_blob_memory_bytes") <= 8 << 20
    assert metric(node.url, "ces_blob_disk_bytes") <= 128 << 20
    assert process.memory_info().rss - before < 48 << 20  # 216 MB more went through it


def test_a_node_will_not_serve_others_without_a_token() -> None:
    script = (
        "from tests.ces_service.stand_in import StandIn; from dmc_optim.ces.service.server import serve; "
        "from dmc_optim.ces.service.settings import ServiceSettings; "
        "serve(StandIn(), ServiceSettings(), '0.0.0.0', 0, print)"
    )
    run = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert run.returncode != 0
    last = run.stderr.strip().splitlines()[-1]
    assert "ConfigError" in last and "without a token" in last and "127.0.0.1" in last
    assert run.stdout == ""
