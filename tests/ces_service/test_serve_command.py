"""`ces serve` as a process: what it announces, refuses and leaves behind."""

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx2
import pytest

from dmc_optim.ces.client import Client
from dmc_optim.ces.types import Request, TestCase
from dmc_optim.cli.ces_serve import serve
from dmc_optim.errors import ConfigError, ServiceRejectedError
from tests.ces_service.conftest import ROOT, until

COMMAND = """
import sys
from dmc_optim.cli.ces_serve import serve
from dmc_optim.errors import DmcOptimError
try:
    serve.main(sys.argv[1:], standalone_mode=False)
except DmcOptimError as error:
    print(f"error: {error}", file=sys.stderr)
    sys.exit(error.exit_code)
"""


def start(*arguments: str, **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", COMMAND, "--engine", "fake", *arguments],
        cwd=ROOT,
        env={name: value for name, value in os.environ.items() if name != "DMC_OPTIM_CES_TOKEN"} | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def refused(*arguments: str) -> str:
    """The one line of a start that is refused as the user's mistake."""
    with pytest.raises(ConfigError) as mistake:
        serve.main(["--engine", "fake", *arguments], standalone_mode=False)
    assert mistake.value.exit_code == 2
    line = str(mistake.value)
    assert "\n" not in line
    return line


def test_a_node_announces_itself_serves_and_exits_0(tmp_path: Path) -> None:
    process = start("--port", "0", "--json", "--spool-dir", str(tmp_path / "spool"), "--node", "n1")
    assert process.stdout is not None
    facts = json.loads(process.stdout.readline())
    assert facts["pid"] == process.pid and facts["slots"] == 2
    until(lambda: httpx2.get(f"{facts['url']}/readyz").status_code == 200, "readiness")
    client = Client(facts["url"])
    (result,) = client.execute(Request(b"print(1)", (TestCase("a", b"1"),)))
    assert result.test_id == "a" and result.node == "n1"
    client.close()
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 0
    assert "Traceback" not in err
    assert list((tmp_path / "spool").iterdir()) == []


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "example.org", "10.0.0.1"])
def test_an_open_address_needs_a_token(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DMC_OPTIM_CES_TOKEN", raising=False)
    line = refused("--host", host)
    assert "without a token" in line and "--token-file" in line and "127.0.0.1" in line


@pytest.mark.parametrize("how", ["file", "environment"])
def test_with_a_token_only_its_bearers_are_served(tmp_path: Path, how: str) -> None:
    token_file = tmp_path / "token"
    token_file.write_text("s3cret\n")
    given: Any = (["--token-file", str(token_file)], {}) if how == "file" else ([], {"DMC_OPTIM_CES_TOKEN": "s3cret"})
    process = start("--host", "0.0.0.0", "--port", "0", "--json", *given[0], **given[1])
    assert process.stdout is not None
    url = json.loads(process.stdout.readline())["url"].replace("0.0.0.0", "127.0.0.1")
    until(lambda: httpx2.get(f"{url}/readyz").status_code == 200, "readiness")
    with pytest.raises(ServiceRejectedError):
        Client(url, token="other")
    client = Client(url, token="s3cret")
    assert len(list(client.execute(Request(b"", (TestCase("a", b"1"),))))) == 1
    client.close()
    process.terminate()
    process.communicate(timeout=60)
    assert process.returncode == 0


def test_mistakes_are_one_line(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        assert "cannot listen on 127.0.0.1" in refused("--port", str(taken.getsockname()[1]))
    (tmp_path / "empty").write_text("\n")
    assert "must hold one word" in refused("--token-file", str(tmp_path / "empty"))
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    assert "cannot be read" in refused("--token-file", str(tmp_path / "binary"))
    assert "disk bound" in refused("--blob-disk-mib", "1", "--max-blob-mib", "64")
    assert "spool" in refused("--port", "0", "--spool-dir", str(tmp_path / "empty"))
