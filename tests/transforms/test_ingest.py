"""Ingest: what a row becomes, and each way in which it can be malformed."""

from typing import Any

import pytest

from dmc_optim.artifacts.layout import Layout
from dmc_optim.config import BuildConfig, IngestConfig
from schemas.enums import Entity, Label, Reason, Stage
from tests.pipeline.corpus import SourceProblem
from transforms.context import StageContext
from transforms.decision import attrition_rows
from transforms.ingest import Ingested, ingest_row, solution_id


def as_bytes(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, list):
        return [as_bytes(v) for v in value]
    if isinstance(value, dict):
        return {k: as_bytes(v) for k, v in value.items()}
    return value


def context(config: BuildConfig | None = None, limit: int | None = None) -> StageContext:
    return StageContext(Layout("memory://none"), Stage.INGEST, "key", config or BuildConfig(), 1, limit_solutions=limit)


def row(**changes: Any) -> dict[str, Any]:
    problem = SourceProblem("Sum", ["print(1)"], ["print(2)"])
    return as_bytes(problem.row()) | changes


def ingest(source: dict[str, Any], **options: Any) -> Ingested:
    return ingest_row(context(**options), "train/7", "train", source)


def total(done: Ingested, entity: Entity, label: str = "") -> dict[str, Any]:
    rows = attrition_rows("ingest", dict(done.counts))
    return next(r for r in rows if (r["entity"], r["label"], r["reason"]) == (entity, label, "total"))


def test_a_readable_row_becomes_a_problem() -> None:
    done = ingest(row())
    problem = done.rows["problems"][0]
    assert problem["problem_id"] == "train/7"
    assert problem["source"] == "codeforces"
    assert problem["difficulty"] == "a"
    assert problem["time_limit_s"] == 1.5
    assert problem["cf_tags"] == ["math"]
    assert [s["label"] for s in done.rows["solutions"]] == ["correct", "incorrect"]
    assert done.rows["solutions"][0]["solution_id"] == solution_id("print(1)")
    assert not done.rows["exclusions"]


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"description": None}, "description: null"),
        ({"description": b"\xff abc"}, "description: invalid UTF-8 at byte 0"),
        ({"name": None}, "name: null"),
        ({"difficulty": None}, "difficulty: null"),
        ({"solutions": None}, "solutions: null"),
        ({"solutions": {"language": [3], "solution": []}}, "language has 1 entries, solution has 0"),
        ({"solutions": {"language": [3], "solution": [None]}}, "solutions.solution: null"),
        ({"solutions": {"language": [None], "solution": [b"x"]}}, "solutions.language: null"),
        ({"incorrect_solutions": {"language": None, "solution": []}}, "incorrect_solutions.language: null"),
        ({"public_tests": {"input": [b"1"], "output": []}}, "public_tests: input has 1 entries, output has 0"),
        ({"private_tests": {"input": [b"\xc3("], "output": [b""]}}, "private_tests.input: invalid UTF-8 at byte 0"),
        ({"input_file": b"\xff"}, "input_file: invalid UTF-8"),
        ({"time_limit": {"seconds": -1, "nanos": 0}}, "time_limit: negative"),
        ({"memory_limit_bytes": -5}, "memory_limit_bytes: negative"),
    ],
)
def test_a_malformed_row_is_set_aside_with_its_reason(changes: dict[str, Any], says: str) -> None:
    done = ingest(row(**changes))
    assert set(done.rows) == {"exclusions"}
    (excluded,) = done.rows["exclusions"]
    assert (excluded["entity"], excluded["reason"]) == ("row", Reason.MALFORMED_ROW)
    assert says in excluded["detail"]
    assert total(done, Entity.ROW) | {"n_in": 1, "n_out": 0, "n_dropped": 1} == total(done, Entity.ROW)


def test_languages_duplicates_and_contradictions() -> None:
    solutions = {"language": [3, 3, 1, 3, 2, 2], "solution": [b"a", b"a", b"a", b"both", b"cpp", b"cpp"]}
    wrong = {"language": [3, 3, 2], "solution": [b"both", b"w", b"cpp"]}
    done = ingest(row(solutions=solutions, incorrect_solutions=wrong))
    assert {(s["label"], s["code"]) for s in done.rows["solutions"]} == {("correct", "a"), ("incorrect", "w")}
    reasons = {r["entity_id"]: r["reason"] for r in done.rows["exclusions"]}
    assert reasons == {solution_id("both"): Reason.CONTRADICTORY_LABEL, solution_id("cpp"): Reason.OTHER_LANGUAGE}
    correct, incorrect = total(done, Entity.SOLUTION, Label.CORRECT), total(done, Entity.SOLUTION, Label.INCORRECT)
    assert (correct["n_created"], correct["n_out"], correct["n_dropped"]) == (6, 1, 5)
    assert (incorrect["n_created"], incorrect["n_out"], incorrect["n_dropped"]) == (3, 1, 2)
    python2 = ingest(
        row(solutions=solutions), config=BuildConfig(ingest=IngestConfig(languages=("python2", "python3")))
    )
    assert [s["code"] for s in python2.rows["solutions"] if s["label"] == "correct"].count("a") == 1


def test_equal_tests_collapse_into_the_first_category_and_contradicting_outputs_stay() -> None:
    tests = {"input": [b"1", b"1", b"1"], "output": [b"x", b"x", b"y"]}
    done = ingest(row(public_tests=tests, private_tests={"input": [b"1"], "output": [b"x"]}))
    assert [(t["category"], t["output"]) for t in done.rows["tests"]] == [("public", "x"), ("public", "y")]
    assert total(done, Entity.TEST, "private")["n_dropped"] == 1
    assert total(done, Entity.TEST, "public")["n_dropped"] == 1


def test_a_problem_with_files_is_dropped_with_all_it_has() -> None:
    done = ingest(row(input_file=b"in.txt"))
    (excluded,) = done.rows["exclusions"]
    assert (excluded["entity"], excluded["reason"], excluded["detail"]) == (
        "problem",
        Reason.FILE_IO,
        "uses the file in.txt",
    )
    assert len(done.rows["solutions"]) == 2
    assert total(done, Entity.SOLUTION, "correct")["n_out"] == 0


def test_a_limit_on_solutions_is_a_seeded_sample_per_label() -> None:
    solutions = {"language": [3] * 20, "solution": [f"p{i}".encode() for i in range(20)]}
    done = ingest(row(solutions=solutions), limit=5)
    again = ingest(row(solutions={"language": [3] * 20, "solution": solutions["solution"][::-1]}), limit=5)
    chosen = {s["code"] for s in done.rows["solutions"] if s["label"] == "correct"}
    assert len(chosen) == 5
    assert chosen == {s["code"] for s in again.rows["solutions"] if s["label"] == "correct"}
    other = ingest_row(context(BuildConfig(seed=1), 5), "train/7", "train", row(solutions=solutions))
    assert chosen != {s["code"] for s in other.rows["solutions"] if s["label"] == "correct"}
    assert total(done, Entity.SOLUTION, "correct")["n_created"] == 5
