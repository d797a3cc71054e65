"""The embedded engine behind nodes of their own: real programs, real kills."""

import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path

import psutil
import pytest

from dmc_optim.ces import Limits, Request, Result, TestCase
from dmc_optim.ces.client import Client, RetryPolicy
from dmc_optim.errors import ServiceError
from schemas.enums import Status
from tests.ces_service.conftest import ROOT, metric, until

POLICY = RetryPolicy(base_s=0.05, cap_s=0.5)
PROGRAMS = {
    b"print(int(input()) * 2)": Status.SUCCESS,
    b"print(int(input()) * 3)": Status.WRONG_ANSWER,
    b"print(1 // (int(input()) * 0))": Status.RUNTIME_EXCEPTION,
    b"print(": Status.SYNTAX_ERROR,
    b"x = sum(range(200000))\nprint(int(input()) * 2)": Status.SUCCESS,
}
TESTS = tuple(TestCase(f"t{i}", f"{i}\n".encode(), f"{2 * i}\n".encode()) for i in range(1, 17))
Start = Callable[..., tuple[subprocess.Popen[str], str]]


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Start]:
    """Nodes as a user starts them; skips where this host cannot isolate."""
    nodes: list[subprocess.Popen[str]] = []

    def start(*arguments: str) -> tuple[subprocess.Popen[str], str]:
        code = "from dmc_optim.cli.main import main; main()"
        options = ["--port", "0", "--json", "--slots", "1", "--spool-dir", str(tmp_path / f"spool{len(nodes)}")]
        process = subprocess.Popen(
            [sys.executable, "-c", code, "ces", "serve", *options, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )
        nodes.append(process)
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            _, trouble = process.communicate()
            pytest.skip(f"this host runs no engine: {trouble.strip().splitlines()[-1]}")
        return process, json.loads(line)["url"]

    yield start
    for process in nodes:
        process.kill()
        process.communicate()


def requests(count: int) -> list[tuple[bytes, Request]]:
    programs = list(PROGRAMS)
    return [(programs[i % len(programs)], Request(programs[i % len(programs)], TESTS)) for i in range(count)]


def check(asked: list[tuple[bytes, Request]], seen: dict[int, list[Result]]) -> None:
    assert sorted(seen) == list(range(len(asked)))
    for index, (program, request) in enumerate(asked):
        assert [result.test_id for result in seen[index]] == [test.id for test in request.tests]
        assert {result.status for result in seen[index]} == {PROGRAMS[program]}
        assert all(result.tier and result.interpreter and result.node for result in seen[index])


def test_a_node_killed_in_the_middle_costs_no_verdict_and_leaves_no_process(serve: Start) -> None:
    (victim, first), (_, second) = serve("--node", "a"), serve("--node", "b")
    family = psutil.Process(victim.pid).children(recursive=True)
    assert family
    asked = requests(18)

    def kill() -> None:
        until(lambda: metric(first, 'ces_requests_total{outcome="finished"}') >= 4, "the middle of the batch")
        victim.kill()
        victim.wait()

    thread = threading.Thread(target=kill)
    thread.start()
    with closing(Client(f"{first},{second}", policy=POLICY)) as client:
        seen = dict(client.execute_many(request for _, request in asked))
    thread.join()
    check(asked, seen)
    assert {result.node for results in seen.values() for result in results} == {"a", "b"}
    until(lambda: not [p for p in family if p.is_running() and p.status() != psutil.STATUS_ZOMBIE], "an empty house")


def test_the_program_of_a_client_that_is_gone_is_killed(serve: Start) -> None:
    process, url = serve()
    endless = Request(b"while True: pass\n", (TestCase("a", b""),), Limits(time_s=100.0))

    failures: list[ServiceError] = []

    def run() -> None:
        try:
            list(client.execute(endless))
        except ServiceError as closed:
            failures.append(closed)

    def busiest() -> float:
        """CPU seconds of the node's descendant that has used most."""
        used = [0.0]
        for descendant in psutil.Process(process.pid).children(recursive=True):
            with suppress(psutil.NoSuchProcess):
                used.append(descendant.cpu_times().user)
        return max(used)

    with closing(Client(url, policy=POLICY)) as client:
        thread = threading.Thread(target=run)
        thread.start()
        until(lambda: busiest() > 0.8, "a busy program")
        client.close()
        thread.join()
    assert len(failures) == 1
    until(lambda: busiest() < 0.8, "the program's end")
    until(lambda: metric(url, "ces_in_flight") == 0, "an idle node")
    with closing(Client(url, policy=POLICY)) as client:
        seen = dict(client.execute_many(request for _, request in requests(5)))
    check(requests(5), seen)


def test_a_large_input_reaches_the_program_once_uploaded(serve: Start) -> None:
    _, url = serve()
    data = b"7" * 20_000_000
    with closing(Client(url, policy=POLICY)) as client:
        for turn in range(3):
            program = b"import sys\nprint(len(sys.stdin.buffer.read()))\n" + b"#" * turn
            (result,) = client.execute(Request(program, (TestCase("big", data, b"20000000\n"),)))
            assert result.status is Status.SUCCESS
    assert metric(url, "ces_blob_uploaded_bytes_total") == len(data)
