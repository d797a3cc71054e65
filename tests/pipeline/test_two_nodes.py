"""The bundled build on two nodes, one killed midway: the same verdicts as on the embedded engine."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pyarrow.parquet as pq
import pytest

from dmc_optim.ces.engine.embedded import Embedded
from dmc_optim.errors import IsolationError
from examples.check import check_expected

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1500)]

ROOT = Path(__file__).parents[2]
COMMAND = [sys.executable, "-m", "dmc_optim.cli.main"]
KEY = ["problem_id", "solution_id", "test_id"]


class Node:
    """`dmc-optim ces serve` with one slot, in a process group of its own."""

    def __init__(self, name: str) -> None:
        command = [*COMMAND, "ces", "serve", "--port", "0", "--slots", "1", "--node", name, "--json"]
        self.process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        self.url = str(json.loads(self.process.stdout.readline())["url"])

    def executions(self) -> float:
        text = httpx2.get(f"{self.url}/metrics", timeout=30).text
        return sum(float(count) for count in re.findall(r"^ces_executions_total\{.*\} (\S+)$", text, re.MULTILINE))

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()


@pytest.fixture
def nodes() -> Iterator[list[Node]]:
    try:
        Embedded(1).close()
    except IsolationError as error:
        pytest.skip(f"no full isolation here: {error}")
    started = [Node("first"), Node("second")]
    yield started
    for node in started:
        if node.process.poll() is None:
            node.process.terminate()
            node.process.wait(60)


def build(out: Path, *options: str) -> subprocess.Popen[str]:
    environment = os.environ | {"NO_COLOR": "1"}
    command = [*COMMAND, "build", "--out", str(out), *options]
    with out.with_suffix(".log").open("w") as log:
        return subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=log, text=True, env=environment)


def finished(process: subprocess.Popen[str], out: Path) -> Path:
    assert process.wait(1400) == 0, out.with_suffix(".log").read_text()[-3000:]
    return out


def executions(out: Path) -> dict[tuple[str, ...], tuple[str, str]]:
    """Key → (status, node) of every stored execution."""
    columns = [*KEY, "status", "node"]
    rows = pq.read_table(out / "tables" / "executions", columns=columns).to_pylist()
    return {tuple(row[name] for name in KEY): (row["status"], row["node"]) for row in rows}


def decisions(out: Path, table: str, columns: list[str]) -> list[tuple[str, ...]]:
    rows = pq.read_table(out / "tables" / table, columns=columns).to_pylist()
    return sorted(tuple(str(row[name]) for name in columns) for row in rows)


def test_a_node_killed_midway_changes_no_verdict(nodes: list[Node], tmp_path: Path) -> None:
    first, second = nodes
    out = tmp_path / "nodes"
    running = build(out, "--ces", f"{first.url},{second.url}")
    while running.poll() is None and first.executions() < 900:
        time.sleep(0.2)
    assert running.poll() is None, "the build ended before the kill"
    first.kill()
    finished(running, out)

    assert check_expected(out) == []
    found = executions(out)
    assert {node for _, node in found.values()} == {"first", "second"}
    assert not [key for key, (status, _) in found.items() if status == "infrastructure"]

    alone = finished(build(tmp_path / "alone"), tmp_path / "alone")
    expected = executions(alone)
    assert found.keys() == expected.keys()
    assert {key: found[key][0] for key in found if found[key][0] != expected[key][0]} == {}
    for table, columns in (
        ("exclusions", ["stage", "entity", "problem_id", "entity_id", "reason"]),
        ("splits", ["problem_id", "pool", "split"]),
        ("attrition", ["stage", "entity", "label", "reason", "n_in", "n_out", "n_created", "n_dropped"]),
    ):
        assert decisions(out, table, columns) == decisions(alone, table, columns), table
