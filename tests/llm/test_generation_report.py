"""The generation report on a small build whose every row is known."""

import json

import pytest
from click.testing import CliRunner

from dmc_optim.cli.generate import generate
from dmc_optim.errors import ArtifactError
from dmc_optim.llm.generation_report import generation_report, report_text
from tests.audit.small_build import SmallBuild

METHODS = {"correctness": ("edge", "small", "sample"), "optimization": ("edge", "large", "sample")}


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    build = SmallBuild()
    for row in build.tables["tests"]:
        if row["generator_attempt"] is not None:
            call = row["input"].count("x")
            row["generator_method"] = METHODS[row["category"]][call % 3]
    for row in build.rows("exclusions", entity="attempt", problem_id="train/8", stage="synthesize_optimization"):
        row["detail"] = "call 01-large: MemoryError"
    for attempt in (0, 1):
        usage = {"problem_id": "train/0", "campaign": "correctness", "attempt": attempt, "model": "m"}
        usage |= {"prompt_tokens": 1000, "completion_tokens": 300, "latency_s": 2.0 + attempt, "cost_usd": 0.01}
        build.tables["generation_usage"].append(usage)
    return str(build.write(tmp_path_factory.mktemp("build")))


@pytest.fixture(scope="module")
def report(out):
    return generation_report(out)


def test_campaigns_are_counted_as_in_table_12(report):
    correctness, optimization = report["campaigns"]
    assert (correctness["problems"], correctness["with_accepted"], correctness["attempts"]) == (5, 5, 10)
    assert (correctness["acceptance"], correctness["tests"], correctness["tests_per_problem"]) == (0.5, 75, 15.0)
    assert (optimization["problems"], optimization["with_accepted"]) == (4, 3)
    assert (optimization["share_with_accepted"], optimization["acceptance"]) == (0.75, 3 / 8)
    assert optimization["tests"] == optimization["distinct_tests"] == 45 and optimization["duplicate_share"] == 0
    assert correctness["paper"]["tests"] == 430_215


def test_collapsed_tests_are_the_duplicate_share(tmp_path):
    build = SmallBuild()
    gone = build.rows("tests", category="correctness")[:25]
    build.tables["tests"] = [row for row in build.tables["tests"] if row not in gone]
    correctness = generation_report(str(build.write(tmp_path)))["campaigns"][0]
    assert (correctness["tests"], correctness["distinct_tests"]) == (75, 50)
    assert correctness["duplicate_share"] == pytest.approx(1 / 3) and correctness["distinct_per_accepted"] == 10.0


def test_outcomes_and_problems(report):
    outcomes = {(row["campaign"], row["outcome"]): (row["attempts"], row["share"]) for row in report["outcomes"]}
    assert outcomes == {
        ("correctness", "accepted"): (5, 0.5),
        ("correctness", "no_consensus"): (5, 0.5),
        ("optimization", "accepted"): (3, 0.375),
        ("optimization", "no_consensus"): (5, 0.625),
    }
    worst = report["problems"][0]
    assert (worst["problem_id"], worst["campaign"], worst["accepted"]) == ("train/8", "optimization", 0)
    assert worst["commonest_rejection"] == "no_consensus" and len(report["problems"]) == 9


def test_methods_count_tests_removals_rejections_and_durations(report):
    methods = {(row["campaign"], row["method"]): row for row in report["methods"]}
    assert set(methods) == {(campaign, method) for campaign, names in METHODS.items() for method in names}
    assert methods["correctness", "edge"]["tests"] == 25 and methods["correctness", "edge"]["share_removed"] == 1 / 25
    assert methods["correctness", "small"]["share_removed"] == 1 / 25
    assert methods["optimization", "large"]["attempts_rejected_at"] == 2
    assert methods["optimization", "large"]["tests"] == 15
    assert methods["optimization", "large"]["median_s"] > methods["correctness", "small"]["median_s"]


def test_spread_compares_the_same_problems(report):
    assert [row["category"] for row in report["spread"]] == ["original", "correctness", "optimization"]
    assert {row["problems"] for row in report["spread"]} == {3}
    original, _, optimization = report["spread"]
    assert (original["cv_at_least_0_3"], optimization["cv_at_least_0_3"]) == (0, 2)
    assert optimization["median_iqr_s"] > original["median_iqr_s"]


def test_usage_is_summed(report):
    assert report["usage"] == [
        {
            "campaign": "correctness",
            "model": "m",
            "answers": 2,
            "prompt_tokens": 2000,
            "completion_tokens": 600,
            "median_latency_s": 2.5,
            "cost_usd": 0.02,
        }
    ]


def test_the_command_prints_text_and_json(out, report):
    text = CliRunner().invoke(generate, ["report", out], catch_exceptions=False).output
    assert text == report_text(report) + "\n"
    assert "correctness (paper)" in text and "no_consensus" in text and "430,215" in text
    printed = CliRunner().invoke(generate, ["report", out, "--json"], catch_exceptions=False).output
    assert json.loads(printed)["campaigns"][0]["problems"] == 5


def test_a_directory_without_attempts_is_one_clear_line(tmp_path):
    build = SmallBuild()
    build.tables["generator_attempts"] = []
    with pytest.raises(ArtifactError, match="no generator attempts yet"):
        generation_report(str(build.write(tmp_path)))
    with pytest.raises(ArtifactError, match="no such directory"):
        generation_report(str(tmp_path / "absent"))
