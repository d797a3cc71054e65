"""The whole build on the fake engine: decisions, conservation, order-independence, resume, thresholds, errors."""

import json
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from dmc_optim.config import BuildConfig, FilterabilityConfig, FilterConfig
from dmc_optim.errors import ArtifactError
from pipeline.build import BuildResult, build
from pipeline.request import BuildRequest
from schemas.enums import Stage
from tests.pipeline import naive
from tests.pipeline.conftest import Inputs
from tests.pipeline.corpus import corpus, write_generators, write_source
from transforms.context import EngineSpec

TABLES = (
    "problems clusters solutions tests executions consensus generator_attempts exclusions attrition problem_metrics "
    "filterability splits reference_durations"
).split()


def request(inputs: Inputs, out: Path, **changes: object) -> BuildRequest:
    asked = BuildRequest(
        source=str(inputs.source),
        out=str(out),
        config=BuildConfig(),
        generator=f"recorded:{inputs.generators}",
        engine=EngineSpec("fake"),
    )
    return replace(asked, **changes)  # type: ignore[arg-type]


def run(asked: BuildRequest) -> BuildResult:
    return build(asked, lambda line: None)


def content(out: Path) -> dict[str, list[str]]:
    """Rows of every table as sorted JSON: comparable across shards and orders."""
    return {
        table: sorted(json.dumps(row, sort_keys=True, default=str) for row in naive.rows(out, table))
        for table in TABLES
    }


@pytest.fixture(scope="module")
def built(inputs: Inputs, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("built") / "out"
    run(request(inputs, out))
    return out


def test_every_stage_ran_and_kept_something(built: Path) -> None:
    assert [p.stem for p in sorted((built / "stages").glob("*.json"))] == sorted(s.value for s in Stage)
    assert naive.rows(built, "reference_durations")
    reasons = Counter(r["reason"] for r in naive.rows(built, "exclusions"))
    assert {"file_io", "statement_short", "correct_only", "incorrect_only", "no_correct_left", "no_code"} <= set(
        reasons
    )


def test_every_decision_equals_a_naive_reading(built: Path) -> None:
    assert naive.check(built) == []


def test_conservation_of_every_stage_and_entity(built: Path) -> None:
    found = naive.rows(built, "attrition")
    assert {r["stage"] for r in found} == {s.value for s in Stage}
    for own in (r for r in found if r["reason"] == "total"):
        same = [r for r in found if all(r[k] == own[k] for k in ("stage", "entity", "label")) and r is not own]
        assert sum(r["n_dropped"] for r in same) == own["n_dropped"], own
        assert own["n_in"] + own["n_created"] == own["n_out"] + own["n_dropped"], own
    problems = {r["stage"]: r for r in found if r["entity"] == "problem" and r["reason"] == "total"}
    for before, later in zip(naive.STAGES, naive.STAGES[1:], strict=False):
        assert problems[before]["n_out"] == problems[later]["n_in"], later


def test_a_second_build_redoes_nothing(inputs: Inputs, built: Path) -> None:
    stamps = {p: p.stat().st_mtime_ns for p in built.rglob("*.parquet")}
    again = run(request(inputs, built))
    assert again.ran == []
    assert stamps == {p: p.stat().st_mtime_ns for p in built.rglob("*.parquet")}


def test_a_finished_build_leaves_no_stray_file(built: Path) -> None:
    listed = {
        f"{table}/{name}"
        for record in (built / "stages").glob("*.json")
        for table, names in json.loads(record.read_text())["files"].items()
        for name in names
    }
    assert {f"{p.parent.name}/{p.name}" for p in (built / "tables").rglob("*") if p.is_file()} == listed
    assert not (built / "work").exists()
    assert not (built / "previous").exists()


@pytest.mark.parametrize(("slots", "shards"), [(1, 1), (4, 5)])
def test_rows_do_not_depend_on_order_workers_or_shards(built: Path, tmp_path: Path, slots: int, shards: int) -> None:
    problems = corpus()
    rng = random.Random(slots)
    for problem in problems:
        for items in (problem.correct, problem.incorrect, problem.tests):
            rng.shuffle(items)
    other = Inputs(
        write_source(tmp_path / "train-00000-of-00001.parquet", problems),
        write_generators(tmp_path / "generators.jsonl", problems[::-1]),
    )
    out = tmp_path / "out"
    run(request(other, out, engine=EngineSpec("fake", slots), config=BuildConfig(shards=shards)))
    assert content(out) == content(built)


def test_exhaustive_controls_decide_the_same(inputs: Inputs, built: Path, tmp_path: Path) -> None:
    config = BuildConfig()
    config = replace(config, execution=replace(config.execution, exhaustive_controls=True))
    run(request(inputs, tmp_path / "out", config=config))
    lazy, exhaustive = content(built), content(tmp_path / "out")
    different = {table for table in TABLES if lazy[table] != exhaustive[table]}
    assert different <= {"executions"}
    assert len(exhaustive["executions"]) > len(lazy["executions"])
    record = json.loads((built / "stages" / "filter_correctness.json").read_text())
    assert record["executions"] < record["executions_exhaustive"]


def test_a_changed_threshold_decides_again_from_stored_executions(
    inputs: Inputs, built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    shutil.copytree(built, out)
    asked = count_executions(monkeypatch)
    config = BuildConfig(filterability=FilterabilityConfig(robust_cv=0.9))
    again = run(request(inputs, out, config=config))
    assert again.ran == ["filterability", "split", "datasets"]
    strict = replace(BuildConfig().filter_correctness, max_false_positive_rate=0.0)
    assert isinstance(strict, FilterConfig)
    again = run(request(inputs, out, config=replace(config, filter_correctness=strict)))
    assert again.ran[0] == "filter_correctness"
    assert not asked, "stored executions answer a stricter gate"
    assert content(out)["exclusions"] != content(built)["exclusions"]
    back = run(request(inputs, out))
    assert back.ran[0] == "filter_correctness"
    assert content(out) == content(built)


def count_executions(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    from dmc_optim.ces.fake import FakeEngine

    asked: list[str] = []
    original = FakeEngine.execute

    def counting(self, own):  # type: ignore[no-untyped-def]
        asked.append(own.code.decode())
        return original(self, own)

    monkeypatch.setattr(FakeEngine, "execute", counting)
    return asked


KILLED = """
import sys
from pathlib import Path
from tests.pipeline.conftest import Inputs
from tests.pipeline.test_build_fake import request, run
run(request(Inputs(Path(sys.argv[1]), Path(sys.argv[2])), Path(sys.argv[3])))
"""


def test_a_killed_build_finishes_with_the_same_rows(inputs: Inputs, built: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    rng = random.Random(5)
    kills = 0
    for _ in range(40):
        command = [sys.executable, "-c", KILLED, str(inputs.source), str(inputs.generators), str(out)]
        process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        try:
            process.wait(timeout=2.5 + 2.5 * rng.random())
            break
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.wait()
            kills += 1
            time.sleep(0.05)
    run(request(inputs, out))
    assert kills > 0
    assert content(out) == content(built)
    test_a_finished_build_leaves_no_stray_file(out)


def test_through_stops_and_the_next_run_goes_on(inputs: Inputs, built: Path, tmp_path: Path) -> None:
    first = run(request(inputs, tmp_path / "out", through=Stage.VALIDATE))
    assert first.ran[-1] == "validate"
    assert not json.loads((tmp_path / "out" / "manifest.json").read_text())["complete"]
    second = run(request(inputs, tmp_path / "out"))
    assert second.skipped == first.ran
    assert content(tmp_path / "out") == content(built)


def test_another_configuration_needs_another_directory(inputs: Inputs, built: Path, tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match="limit_problems"):
        run(request(inputs, built, limit_problems=3))
    with pytest.raises(ArtifactError, match="seed"):
        run(request(inputs, built, config=BuildConfig(seed=9)))
    (tmp_path / "holiday.jpg").write_bytes(b"x")
    with pytest.raises(ArtifactError, match="not empty and no build"):
        run(request(inputs, tmp_path))


def test_published_configurations_are_joins_of_the_tables(built: Path) -> None:
    splits = {r["problem_id"]: r for r in naive.rows(built, "splits")}
    durations = {
        (r["problem_id"], r["test_id"], r["solution_id"]): r["duration_s"]
        for r in naive.rows(built, "reference_durations")
    }
    files = sorted((built / "dataset" / "rl_pool").glob("*.parquet"))
    assert files
    seen = set()
    for file in files:
        footer = pq.read_metadata(file).metadata
        assert footer[b"schema_version"] == b"1.0.0"
        for row in pq.read_table(file).to_pylist():
            seen.add(row["problem_id"])
            assert splits[row["problem_id"]]["pool"] == "rl"
            assert splits[row["problem_id"]]["split"] == file.name.split("-")[0]
            for test in row["tests"]:
                for solution, duration in zip(row["solutions"], test["durations_s"], strict=True):
                    assert durations[row["problem_id"], test["test_id"], solution["solution_id"]] == duration
    assert seen == {p for p, r in splits.items() if r["pool"] == "rl"}
    cleaned = [r for f in (built / "dataset" / "cleaned").glob("*.parquet") for r in pq.read_table(f).to_pylist()]
    assert {r["problem_id"] for r in cleaned} == set(splits)
    assert all(r["incorrect_solutions"] for r in cleaned)
    light = [r for f in (built / "dataset" / "lightweight").glob("*.parquet") for r in pq.read_table(f).to_pylist()]
    assert all(len(r["solutions"]) == 1 and len(r["incorrect_solutions"]) == 1 for r in light)
    assert all(t["category"] != "optimization" for r in light for t in r["tests"])
