"""The sources of the bundled corpus keep what examples/README.md promises, as far as that shows without a run."""

import ast
from itertools import combinations

import pytest

from dmc_optim.config import DedupConfig, load_config
from dmc_optim.llm.extract import extract_generator
from examples import assemble
from schemas.enums import AttemptReason, Reason, Stage
from transforms import dedup
from transforms.ingest import solution_id

EXPECTED = assemble.expected()
KEPT = [row["slug"] for row in EXPECTED["rows"] if row["outcome"] == "rl"]
COMPLEMENT = [row["slug"] for row in EXPECTED["rows"] if row["outcome"] == "complement"]
READING_REASONS = {"no_code", "no_class", "not_parseable", "truncated"}


def python_codes(slug, label):
    return [p.read_text(encoding="utf-8") for p in assemble.solution_files(slug, label) if p.suffix == ".py"]


def generator_files(slug, campaign):
    folder = assemble.HERE / "problems" / slug / "generators"
    files = {}
    for path in folder.glob("*"):
        name, _, attempt = path.stem.rpartition("-")
        if name in (campaign, "any"):
            assert int(attempt) not in files, f"{slug}: two answers to attempt {attempt} of {campaign}"
            files[int(attempt)] = path
    return files


def test_at_least_eight_problems_are_kept():
    assert len(KEPT) >= 8


@pytest.mark.parametrize("slug", KEPT)
def test_a_kept_problem_has_enough_of_everything(slug):
    lost = {x["file"] for x in EXPECTED["solutions"] if x["file"].startswith(f"{slug}/correct/")}
    lost_codes = {(assemble.HERE / "problems" / file).read_text(encoding="utf-8") for file in lost}
    assert len(set(python_codes(slug, "correct")) - lost_codes) >= 6
    assert len(set(python_codes(slug, "incorrect"))) >= 3
    assert any(caught["file"].startswith(f"{slug}/incorrect/") for caught in EXPECTED["caught"])
    for campaign in ("correctness", "optimization"):
        reasons = EXPECTED["attempts"][slug][campaign]
        assert len(reasons) >= 4
        assert "accepted" in reasons
        assert set(reasons) != {"accepted"}


@pytest.mark.parametrize("slug", KEPT + COMPLEMENT)
def test_a_statement_is_complete_and_shows_its_public_tests(slug):
    statement = (assemble.HERE / "problems" / slug / "statement.md").read_text(encoding="utf-8")
    headings = [line for line in statement.splitlines() if line in ("Input", "Output", "Examples")]
    assert headings[:3] == ["Input", "Output", "Examples"]
    assert "≤" in statement
    for test in assemble.problem_settings(slug)["tests"]:
        if test["category"] == "public":
            assert test["input"].strip() in statement
            assert test["output"].strip() in statement


def test_programs_are_python():
    for row in EXPECTED["rows"]:
        for label in ("correct", "incorrect"):
            for code in python_codes(row["slug"], label):
                ast.parse(code)


def test_contradictory_labels_and_duplicates_are_where_they_should_be():
    both, twice = set(), set()
    for row in EXPECTED["rows"]:
        correct = [solution_id(code) for code in python_codes(row["slug"], "correct")]
        incorrect = [solution_id(code) for code in python_codes(row["slug"], "incorrect")]
        if set(correct) & set(incorrect):
            both.add(row["slug"])
        if len(correct) > len(set(correct)):
            twice.add(row["slug"])
    assert both == twice == {"close-readings"}
    tests = [(t["input"], t["output"]) for t in assemble.problem_settings("close-readings")["tests"]]
    assert len(set(tests)) < len(tests)


def test_answers_are_refused_on_reading_for_the_reason_promised():
    seen = set()
    for slug, campaigns in EXPECTED["attempts"].items():
        for campaign, reasons in campaigns.items():
            files = generator_files(slug, campaign)
            assert sorted(files) == list(range(len(reasons))), f"{slug} {campaign}"
            for number, reason in enumerate(reasons):
                found = extract_generator(assemble.completion(files[number])).reason
                assert found == (reason if reason in READING_REASONS else None), f"{slug} {campaign} {number}"
                seen.add(reason)
    unseen = {"no_completion", "verification_failed", "infrastructure", "too_few_solutions"}
    assert seen == {"accepted", *AttemptReason} - unseen


def test_every_stage_drops_something_for_a_stated_reason():
    dropped = {(row["stage"], row["reason"]) for row in EXPECTED["rows"] if "stage" in row}
    dropped |= {(x["stage"], x["reason"]) for x in EXPECTED["solutions"] + EXPECTED["tests"]}
    reasons = {Reason(reason) for _, reason in dropped}
    stages = {Stage(stage) for stage, _ in dropped} | {Stage.SYNTHESIZE_CORRECTNESS, Stage.SYNTHESIZE_OPTIMIZATION}
    assert stages == set(Stage) - {Stage.SPLIT, Stage.DATASETS}
    impossible_here = {
        Reason.DUPLICATE,
        Reason.PROBLEM_DROPPED,
        Reason.TOTAL,
        Reason.STATEMENT_REJECTED,  # needs a model
        Reason.NO_INCORRECT_LEFT,  # nothing removes an incorrect solution before the filters
        Reason.PASSES_SUITE,  # with so few incorrect solutions one that passes drops its problem
        Reason.ZERO_MEDIAN,  # a duration is at least 0.1 ms
    }
    assert reasons == set(Reason) - impossible_here


def test_only_the_twins_look_alike():
    config = DedupConfig()
    grams = {}
    for row in EXPECTED["rows"]:
        text = (assemble.HERE / "problems" / row["slug"] / "statement.md").read_bytes().decode("utf-8")
        if row.get("stage") not in ("ingest",) and dedup.statement_rules(text, config) is None:
            grams[row["slug"]] = words_of(text)
    for entry in assemble.benchmark():
        grams[entry["question_id"]] = words_of(entry["statement"])
    alike = {(a, b) for a, b in combinations(sorted(grams), 2) if similarity(grams[a], grams[b]) >= 0.5}
    assert alike == {
        ("calm-stretch", "calm-stretch-juniors"),
        ("harbour-lights", "harbour-lights-again"),
        ("soup-kettles", "soup-pots"),
    }
    assert similarity(grams["harbour-lights"], grams["harbour-lights-again"]) == 1
    assert 0.85 < similarity(grams["soup-kettles"], grams["soup-pots"]) < 1
    assert 0.85 < similarity(grams["calm-stretch"], grams["calm-stretch-juniors"]) < 1


def words_of(text):
    words = "".join(c if c.isalnum() else " " for c in text.lower()).split()
    return {tuple(words[i : i + 5]) for i in range(len(words) - 4)}


def similarity(a, b):
    return len(a & b) / len(a | b)


def test_the_configuration_lowers_limits_and_nothing_else():
    config = load_config(assemble.HERE / "build.toml")
    default = load_config(None)
    assert config.execution.time_limit_s < default.execution.time_limit_s
    for part in ("dedup", "filter_correctness", "filter_optimization", "filterability", "ingest"):
        assert getattr(config, part) == getattr(default, part)
