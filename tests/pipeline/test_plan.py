"""`dmc-optim plan`: its counts recomputed from the rows, its predictions beside what a build on the fake engine did."""

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dmc_optim.artifacts.source import find_files, plan_ranges, read_range
from dmc_optim.config import BuildConfig
from pipeline.build import build
from pipeline.plan import ProblemCounts, upper_bound
from pipeline.plan_like import generator_calls
from pipeline.plan_source import COUNTED_SCHEMA, count_source
from pipeline.request import BuildRequest
from tests.pipeline import naive
from tests.pipeline.corpus import SourceProblem, corpus, text_schema, write_generators, write_source
from tests.pipeline.test_build_command import command, refused
from transforms.context import EngineSpec

STORED = ("validate", "filter_correctness", "filter_optimization")
SYNTHESIS = ("synthesize_correctness", "synthesize_optimization")
ATTEMPTS, CALLS, POOL = 10, 15, 10


@dataclass(frozen=True)
class Built:
    source: Path
    out: Path
    executions: int  # all that the engine was asked for, votes and generator calls included


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    folder = tmp_path_factory.mktemp("plan")
    problems = corpus(seed=3)
    source = write_source(folder / "train.parquet", problems)
    generators = write_generators(folder / "generators.jsonl", problems)
    engine = EngineSpec("fake:3")
    request = BuildRequest(str(source), str(folder / "out"), BuildConfig(), generator=f"recorded:{generators}")
    build(BuildRequest(**{**vars(request), "engine": engine}), lambda line: None)
    return Built(source, folder / "out", engine.connect().executions)  # type: ignore[attr-defined]


def plan(*arguments: object) -> dict[str, Any]:
    done = command("plan", *(str(argument) for argument in arguments), "--json")
    assert done.returncode == 0, done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def stages(document: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {stage["stage"]: stage for stage in document["stages"]}


def record(out: Path, stage: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((out / "stages" / f"{stage}.json").read_text())
    return found


def counted_by_hand(problems: list[SourceProblem], limit: int | None = None) -> dict[str, int]:
    """Executions at most, one by one as the rules name them."""
    found = dict.fromkeys((*STORED, *SYNTHESIS), 0)
    for problem in problems:
        correct, incorrect = problem.correct[:limit], problem.incorrect[:limit]
        if not correct or not incorrect or problem.input_file:
            continue
        found["validate"] += sum(1 for _ in correct + incorrect for _ in set(problem.tests))
        if len(correct) < 2:
            continue
        for _ in range(ATTEMPTS):
            for stage in SYNTHESIS:
                found[stage] += CALLS + sum(CALLS for _ in correct[:POOL]) + CALLS
            found["filter_correctness"] += sum(CALLS for _ in correct + incorrect)
            found["filter_optimization"] += sum(CALLS for _ in correct)
    return found


@pytest.mark.parametrize("limit", [None, 3])
def test_upper_bounds_are_the_rules_counted_one_by_one(built: Built, limit: int | None) -> None:
    document = plan(built.source, *([] if limit is None else ["--limit-solutions", limit]))
    bounds = {name: stage["executions_at_most"] for name, stage in stages(document).items()}
    assert bounds == counted_by_hand(corpus(seed=3), limit)
    assert document["executions_at_most"] == sum(bounds.values())
    assert document["source"]["candidates"] == 14  # 17, less two with one label and one with files
    assert [stage["prompts_at_most"] for stage in document["stages"]] == [None, 140, None, 140, None]


def test_a_limit_on_problems_counts_the_first_rows_only(built: Built) -> None:
    document = plan(built.source, "--limit-problems", 4)
    assert document["source"]["rows"] == 4
    bounds = {name: stage["executions_at_most"] for name, stage in stages(document).items()}
    assert bounds == counted_by_hand(corpus(seed=3)[:4])


def test_bounds_are_never_below_what_a_build_does(built: Built) -> None:
    found = stages(plan(built.source))
    for stage in STORED:
        assert 0 < record(built.out, stage)["executions"] <= found[stage]["executions_at_most"]
    assert built.executions <= sum(stage["executions_at_most"] for stage in found.values())


def test_like_a_build_of_the_same_source_gives_what_that_build_did(built: Built) -> None:
    document = plan(built.source, "--like", built.out)
    found = stages(document)
    for stage in STORED:
        assert found[stage]["executions"] == pytest.approx(record(built.out, stage)["executions"], rel=1e-9)
    attempts = naive.rows(built.out, "generator_attempts")
    for stage in SYNTHESIS:
        campaign = stage.removeprefix("synthesize_")
        assert found[stage]["prompts"] == pytest.approx(sum(row["campaign"] == campaign for row in attempts))
    # The fake's programs that time out in a vote end early, and a vote counts with all its calls.
    assert built.executions <= document["executions"] <= 1.05 * built.executions


def test_like_a_build_of_the_same_source_gives_its_storage(built: Built) -> None:
    tables = {table["table"]: table for table in plan(built.source, "--like", built.out)["tables"]}
    for folder in (built.out / "tables").iterdir():
        files = list(folder.glob("*.parquet"))
        rows = sum(pq.read_metadata(file).num_rows for file in files)
        assert tables[folder.name]["rows"] == pytest.approx(rows, rel=1e-9)
        assert tables[folder.name]["bytes"] == pytest.approx(sum(file.stat().st_size for file in files), rel=1e-9)
    published = sum(file.stat().st_size for file in (built.out / "dataset").rglob("*.parquet"))
    assert tables["dataset"]["bytes"] == pytest.approx(published)


def test_twice_the_source_is_twice_the_work(built: Built, tmp_path: Path) -> None:
    once = pq.read_table(built.source)
    pq.write_table(pa.concat_tables([once, once]), tmp_path / "twice.parquet")
    one, two = plan(built.source, "--like", built.out), plan(tmp_path / "twice.parquet", "--like", built.out)
    assert two["executions"] == pytest.approx(2 * one["executions"])
    assert two["executions_at_most"] == 2 * one["executions_at_most"]
    rows = {table["table"]: table["rows"] for table in one["tables"]}
    for table in two["tables"]:
        if table["rows"] is not None and table["table"] != "attrition":
            assert table["rows"] == pytest.approx(2 * rows[table["table"]])


def test_exhaustive_controls_are_expected_to_run_to_the_end(built: Built, tmp_path: Path) -> None:
    config = tmp_path / "c.toml"
    config.write_text("[execution]\nexhaustive_controls = true\n")
    found = stages(plan(built.source, "--like", built.out, "--config", config))
    for stage in STORED:
        wanted = record(built.out, stage)["executions_exhaustive"]
        assert found[stage]["executions"] == pytest.approx(wanted, rel=0.1)
        assert found[stage]["executions"] > record(built.out, stage)["executions"]


def test_all_attempts_expects_an_answer_to_every_prompt(built: Built) -> None:
    document = plan(built.source, "--like", built.out)
    full = plan(built.source, "--like", built.out, "--all-attempts")
    assert any("30.00% in synthesize_correctness" in note for note in document["notes"])
    assert not any("prompts" in note for note in full["notes"])
    for stage in (*SYNTHESIS, "filter_correctness", "filter_optimization"):
        answered = 10 / 3  # three of ten attempts are recorded
        few, all_of_them = stages(document)[stage], stages(full)[stage]
        assert all_of_them["executions"] == pytest.approx(answered * few["executions"])
        assert all_of_them["executions"] <= all_of_them["executions_at_most"]
    assert stages(full)["validate"] == stages(document)["validate"]


def test_core_hours_are_stage_times_by_slots(built: Built, tmp_path: Path) -> None:
    out = timed(built, tmp_path / "out", seconds=1000.0)
    assert record(built.out, "validate")["slots"] == 2
    document = plan(built.source, "--like", out, "--slots", 8)
    for stage in document["stages"]:
        assert stage["core_hours"] == pytest.approx(2 * 1000 / 3600)
    part = stages(document)["validate"]["parts"][0]
    rows = [row for row in naive.rows(out, "executions") if row["campaign"] == "original"]
    labels = {(r["problem_id"], r["solution_id"]): r["label"] for r in naive.rows(out, "solutions")}
    cpu = [r["cpu_s"] for r in rows if labels[r["problem_id"], r["solution_id"]] == "correct"]
    assert part["cpu_s"] == pytest.approx(sum(cpu) / len(cpu))
    over = (2 * 1000 - sum(row["cpu_s"] for row in rows)) / len(rows)
    assert part["seconds"] == pytest.approx(part["cpu_s"] + over)
    other = sum(record(out, path.stem)["seconds"] for path in (out / "stages").glob("*.json")) - 5 * 1000
    assert document["other_stages_s"] == pytest.approx(other)
    assert document["wall_s"] == pytest.approx(5 * 2 * 1000 / 8 + other)


def test_slots_that_no_record_names_are_the_least_that_the_rows_allow(built: Built, tmp_path: Path) -> None:
    wall = {"original": 0.0, "correctness": 0.0, "optimization": 0.0}
    for row in naive.rows(built.out, "executions"):
        wall[row["campaign"]] += row["wall_s"] or 0.0
    seconds = max(wall.values()) / 2.5  # two and a half at a time: three slots
    document = plan(built.source, "--like", timed(built, tmp_path / "out", seconds=seconds, slots=None))
    assert any("3 is the least" in note for note in document["notes"])
    assert stages(document)["synthesize_correctness"]["core_hours"] == pytest.approx(3 * seconds / 3600)


def timed(built: Built, out: Path, seconds: float, slots: int | None = 2) -> Path:
    """The build as if a real engine had taken `seconds` in each stage that executes."""
    shutil.copytree(built.out, out)
    manifest = json.loads((out / "manifest.json").read_text())
    (out / "manifest.json").write_text(json.dumps(manifest | {"engine": "embedded"}))
    for stage in (*STORED, *SYNTHESIS):
        changed = record(out, stage) | {"seconds": seconds, "slots": slots}
        (out / "stages" / f"{stage}.json").write_text(json.dumps(changed))
    return out


def test_times_of_the_fake_engine_are_not_taken_for_measurements(built: Built) -> None:
    document = plan(built.source, "--like", built.out)
    assert document["core_hours"] is None
    assert document["wall_s"] is None
    assert any("fake engine" in note for note in document["notes"])


def test_without_a_build_there_are_counts_and_bounds_only(built: Built) -> None:
    document = plan(built.source)
    assert (document["core_hours"], document["executions"], document["bytes"]) == (None, None, None)
    done = command("plan", str(built.source))
    assert "at most" in done.stdout
    assert "add --like DIR" in done.stdout
    assert "core-hours  " not in done.stdout


def test_the_text_has_what_was_measured(built: Built, tmp_path: Path) -> None:
    like = timed(built, tmp_path / "out", seconds=3600.0)
    done = command("plan", str(built.source), "--like", str(like), "--slots", "4")
    assert done.returncode == 0
    assert "17 rows, 1 with named files; 14 problems" in done.stdout
    hours = [line.split()[-1] for line in done.stdout.splitlines() if line.startswith(("validate ", "total "))]
    assert hours[2:4] == ["2", "10"]  # below the bounds: a stage of an hour on two slots, and five of them
    assert "At 4 slots: 2.5 h" in done.stdout
    own = [row["accepted"] for row in naive.rows(like, "generator_attempts") if row["campaign"] == "correctness"]
    assert f"  correctness attempts accepted {sum(own) / len(own):.3g}\n" in done.stdout


def test_the_adaptive_option_is_in_the_bound_only(built: Built, tmp_path: Path) -> None:
    config = tmp_path / "c.toml"
    config.write_text("[synthesis]\nadaptive_attempts = 2\n")
    document = plan(built.source, "--like", built.out, "--config", config)
    first, second = (stages(document)[stage] for stage in SYNTHESIS)
    (between,) = [part for part in first["parts"] if part["work"] == "controls between attempts"]
    candidates = [p for p in corpus(seed=3) if p.correct and p.incorrect and not p.input_file]
    most = sum(len(p.incorrect) * (ATTEMPTS + 2) * CALLS for p in candidates if len(p.correct) >= 2)
    assert (between["at_most"], between["expected"]) == (most, None)
    assert second["prompts_at_most"] == len(candidates) * (ATTEMPTS + 2)
    assert document["executions"] is not None
    assert any("controls between attempts" in note for note in document["notes"])


def test_duplicates_languages_files_and_malformed_rows(tmp_path: Path) -> None:
    good = SourceProblem("Good", ["print(1)", "print(2)", "print(1)"], ["print(3)"]).row()
    tests = {"input": ["1\n", "1\n"], "output": ["1\n", "9\n"]}
    languages = {"language": [3, 2, 3, 1], "solution": ["print(3)", "int main(){}", "print(4)", "print 5"]}
    rows = [
        good | {"private_tests": tests, "incorrect_solutions": languages},  # one test is a duplicate, one is not
        good | {"name": None},
        good | {"generated_tests": {"input": ["1"], "output": []}},
        good | {"solutions": None},
        good | {"input_file": "in.txt"},
        good | {"incorrect_solutions": {"language": [2], "solution": ["int main(){}"]}},
    ]
    pq.write_table(pa.Table.from_pylist(rows, schema=text_schema()), tmp_path / "a.parquet")
    source = plan(tmp_path / "a.parquet")["source"]
    assert (source["rows"], source["malformed"], source["uses_files"], source["candidates"]) == (6, 3, 1, 1)
    assert (source["correct"], source["incorrect"], source["other_language"]) == (9, 3, 3)
    assert source["tests"] == 3 + 2 + 2
    found = stages(plan(tmp_path / "a.parquet"))
    assert found["validate"]["executions_at_most"] == (3 + 2) * 3


def test_the_text_of_solutions_is_not_read(built: Built) -> None:
    (span,) = plan_ranges(find_files(str(built.source)), None)
    rows = [row for _, row in read_range(span, COUNTED_SCHEMA)]
    assert [len(row["solutions"]["language"]) for row in rows] == [len(p.correct) for p in corpus(seed=3)]
    assert all(row["solutions"].keys() == {"language"} for row in rows)
    whole = [row for _, row in read_range(span)]
    assert [row["public_tests"] for row in rows] == [row["public_tests"] for row in whole]
    assert len(count_source([span], ("python3",)).problems) == len(whole)


def test_duplicates_in_the_source_are_expected_to_collapse(tmp_path: Path) -> None:
    problems = corpus(seed=5, size=4)
    for problem in problems:
        problem.correct += problem.correct  # every correct solution is listed twice
    source = write_source(tmp_path / "train.parquet", problems)
    request = BuildRequest(str(source), str(tmp_path / "out"), BuildConfig(), engine=EngineSpec("fake"))
    build(request, lambda line: None)
    found = stages(plan(source, "--like", tmp_path / "out"))["validate"]
    assert found["executions"] == pytest.approx(record(tmp_path / "out", "validate")["executions"])
    correct, _ = found["parts"]
    assert correct["expected"] <= correct["at_most"] / 2


@pytest.mark.parametrize(
    ("reason", "detail", "calls"),
    [
        (None, None, 15),
        ("no_code", "no Python code in the answer", 0),
        ("too_few_solutions", "1 verified solutions, 2 must agree", 0),
        ("generator_crashed", "call 00-edge: ValueError: no", 1),
        ("generator_timeout", "call 07-large: cpu limit", 8),
        ("generator_crashed", "call 03-edge: ended without an answer", 15),
        ("input_too_large", "call 01-large: over 1048576 bytes", 2),
        ("input_too_large", "call 01-large: 1048590 bytes, at most 1048576", 15),
        ("wrong_type", "call 01-small: returned list", 15),
        ("no_consensus", "", 15),
    ],
)
def test_calls_that_an_attempt_had(reason: str | None, detail: str | None, calls: int) -> None:
    assert generator_calls(reason, detail, 15) == calls


def test_a_share_of_duplicates_takes_no_program_away() -> None:
    counts = ProblemCounts(correct=2, incorrect=2, tests=1).limited(None, (0.99, 0.5))
    whole = upper_bound([counts], BuildConfig())
    assert sum(whole.parts.values()) > counts.correct + counts.incorrect  # two solutions still agree


def test_bad_input_is_one_line_as_for_build(built: Built, tmp_path: Path) -> None:
    refused(command("plan", str(tmp_path / "none.parquet")), "none.parquet", "no such file")
    broken = tmp_path / "broken.parquet"
    broken.write_bytes(b"PAR1 not really")
    refused(command("plan", str(broken)), "broken.parquet", "not a readable Parquet file")
    pq.write_table(text_schema().empty_table(), tmp_path / "empty.parquet")
    refused(command("plan", str(tmp_path / "empty.parquet")), "no rows")
    pq.write_table(pa.table({"name": ["a"]}), tmp_path / "few.parquet")
    refused(command("plan", str(tmp_path / "few.parquet")), "columns missing")
    source = str(built.source)
    refused(command("plan", source, "--limit-problems", "0"), "--limit-problems must be at least 1")
    refused(command("plan", source, "--slots", "0"), "--slots")
    config = tmp_path / "c.toml"
    config.write_text("[synthesis]\natempts = 3\n")
    refused(command("plan", source, "--config", str(config)), "c.toml", "did you mean 'synthesis.attempts'")


def test_a_build_to_be_like_that_is_none(built: Built, tmp_path: Path) -> None:
    source = str(built.source)
    refused(command("plan", source, "--like", str(tmp_path / "none")), "none", "no such directory")
    refused(command("plan", source, "--like", ""), "--like", "give the directory")
    refused(command("plan", source, "--like", str(tmp_path)), "no manifest.json there")
    half = tmp_path / "half"
    shutil.copytree(built.out, half)
    (half / "stages" / "split.json").unlink()
    refused(command("plan", source, "--like", str(half)), "not a finished build", "split")


def test_the_bundled_corpus_is_the_default() -> None:
    document = plan()
    assert document["source"]["rows"] == 36
    assert stages(document)["synthesize_correctness"]["prompts_at_most"] == 4 * document["source"]["candidates"]
