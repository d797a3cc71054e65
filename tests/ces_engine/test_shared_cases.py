"""The optional file of sandbox cases beside the repository (../shared/cases/sandbox.jsonl), case by case."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from dmc_optim.ces import Limits, Request, Result, TestCase
from dmc_optim.ces.engine.embedded import Embedded

CASES = Path(__file__).parents[3] / "shared" / "cases" / "sandbox.jsonl"
SHORT_LIMIT_S = 2.0  # enough for every case that should not time out, on a loaded machine too


@dataclass(frozen=True)
class Case:
    id: str
    request: Request
    accepted: tuple[str, ...]


def read() -> list[Case]:
    """Cases with their generated texts. The expressions are the file's own, not a program under test."""
    found = []
    for line in CASES.read_text().splitlines() if CASES.exists() else []:
        row: dict[str, Any] = json.loads(line)
        texts = [
            eval(row[f"{name}_gen"]) if f"{name}_gen" in row else row[name] for name in ("input", "expected_output")
        ]
        accepted = tuple(row.get("expected_any") or [row["expected_status"]])
        short = "timeout" in accepted
        request = Request(
            row["solution"].encode(),
            (TestCase(row["id"], texts[0].encode(), texts[1].encode()),),
            Limits(time_s=SHORT_LIMIT_S) if short else Limits(),
            row.get("comparator", "trimmed"),
            return_output=True,
        )
        found.append(Case(row["id"], request, accepted))
    return found


ALL = read()


@pytest.fixture(scope="module")
def results(engine: Embedded) -> dict[str, Result]:
    """All cases at once, several in flight."""
    found = {}
    for index, (result,) in engine.execute_many(case.request for case in ALL):
        found[ALL[index].id] = result
    return found


@pytest.mark.skipif(not ALL, reason="../shared/cases/sandbox.jsonl is absent: its cases are not run")
@pytest.mark.parametrize("case", ALL, ids=[case.id for case in ALL])
def test_case(case: Case, results: dict[str, Result]) -> None:
    result = results[case.id]
    assert result.status in case.accepted, result
    assert result.retries == 0


def named(results: dict[str, Result], name: str) -> Result:
    if name not in results:
        pytest.skip(f"case {name} is absent")
    return results[name]


def test_what_the_notes_ask_beyond_the_status(results: dict[str, Result]) -> None:
    """Details that some cases' notes describe."""
    assert (named(results, "t10_fake_clock").duration_s or 0) > 0.02
    assert named(results, "t11_flush_before_timeout").output == b"partial\n"
    assert named(results, "e09_segv").detail.startswith("signal 11")
    assert named(results, "x05_memory_scan").output == b"none\n"
    assert (named(results, "p02_setsid_orphan").wall_s or 0) < 30
    assert named(results, "o01_flood").detail == "output limit"


@pytest.mark.slow
@pytest.mark.skipif(not ALL, reason="../shared/cases/sandbox.jsonl is absent: its cases are not run")
def test_the_same_statuses_under_the_default_limits(engine: Embedded) -> None:
    requests = [Request(c.request.code, c.request.tests, comparator=c.request.comparator) for c in ALL]
    for index, (result,) in engine.execute_many(requests):
        assert result.status in ALL[index].accepted, (ALL[index].id, result)
