"""`dmc-optim build` as a user types it, bad input above all: one clear line, the right exit status, no traceback."""

import contextlib
import io
import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dmc_optim.cli.main import main
from tests.pipeline import naive
from tests.pipeline.conftest import Inputs
from tests.pipeline.corpus import SourceProblem, text_schema


@dataclass
class Done:
    returncode: int
    stdout: str
    stderr: str


def command(*arguments: str) -> Done:
    """The entry point in this process: what a shell would see, without an interpreter's start for every case."""
    out, err = io.StringIO(), io.StringIO()
    status = 0
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main(list(arguments))
        except SystemExit as ended:
            status = int(ended.code or 0)
    return Done(status, out.getvalue(), err.getvalue())


def build(source: Path | str, out: Path | str, *more: str) -> Done:
    return command("build", "--source", str(source), "--out", str(out), "--ces", "fake", *more)


def refused(done: Done, *says: str, status: int = 2) -> None:
    assert done.returncode == status, done.stderr
    assert "Traceback" not in done.stderr
    (line,) = [line for line in done.stderr.splitlines() if line.startswith(("error:", "Error:"))]
    for words in says:
        assert words in line


def source_table(**changes: Any) -> pa.Table:
    row = SourceProblem("Sum", ["print(1)"], ["print(2)"]).row() | changes
    return pa.Table.from_pylist([row], schema=text_schema())


def test_the_installed_command_has_help_with_an_example() -> None:
    line = [sys.executable, "-m", "dmc_optim.cli.main", "build", "--help"]
    done = subprocess.run(line, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0
    assert "dmc-optim build --out out" in done.stdout


def test_sources_that_cannot_be_used(tmp_path: Path) -> None:
    refused(build(tmp_path / "none.parquet", tmp_path / "out"), "none.parquet", "no such file")
    broken = tmp_path / "broken.parquet"
    broken.write_bytes(b"PAR1 not really")
    refused(build(broken, tmp_path / "out"), "broken.parquet", "not a readable Parquet file")
    empty = tmp_path / "empty.parquet"
    pq.write_table(text_schema().empty_table(), empty)
    refused(build(empty, tmp_path / "out"), "empty.parquet", "no rows")
    refused(build(tmp_path / "*.nothing", tmp_path / "out"), "no such file")
    assert not (tmp_path / "out").exists()


def test_columns_that_are_missing_or_of_the_wrong_type(tmp_path: Path) -> None:
    file = tmp_path / "a.parquet"
    pq.write_table(source_table().drop_columns(["solutions", "time_limit"]), file)
    refused(build(file, tmp_path / "out"), "a.parquet", "columns missing: solutions, time_limit")
    table = source_table()
    index = table.schema.get_field_index("description")
    pq.write_table(table.set_column(index, "description", pa.array([5])), file)
    refused(build(file, tmp_path / "out"), "a.parquet", "description", "int64", "string")


def test_options_that_cannot_be_used(inputs: Inputs, tmp_path: Path) -> None:
    out = tmp_path / "out"
    config = tmp_path / "c.toml"
    config.write_text("[filterability]\nrobust_vc = 0.5\n")
    refused(build(inputs.source, out, "--config", str(config)), "c.toml", "robust_vc", "did you mean")
    config.write_text("[execution]\ntime_limit_s = 0\n")
    refused(build(inputs.source, out, "--config", str(config)), "execution.time_limit_s", "positive")
    config.write_text("[execution\n")
    refused(build(inputs.source, out, "--config", str(config)), "not a readable TOML")
    refused(build(inputs.source, out, "--limit-problems", "0"), "--limit-problems must be at least 1")
    refused(build(inputs.source, out, "--generator", "chatbot"), "--generator", "recorded:FILE.jsonl")
    refused(build(inputs.source, out, "--generator", "recorded:/no/such.jsonl"), "/no/such.jsonl")
    refused(build(inputs.source, out, "--benchmark", "/no/such.parquet"), "--benchmark /no/such.parquet")
    refused(build(inputs.source, out, "--through", "everything"), "--through")
    benchmark = tmp_path / "b.jsonl"
    benchmark.write_text('{"text": "no statement"}\n')
    refused(build(inputs.source, out, "--benchmark", str(benchmark)), "b.jsonl", "none of statement")
    (tmp_path / "file").write_text("x")
    refused(build(inputs.source, tmp_path / "file"), "is a file")
    refused(build(inputs.source, tmp_path / "file" / "out"), "file/out: cannot be used: Not a directory")


def test_a_directory_of_something_else(inputs: Inputs, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    refused(build(inputs.source, tmp_path), "not empty and no build")
    assert (tmp_path / "notes.txt").read_text() == "mine"


def test_bad_rows_lose_nothing(tmp_path: Path) -> None:
    good = SourceProblem("Good", ["print(1)"], ["print(2)"])
    rows = [
        good.row(),
        good.row() | {"name": "Null", "description": None},
        good.row() | {"name": "Unequal", "solutions": {"language": [3, 3], "solution": ["print(1)"]}},
        good.row() | {"name": "No tests", "public_tests": {"input": [], "output": []}},
    ]
    table = pa.Table.from_pylist(rows, schema=text_schema())
    column = table.schema.get_field_index("description")
    descriptions = table.column("description").cast(pa.binary()).to_pylist()
    descriptions[0] = b"\xff\xfe broken"
    table = table.set_column(column, "description", pa.array(descriptions, pa.binary()))
    pq.write_table(table, tmp_path / "train.parquet")
    out = tmp_path / "a name [1] that is no * pattern?"
    done = build(tmp_path / "train.parquet", out, "--through", "validate")
    assert done.returncode == 0, done.stderr
    excluded = {r["problem_id"]: (r["entity"], r["reason"]) for r in naive.rows(out, "exclusions")}
    assert excluded == {
        "train/0": ("row", "malformed_row"),
        "train/1": ("row", "malformed_row"),
        "train/2": ("row", "malformed_row"),
        "train/3": ("problem", "no_tests"),
    }


def test_recorded_answers_for_unknown_problems_are_said_and_kept(inputs: Inputs, tmp_path: Path) -> None:
    generators = tmp_path / "g.jsonl"
    row = {"problem_id": "train/999", "campaign": None, "attempt": 0, "completion": "x"}
    generators.write_text(json.dumps(row) + "\n")
    done = build(inputs.source, tmp_path / "out", "--generator", f"recorded:{generators}", "--through", "ingest")
    assert done.returncode == 0
    assert "1 problems are not in the source" in done.stderr
    assert "train/999" in done.stderr


def test_progress_is_plain_lines_without_a_terminal_and_json_is_json(inputs: Inputs, tmp_path: Path) -> None:
    done = build(inputs.source, tmp_path / "out", "--through", "controls")
    assert [line.split()[0] for line in done.stderr.splitlines()] == ["ingest", "dedup", "controls"]
    assert "\x1b" not in done.stderr
    assert "correct_only" in done.stdout
    assert "Next: the same command without --through" in done.stdout
    again = build(inputs.source, tmp_path / "out", "--through", "controls", "--json")
    figures = json.loads(again.stdout)
    assert figures["ran"] == []
    assert figures["skipped"] == ["ingest", "dedup", "controls"]
    stages = {stage["stage"]: stage for stage in figures["stages"]}
    assert stages["controls"]["dropped"] == {"correct_only": 1, "incorrect_only": 1}


@pytest.mark.parametrize("runner", ["NoSuchRunner"])
def test_an_unknown_runner_is_one_line(inputs: Inputs, tmp_path: Path, runner: str) -> None:
    refused(build(inputs.source, tmp_path / "out", "--runner", runner), runner, status=2)


@pytest.mark.parametrize(
    "interruption", [KeyboardInterrupt(), RuntimeError("Query interrupted")], ids=["here", "duckdb"]
)
def test_an_interruption_is_one_line(
    inputs: Inputs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, interruption: BaseException
) -> None:
    def interrupted(*arguments: object) -> None:
        raise interruption

    monkeypatch.setattr("pipeline.runner.run", interrupted)
    done = build(inputs.source, tmp_path / "out")
    assert done.returncode == 130
    assert done.stderr.strip() == "interrupted; the same command goes on where it stopped"
