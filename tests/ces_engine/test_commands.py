"""`ces run` and `ces doctor` as commands."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from dmc_optim.ces.cases import read_cases, run_cases
from dmc_optim.ces.engine.embedded import Embedded
from dmc_optim.ces.fake import FakeEngine
from dmc_optim.cli.ces import ces
from dmc_optim.cli.main import main
from dmc_optim.errors import SourceError

FIELDS = ["id", "status", "duration_s", "cpu_s", "wall_s", "peak_memory_bytes", "detail"]


def command(*arguments: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    program = [sys.executable, "-m", "dmc_optim.cli.main", "ces", *arguments]
    return subprocess.run(program, input=stdin, capture_output=True, check=False, timeout=120)


def lines(*rows: dict[str, Any]) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def row(identifier: str | int, solution: str = "print(input())", **fields: Any) -> dict[str, Any]:
    return {"id": identifier, "solution": solution, "input": "1", "expected_output": "1"} | fields


def test_run_writes_one_line_a_case_in_order(engine: Embedded, tmp_path: Path) -> None:
    path = tmp_path / "cases.jsonl"
    slow = "import time; time.sleep(0.2); print(1)"
    cases = [
        row("slow", slow),
        row(2),
        row("wrong", "print(2)"),
        row("e", "1/0"),
        row("f", comparator="tokens_float:1e-3"),
    ]
    path.write_bytes(lines(*cases[:2]) + b"\n  \n" + lines(*cases[2:]))
    done = command("run", str(path))
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [list(found) for found in rows] == [FIELDS] * 5
    assert [found["id"] for found in rows] == ["slow", 2, "wrong", "e", "f"]
    assert [found["status"] for found in rows] == ["success", "success", "wrong_answer", "runtime_exception", "success"]
    assert rows[3]["detail"] == "exit 1: ZeroDivisionError: division by zero"


def test_run_reads_standard_input_and_can_write_every_field(engine: Embedded) -> None:
    done = command("run", "-", "--all-fields", "--json", "--slots", "1", "--time-limit", "5", stdin=lines(row(1)))
    (found,) = [json.loads(line) for line in done.stdout.splitlines()]
    assert found["tier"].startswith("full-") and "interpreter" in found and "marks" in found


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (b"{", "line 2: not JSON"),
        (b"[1]", "line 2: list instead of an object"),
        (lines({"solution": "x", "input": "", "expected_output": ""}), "line 2: field id"),
        (lines(row(True)), "line 2: field id"),
        (lines(row(1, input=3)), "line 2: field input must be text"),
        (lines(row(1, solution=None)), "line 2: field solution must be text"),
        (lines({"id": 1, "solution": "x", "input": ""}), "line 2: field expected_output"),
        (lines(row(1, comparator="fuzzy")), "line 2: comparator 'fuzzy' is unknown"),
        (lines(row(1, input="\ud800")), "line 2: field input has a lone surrogate"),
        (b"\xff\xfe", "line 2: not JSON"),
        (b"[" * 100_000, "line 2: not JSON"),
        (lines(row("\ud800")), "line 2: field id has a lone surrogate"),
    ],
)
def test_bad_lines_are_named(bad: bytes, message: str) -> None:
    source = [*lines(row("good")).splitlines(), *bad.split(b"\n")[:1]]
    seen = []
    with pytest.raises(SourceError, match=message):
        for found in run_cases(FakeEngine(), read_cases(source, "cases.jsonl")):
            seen.append(found["id"])
    assert seen == ["good"]


def test_a_bad_line_is_one_line_of_error_and_exit_2(engine: Embedded) -> None:
    done = command("run", "-", stdin=lines(row("good")) + b"{bad\n" + lines(row("after")))
    assert done.returncode == 2
    assert [json.loads(line)["id"] for line in done.stdout.splitlines()] == ["good"]
    assert len(done.stderr.splitlines()) == 1 and b"line 2" in done.stderr


def test_a_file_without_a_case_is_named() -> None:
    for source in ([], [b"\n", b"  \n"]):
        with pytest.raises(SourceError, match=r"cases\.jsonl: no cases"):
            list(read_cases(source, "cases.jsonl"))


def test_a_status_that_a_command_asks_for_is_the_process_s(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dmc_optim.ces.engine.tiers.find_v1", lambda: "no version 1")
    monkeypatch.setattr("dmc_optim.ces.engine.tiers.find_v2", lambda _: "no version 2")
    with pytest.raises(SystemExit) as ended:
        main(["ces", "doctor", "--json"])
    assert ended.value.code == 1


def test_results_are_utf8_whatever_the_locale(engine: Embedded, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONIOENCODING", "ascii")
    done = command("run", "-", "--slots", "1", stdin=lines(row("\u00e9", "print('\u6f22' * 99)")))
    (found,) = [json.loads(line) for line in done.stdout.decode("utf-8").splitlines()]
    assert (found["id"], found["status"]) == ("\u00e9", "wrong_answer")


def test_missing_files_and_unusable_options_are_one_line(tmp_path: Path) -> None:
    for path in ("/nowhere.jsonl", str(tmp_path), "a\nb"):
        done = command("run", path)
        assert (done.returncode, b"Traceback" in done.stderr, b"JSON lines" in done.stderr) == (2, False, True)
    for arguments in (["--tier", "castle"], ["--slots", "9999"], ["--ces", "ftp://x"]):
        done = command("run", "-", *arguments, stdin=lines(row(1)))
        assert (done.returncode, len(done.stderr.splitlines())) == (2, 1), done.stderr


def test_doctor_tells_every_tier_and_why_not(engine: Embedded) -> None:
    done = CliRunner().invoke(ces, ["doctor", "--json"])
    assert done.exit_code == 0, done.output
    report = json.loads(done.stdout)
    assert [finding["tier"] for finding in report["findings"]] == ["full-v2", "full-v1", "userns", "rlimit"]
    for finding in report["findings"]:
        assert finding["works"] or finding["reasons"]
    assert report["best"] == engine.plan.tier
    assert report["slots"] >= 1 and "numpy" in report["packages"]
    text = CliRunner().invoke(ces, ["doctor"]).output
    assert f"best tier: {report['best']}" in text


def test_an_engine_that_cannot_start_says_which_step_failed(engine: Embedded) -> None:
    done = command("doctor", "--python", "/bin/false")
    assert done.returncode == 1
    assert b"interpreter /" in done.stderr and len(done.stderr.splitlines()) == 1
