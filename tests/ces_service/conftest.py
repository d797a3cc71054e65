"""Nodes for the tests: in a thread of this process, or as processes that can be killed."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import pytest
import uvicorn

from dmc_optim.ces.client import RetryPolicy
from dmc_optim.ces.service.app import create_app
from dmc_optim.ces.service.server import bind
from dmc_optim.ces.service.settings import ServiceSettings
from dmc_optim.ces.types import Result, TestCase
from schemas.enums import Status
from tests.ces_service.stand_in import StandIn, duration_of

ROOT = Path(__file__).resolve().parents[2]
PATIENCE_S = 30.0
QUICK = RetryPolicy(attempts=4, base_s=0.01, cap_s=0.05, read_s=5.0)
Serve = Callable[..., tuple[str, StandIn]]


def until(condition: Callable[[], Any], what: str) -> Any:
    """Wait for a condition to hold; returns its value."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        if value := condition():
            return value
        time.sleep(0.02)
    raise AssertionError(f"{what} did not come about in {PATIENCE_S:.0f} s")


def metric(url: str, name: str) -> float:
    """The value of a figure in a node's metrics, labels included in the name."""
    for line in httpx2.get(f"{url}/metrics").text.splitlines():
        if line.startswith(name + " "):
            return float(line.split()[-1])
    raise AssertionError(f"no metric {name}")


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


@dataclass
class NodeProcess:
    """A node with a stand-in executor, in a process of its own."""

    log: Path
    options: dict[str, Any]
    process: subprocess.Popen[str] = field(init=False)
    url: str = field(init=False)

    def start(self) -> "NodeProcess":
        """Start it, again on the same port when it ran before."""
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.ces_service.stand_in", json.dumps({"log": str(self.log), **self.options})],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            cwd=ROOT,
            env=os.environ | {"PYTHONPATH": str(ROOT)},
        )
        assert self.process.stdout is not None
        self.url = self.process.stdout.readline().strip()
        assert self.url.startswith("http://"), "the node did not start"
        self.options["port"] = int(self.url.rsplit(":", 1)[1])
        until(lambda: httpx2.get(f"{self.url}/readyz").status_code == 200, "readiness")
        return self

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def terminate(self) -> None:
        self.process.send_signal(signal.SIGTERM)

    def executions(self, what: str) -> list[str]:
        """Test ids whose execution was started ("start") or ended ("end"), in order, over all lives of the node."""
        if not self.log.exists():
            return []
        return [line.split()[1] for line in self.log.read_text().splitlines() if line.startswith(what + " ")]


@pytest.fixture
def start_node(tmp_path: Path) -> Iterator[Callable[..., NodeProcess]]:
    nodes: list[NodeProcess] = []

    def start(**options: Any) -> NodeProcess:
        name = f"node{len(nodes)}"
        options = {"node": name, "spool_dir": str(tmp_path / f"{name}-spool"), **options}
        nodes.append(NodeProcess(tmp_path / f"{name}.log", options))
        return nodes[-1].start()

    yield start
    for node in nodes:
        node.kill()


@pytest.fixture
def serve_app() -> Iterator[Callable[[Any], str]]:
    """Serve any ASGI application on a loopback port from a thread; returns its URL."""
    running: list[tuple[uvicorn.Server, threading.Thread]] = []

    def serve(app: Any) -> str:
        listener = bind("127.0.0.1", 0)
        server = uvicorn.Server(uvicorn.Config(app, log_level="error", lifespan="auto", timeout_graceful_shutdown=1))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        running.append((server, thread))
        return f"http://127.0.0.1:{listener.getsockname()[1]}"

    yield serve
    for server, _ in running:
        server.should_exit = True
    for _, thread in running:
        thread.join(10)


@pytest.fixture
def serve_stand_in(serve_app: Callable[[Any], str], tmp_path: Path) -> Callable[..., tuple[str, StandIn]]:
    """A node in this process: its URL and its executor, which can be looked at."""

    def serve(slots: int = 2, **settings: Any) -> tuple[str, StandIn]:
        executor = StandIn(slots)
        url = serve_app(create_app(executor, ServiceSettings(spool_dir=tmp_path / "spool", **settings)))
        headers = {"Authorization": f"Bearer {settings['token']}"} if "token" in settings else {}
        until(lambda: httpx2.get(f"{url}/readyz", headers=headers).status_code == 200, "readiness")
        executor.started.clear()
        return url, executor

    return serve
