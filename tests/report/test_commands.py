"""status, why, audit, diff and report as a person runs them, good and bad input."""

import fcntl
import json
import shutil
from pathlib import Path

import fsspec
import pyarrow.parquet as pq
import pytest

from tests.audit.small_build import SmallBuild
from tests.report.conftest import Run

COMMANDS = (["status"], ["audit"], ["audit", "--check"], ["report"], ["why", "train/0"])


def one_line(text: str) -> str:
    assert text.count("\n") == 1, text
    assert "Traceback" not in text
    return text.strip()


def with_directory(command: list[str], directory: Path) -> list[str]:
    return [command[0], str(directory), *command[1:]]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_missing_directory_is_one_clear_line(run: Run, command: list[str], tmp_path: Path) -> None:
    outcome = run(*with_directory(command, tmp_path / "nowhere"))
    assert outcome.code == 2
    assert one_line(outcome.err).endswith("nowhere: no such directory")


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_directory_that_is_no_build_is_one_clear_line(run: Run, command: list[str], tmp_path: Path) -> None:
    outcome = run(*with_directory(command, tmp_path))
    assert outcome.code == 2
    assert "no manifest.json there; is it the --out of a `dmc-optim build`?" in one_line(outcome.err)


@pytest.fixture
def copy(small: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(small, tmp_path / "copy"))


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_truncated_file_is_one_clear_line(run: Run, command: list[str], copy: Path) -> None:
    victim = copy / "tables" / "solutions" / "ingest-00000.parquet"
    victim.write_bytes(victim.read_bytes()[:-100])
    outcome = run(*with_directory(command, copy))
    assert outcome.code == 2
    line = one_line(outcome.err)
    assert str(victim) in line
    assert line.endswith("remove it and build again")


def test_a_file_of_another_schema_is_named(run: Run, copy: Path) -> None:
    victim = copy / "tables" / "splits" / "split-00000.parquet"
    pq.write_table(pq.read_table(victim).drop_columns("pool"), victim)
    outcome = run("status", copy)
    assert (outcome.code, one_line(outcome.err)) == (
        2,
        f"error: {victim}: no column 'pool' (table splits); build it again",
    )


def test_another_major_schema_version_is_refused(run: Run, copy: Path) -> None:
    manifest = json.loads((copy / "manifest.json").read_text())
    (copy / "manifest.json").write_text(json.dumps(manifest | {"schema_version": "2.0.0"}))
    outcome = run("audit", copy)
    assert outcome.code == 2
    assert "schema version 2.0.0" in one_line(outcome.err)


def test_a_broken_manifest_is_one_clear_line(run: Run, copy: Path) -> None:
    (copy / "manifest.json").write_text("{")
    outcome = run("status", copy)
    assert outcome.code == 2
    assert "not valid JSON" in one_line(outcome.err)
    (copy / "manifest.json").write_text("{}")
    outcome = run("publish", copy, "--repo-id", "a/b", "--dry-run")
    assert outcome.code == 2
    assert "its manifest.json is not of a build" in one_line(outcome.err)


# audit


def test_audit_lists_the_tables(run: Run, small: Path, rows: SmallBuild) -> None:
    outcome = run("audit", small, "--json")
    assert outcome.code == 0
    counts = {row["table"]: row["rows"] for row in json.loads(outcome.out)}
    assert counts == {name: len(own) for name, own in rows.tables.items()}


def test_audit_answers_sql_as_table_and_json(run: Run, small: Path) -> None:
    query = "SELECT reason, count(*) AS n FROM exclusions WHERE entity = 'problem' GROUP BY reason ORDER BY reason"
    assert run("audit", small, "--sql", query).out.splitlines()[0].split() == ["reason", "n"]
    found = json.loads(run("audit", small, "--sql", query, "--json").out)
    assert found[0] == {"reason": "correct_only", "n": 1}
    assert len(found) == 7


def test_survivor_views_agree_with_the_ledger(run: Run, small: Path) -> None:
    query = "SELECT entity, count(*) AS n FROM survivors_filter_correctness GROUP BY entity ORDER BY entity"
    found = {row["entity"]: row["n"] for row in json.loads(run("audit", small, "--sql", query, "--json").out)}
    assert found["problem"] == 4
    ledger = "SELECT sum(n_out)::INT AS n FROM attrition WHERE stage = 'filter_correctness' AND entity = 'test' "
    (total,) = json.loads(run("audit", small, "--sql", ledger + "AND reason = 'total'", "--json").out)
    assert found["test"] == total["n"]


@pytest.mark.parametrize("query", ["SELEC 1", "SELECT nothing FROM problems", "SELECT * FROM nowhere", "SELECT 1 +"])
def test_bad_sql_is_one_clear_line(run: Run, small: Path, query: str) -> None:
    outcome = run("audit", small, "--sql", query)
    assert outcome.code == 2
    assert one_line(outcome.err).startswith("error: --sql: ")


def test_sql_and_check_exclude_each_other(run: Run, small: Path) -> None:
    outcome = run("audit", small, "--sql", "SELECT 1", "--check")
    assert outcome.code == 2
    assert "not both" in outcome.err


def test_check_of_a_sound_build(run: Run, small: Path) -> None:
    outcome = run("audit", small, "--check")
    assert outcome.code == 0
    assert outcome.out.endswith("checks, no violation\n")


def test_check_of_a_broken_build_names_rule_rows_and_examples(run: Run, tmp_path: Path) -> None:
    build = SmallBuild()
    build.rows("splits", problem_id="train/7")[0]["split"] = "test"
    outcome = run("audit", build.write(tmp_path), "--check")
    assert outcome.code == 1
    assert "splits: clusters stay whole: 1 rows" in outcome.out
    assert "train/7:test" in outcome.out
    found = json.loads(run("audit", tmp_path, "--check", "--json").out)
    assert [(v["check"], v["rows"]) for v in found["violations"]] == [("splits: clusters stay whole", 1)]


def test_missing_and_stray_files_are_violations(run: Run, copy: Path) -> None:
    shutil.copy(copy / "tables" / "splits" / "split-00000.parquet", copy / "tables" / "splits" / "split-00007.parquet")
    (copy / "tables" / "clusters" / "dedup-00000.parquet").unlink()
    outcome = run("audit", copy, "--check")
    assert outcome.code == 1
    assert "files: none missing: 1 rows" in outcome.out
    assert "e.g. file=tables/splits/split-00007.parquet" in outcome.out


# status


def test_status_of_a_complete_build(run: Run, small: Path) -> None:
    outcome = run("status", small)
    assert outcome.code == 0
    assert outcome.out.startswith(f"{small}: complete")
    (line,) = (line for line in outcome.out.splitlines() if line.startswith("ingest"))
    assert line.split()[:6] == ["ingest", "done", "10", "8", "12,275", "1.5"]
    assert line.endswith("malformed_row 1, file_io 1")
    document = json.loads(run("status", small, "--json").out)
    assert document["complete"] is True
    assert {row["stage"]: row["n_out"] for row in document["stages"]}["filterability"] == 2


def test_status_of_a_build_under_way(run: Run, copy: Path) -> None:
    for stage in ("split", "datasets"):
        (copy / "stages" / f"{stage}.json").unlink()
    (copy / "work" / "split-0123456789abcdef").mkdir(parents=True)
    document = json.loads(run("status", copy, "--json").out)
    states = {row["stage"]: row["state"] for row in document["stages"]}
    assert (states["filterability"], states["split"], states["datasets"]) == ("done", "partial", "missing")
    outcome = run("status", copy)
    assert "2 stages to go, next: split" in outcome.out
    assert "same `dmc-optim build` command" in outcome.out


def test_status_says_whether_a_build_runs(run: Run, copy: Path) -> None:
    (copy / "stages" / "datasets.json").unlink()
    (copy / "work" / "datasets-0123456789abcdef").mkdir(parents=True)
    with (copy / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert " running " in run("status", copy).out
    assert " partial " in run("status", copy).out


def test_a_build_on_another_file_system_reads_the_same(small: Path, run: Run) -> None:
    memory = fsspec.filesystem("memory")
    memory.put(str(small), "/elsewhere", recursive=True)
    try:
        assert run("status", "memory://elsewhere").out.count(" done ") == 12
        assert run("audit", "memory://elsewhere", "--sql", "SELECT count(*) AS n FROM problems", "--json").out == (
            run("audit", small, "--sql", "SELECT count(*) AS n FROM problems", "--json").out
        )
    finally:
        memory.rm("/elsewhere", recursive=True)


# why


@pytest.mark.parametrize(
    ("problem", "lines"),
    [
        (
            "train/2",
            ["100% of the entering incorrect solutions pass the suite, 5% allowed", "→ dropped by filter_corr"],
        ),
        ("train/4", ["the statement has 11 characters, 80 are needed"]),
        ("train/5", ["row train/5", "lists of unequal length"]),
        ("train/1", ["robust CV 0, 0.3 needed (Eq. 6)", "kept in the complement pool"]),
        ("train/0", ["near-duplicate of train/7", "33.33% of the verified-correct solutions time out", "split train"]),
        ("P8", ["no generated optimization test is left", "attempt 1 rejected, no_consensus"]),
    ],
)
def test_why_tells_what_decided(run: Run, small: Path, problem: str, lines: list[str]) -> None:
    outcome = run("why", small, problem)
    assert outcome.code == 0
    for line in lines:
        assert line in outcome.out


def test_why_of_solutions_and_tests(run: Run, small: Path, rows: SmallBuild) -> None:
    lost = run("why", small, rows.id("0/c5")).out
    assert f"not successful on {rows.id('0/correctness2')} (wrong_answer)" in lost
    assert lost.splitlines()[-1] == "  → dropped by filter_correctness: fails_suite"
    kept = run("why", small, rows.id("0/c1")[:6]).out
    assert "reference on 30 tests" in kept
    late = json.loads(run("why", small, rows.id("0/correctness0"), "--json").out)
    (drop,) = (event for event in late["events"] if event["reason"])
    assert (drop["stage"], drop["reason"], drop["threshold"]) == ("filter_correctness", "timeout_fraction", 0.2)
    assert drop["value"] == pytest.approx(1 / 3)
    fallen = run("why", small, rows.id("2/c0")).out
    assert "its problem was dropped" in fallen


def test_why_of_an_ambiguous_id_lists_what_it_may_mean(run: Run, tmp_path: Path) -> None:
    build = SmallBuild()
    twin = dict(build.rows("solutions", solution_id=build.id("0/c0"))[0], problem_id="train/1")
    build.tables["solutions"].append(twin)
    outcome = run("why", build.write(tmp_path), build.id("0/c0"))
    assert outcome.code == 2
    assert f"train/0:{build.id('0/c0')}" in outcome.err
    assert f"train/1:{build.id('0/c0')}" in outcome.err
    assert run("why", tmp_path, f"train/1:{build.id('0/c0')}").code == 0


def test_why_of_a_solution_that_ingest_set_aside(run: Run, tmp_path: Path) -> None:
    build = SmallBuild()
    for own, reason in (("a" * 16, "contradictory_label"), ("b" * 16, "other_language")):
        build.tables["exclusions"].append(
            dict(build.tables["exclusions"][0], problem_id="train/0", entity="solution", entity_id=own, reason=reason)
        )
    outcome = run("why", build.write(tmp_path), "aaaa")
    assert outcome.code == 0
    assert "its code is not stored" in outcome.out
    assert "dropped by ingest: contradictory_label" in outcome.out
    problem = run("why", tmp_path, "train/0").out
    assert "1 solution dropped, contradictory_label: the same code is listed as correct and as incorrect" in problem
    assert "1 solution dropped, other_language: its language is not among the configured ones" in problem
    assert "None" not in problem


@pytest.mark.parametrize("wanted", ["train/99", "abc", "zzzzzz", "train/99:0123456789abcdef", ""])
def test_why_of_an_unknown_id_is_one_clear_line(run: Run, small: Path, wanted: str) -> None:
    outcome = run("why", small, wanted)
    assert outcome.code == 2
    assert one_line(outcome.err).startswith(f"error: no problem, solution or test '{wanted}'")


# diff


def test_diff_of_a_build_with_itself(run: Run, small: Path) -> None:
    assert run("diff", small, small).out == "no decision changed\n"


def test_diff_names_settings_outcomes_and_consequences(run: Run, small: Path, tmp_path: Path) -> None:
    build = SmallBuild()
    gone = ("false_positive_rate", "fails_suite")
    build.tables["exclusions"] = [row for row in build.tables["exclusions"] if row["reason"] not in gone]
    own = {"solution_id": build.id("0/c5"), "test_id": build.id("0/correctness2")}
    build.rows("executions", **own)[0]["status"] = "success"
    build.rows("splits", problem_id="train/7")[0]["split"] = "test"
    manifest = json.loads((build.write(tmp_path) / "manifest.json").read_text())
    manifest["config"]["filter_correctness"]["max_false_positive_rate"] = 1.0
    (tmp_path / "manifest.json").write_text(json.dumps(manifest))
    found = json.loads(run("diff", small, tmp_path, "--json").out)
    assert found["settings"] == [
        {"key": "filter_correctness.max_false_positive_rate", "before": "0.05", "after": "1.0"}
    ]
    causes = {(c["entity"], c["problem_id"], c["entity_id"]): c["cause"] for c in found["changes"]}
    assert causes["problem", "train/2", "train/2"] == "setting filter_correctness.max_false_positive_rate 0.05 → 1.0"
    assert causes["solution", "train/0", build.id("0/c5")] == "1 executions of it had another outcome"
    assert causes["solution", "train/2", build.id("2/c0")] == "its problem's fate changed"
    assert causes["problem", "train/7", "train/7"] == "the pool that is split has other problems"
    text = run("diff", small, tmp_path).out
    assert "because its problem's fate changed" in text
    assert build.id("2/c0") not in text
    assert build.id("2/c0") in run("diff", small, tmp_path, "--all").out


def test_diff_says_what_only_one_build_has(run: Run, small: Path, tmp_path: Path) -> None:
    build = SmallBuild()
    build.tables["problems"] = [row for row in build.tables["problems"] if row["problem_id"] != "train/6"]
    build.tables["tests"] = [row for row in build.tables["tests"] if row["problem_id"] != "train/6"]
    found = json.loads(run("diff", small, build.write(tmp_path), "--json").out)
    assert {c["cause"] for c in found["changes"]} == {"only in the first build"}


# report


def test_report_prints_writes_and_refuses(run: Run, small: Path, tmp_path: Path) -> None:
    assert "Problems after each stage (Table 10)" in run("report", small).out
    page = tmp_path / "pages" / "report.html"
    assert run("report", small, "-o", page).code == 0
    html = page.read_text(encoding="utf-8")
    assert html.count("<svg") >= 10
    assert "http" not in html.replace("http://www.w3.org", "")  # nothing is loaded from elsewhere
    markdown = tmp_path / "report.md"
    assert run("report", small, "-o", markdown).code == 0
    assert "| after ingest | 8 | 12,275 |" in markdown.read_text(encoding="utf-8")
    figures = json.loads(run("report", small, "--json").out)
    assert figures["funnel"]["measures"]["complete"]["ours"] == 3
    assert run("report", small, "-o", tmp_path / "report.pdf").code == 2
    (tmp_path / "file").write_text("")
    outcome = run("report", small, "-o", tmp_path / "file" / "report.html")
    assert outcome.code == 2
    assert "cannot be written" in one_line(outcome.err)


def test_every_command_has_an_example(run: Run) -> None:
    for command in ("status", "why", "audit", "diff", "report", "publish", "rank"):
        text = run(command, "--help").out
        assert f"dmc-optim {command} " in text.split("Example")[1]
