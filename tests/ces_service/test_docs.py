"""docs/service.md names what there is: calls, codes, figures, bounds, manifests."""

import re
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from dmc_optim.ces.client import RetryPolicy
from dmc_optim.ces.service.app import create_app
from dmc_optim.ces.service.settings import ServiceSettings
from tests.ces_service.conftest import ROOT
from tests.ces_service.stand_in import StandIn

TEXT = (ROOT / "docs/service.md").read_text(encoding="utf-8")


@pytest.fixture
def client(tmp_path: Path) -> TestClient:
    app = create_app(StandIn(), ServiceSettings(spool_dir=tmp_path))
    return TestClient(app, base_url="http://127.0.0.1")


def test_every_call_is_documented(client: TestClient) -> None:
    for path, operations in client.get("/openapi.json").json()["paths"].items():
        for method in operations:
            assert f"{method.upper()} {path}" in TEXT


def test_every_code_is_documented_and_no_other() -> None:
    source = "".join(path.read_text() for path in (ROOT / "dmc_optim/ces/service").glob("*.py"))
    codes = set(re.findall(r'Problem\(\s*\d{3},\s*"([a-z_]+)"', source))
    table = TEXT[TEXT.index("| status | code |") : TEXT.index("Why JSON lines")]
    documented = set(re.findall(r"`([a-z_]+)`", table)) - {"limit", "missing", "retry_after_s"}
    assert documented == codes - {"disconnected", "body_stalled"}


def test_every_figure_named_exists(client: TestClient) -> None:
    with client:
        names = set(re.findall(r"^# TYPE (\S+)", client.get("/metrics").text, re.MULTILINE))
    figures = TEXT[TEXT.index("**Figures**") : TEXT.index("## Containers")]
    named = set(re.findall(r"ces_[a-z_]+[*]?", figures))
    for name in named - {"ces_node_info"}:
        pattern = name.replace("*", ".*")
        assert any(re.fullmatch(pattern, known) for known in names), name


def test_the_bounds_are_the_defaults() -> None:
    settings, mib = ServiceSettings(), 1 << 20
    assert settings.ledger_ttl_s == 15 * 60
    for words in (
        f"| requests in the queue | {settings.queue_limit} |",
        f"| bodies of accepted requests | {settings.queue_bytes // mib} MiB together |",
        f"| one body | {settings.max_body_bytes // mib} MiB ",
        f"| tests in a request | {settings.max_tests:,} |",
        f"| one uploaded content | {settings.max_blob_bytes // mib} MiB |",
        f"| contents in memory | {settings.blob_memory_bytes // mib} MiB |",
        f"| contents in all | {settings.blob_disk_bytes >> 30} GiB |",
        f"{settings.memory_per_run_bytes // mib} MiB at a time",
        f"{settings.ledger_entries:,} requests, {settings.ledger_bytes // mib} MiB, 15 min",
        f"`--drain-s` ({settings.drain_s:.0f} s)",
        f"comes every {settings.heartbeat_s:.0f} s",
        f"come within {settings.linger_s * 1000:.0f} ms",
    ):
        assert words in TEXT, words
    policy = RetryPolicy()
    assert f"{policy.attempts} faults in a row without a result, or {policy.faulty_s:.0f} s" in TEXT
    assert f"| {policy.busy_s:.0f} s |" in TEXT and f"silent for {policy.read_s:.0f} s" in TEXT


def test_paths_named_exist() -> None:
    for path in re.findall(r"`(deploy/[\w./-]+)`", TEXT):
        assert (ROOT / path).exists(), path
