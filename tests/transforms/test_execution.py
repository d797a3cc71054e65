"""Units of execution: portions, what is taken over, infrastructure that stays, services that are gone."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dmc_optim.artifacts.layout import Layout
from dmc_optim.artifacts.sink import ShardSink
from dmc_optim.ces.fake import FakeEngine
from dmc_optim.ces.types import NO_ANSWER, Request, Result, StopRule, TestCase
from dmc_optim.config import BuildConfig
from dmc_optim.errors import ServiceError
from schemas.enums import Campaign, Category, Label, Stage, Status
from transforms import execution
from transforms.context import StageContext
from transforms.execution import Bodies, ExecuteUnit, execute_pairs, run_unit, settle, solution_units
from transforms.ingest import test_id, test_row

TESTS = {test_id(str(i), "x" * i): (str(i), "x" * i) for i in range(12)}
SOLUTIONS = {"a": "# fake: wrong=0.3\n", "b": "# fake: wrong=0\n", "c": "# fake: infrastructure=0.3\n"}


class Scripted(FakeEngine):
    """The fake engine, or results that a test has written down."""

    def __init__(self, results: list[Result] | None = None) -> None:
        super().__init__()
        self.results = results

    def execute(self, request: Request) -> Iterator[Result]:
        yield from super().execute(request) if self.results is None else self.results


@pytest.fixture
def context(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StageContext:
    found = StageContext(Layout(str(tmp_path)), Stage.VALIDATE, "key", BuildConfig(), 1)
    sink = ShardSink(found.layout, Stage.INGEST, 0, {})
    solution = {"problem_id": "t/0", "label": "correct", "language": "python3"}
    sink.write("solutions", [{**solution, "solution_id": s, "code": code} for s, code in SOLUTIONS.items()])
    sink.write("tests", [test_row("t/0", key, Category.PUBLIC, *texts, None) for key, texts in TESTS.items()])
    sink.close()
    engine = Scripted()
    monkeypatch.setattr("transforms.context._engine", lambda spec: engine)
    return found


def unit(stop: StopRule = StopRule.ALL) -> ExecuteUnit:
    half = len(TESTS) // 2
    phases = (tuple(sorted(TESTS)[:half]), tuple(sorted(TESTS)[half:]))
    return ExecuteUnit("u", "t/0", 0, Campaign.ORIGINAL, tuple(SOLUTIONS), phases, stop)


def test_units_cover_all_solutions_and_say_in_words_which(context: StageContext) -> None:
    solutions = [f"s{number:02d}" for number in range(35)]
    units = list(
        solution_units(context, "a+b/0", Campaign.ORIGINAL, Label.CORRECT, solutions, [["t"], []], StopRule.ALL)
    )
    assert [s for own in units for s in own.solutions] == solutions
    assert {own.phases for own in units} == {(("t",),)}
    assert [own.title for own in units] == [
        "a+b/0, correct solutions 1 to 16",
        "a+b/0, correct solutions 17 to 32",
        "a+b/0, correct solutions 33 to 35",
    ]


@given(st.lists(st.integers(0, 30), max_size=20), st.integers(1, 40))
def test_portions_keep_order_and_stay_under_the_bound(sizes: list[int], most: int) -> None:
    bodies = Bodies.__new__(Bodies)
    bodies.__dict__["_sizes"] = {str(i): size for i, size in enumerate(sizes)}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(execution, "PORTION_CHARS", most)
        portions = list(bodies.portions([str(i) for i in range(len(sizes))]))
    assert [t for portion in portions for t in portion] == [str(i) for i in range(len(sizes))]
    for portion in portions:
        assert len(portion) == 1 or sum(sizes[int(t)] for t in portion) <= most
    for one, following in pairwise(portions):
        assert sum(sizes[int(t)] for t in [*one, following[0]]) > most


@pytest.mark.parametrize("stop", list(StopRule))
def test_portions_do_not_change_rows(context: StageContext, monkeypatch: pytest.MonkeyPatch, stop: StopRule) -> None:
    def rows() -> list[tuple[str, str, str]]:
        found, _ = execute_pairs(context, unit(stop), {})
        return sorted((row["solution_id"], row["test_id"], row["status"]) for row in found)

    whole = rows()
    monkeypatch.setattr(execution, "PORTION_CHARS", 1)
    assert rows() == whole
    assert {solution for solution, _, _ in whole} == set(SOLUTIONS)
    ran = [t for s, t, _ in whole if s == "a"]
    assert (len(ran) < len(TESTS)) == (stop is not StopRule.ALL)


def test_stored_rows_are_taken_over_and_only_the_others_run(context: StageContext) -> None:
    rows, executed = execute_pairs(context, unit(), {})
    assert executed == len(rows) == len(SOLUTIONS) * len(TESTS)
    known: dict[str, dict[str, dict[str, object]]] = {}
    for row in rows[::2]:
        known.setdefault(row["solution_id"], {})[row["test_id"]] = row | {"node": "earlier"}
    again, executed = execute_pairs(context, unit(), known)
    assert executed == len(rows) - len(rows[::2])
    assert sum(row["node"] == "earlier" for row in again) == len(rows[::2])
    assert {(r["solution_id"], r["test_id"], r["status"]) for r in again} == {
        (r["solution_id"], r["test_id"], r["status"]) for r in rows
    }


def test_a_pair_that_stays_without_a_verdict_is_recorded_as_unknown(context: StageContext) -> None:
    rows, _ = execute_pairs(context, unit(StopRule.FIRST_NON_SUCCESS), {})
    own = [row for row in rows if row["solution_id"] == "c"]
    assert len(own) == len(TESTS), "an infrastructure outcome ends no run"
    unknown = [row for row in own if row["status"] == "infrastructure"]
    assert unknown
    retries = context.config.execution.infrastructure_retries
    assert all(row["duration_s"] is None and row["retries"] == retries for row in unknown)
    assert all(row["retries"] == 0 for row in own if row["status"] == "success")


def test_a_service_that_is_gone_gives_no_rows_and_no_part(context: StageContext) -> None:
    engine = context.engine.connect()
    assert isinstance(engine, Scripted)
    gone = Result("0", Status.INFRASTRUCTURE, detail="connection refused", marks=(NO_ANSWER,))
    engine.results = [replace(gone, test_id=key) for key in sorted(TESTS)[:6]]
    with pytest.raises(ServiceError, match="no execution service answers: connection refused; run the same command"):
        run_unit(context, unit())
    assert context.layout.glob(f"{context.work}/*/*") == []
    engine.results = None
    assert run_unit(context, unit()) == len(SOLUTIONS) * len(TESTS)
    assert run_unit(context, unit()) == 0, "its part is there"


def test_results_that_are_missing_are_no_verdict() -> None:
    tests = (TestCase("0", b""), TestCase("1", b""))
    request = Request(code=b"", tests=tests, stop=StopRule.FIRST_NON_SUCCESS)
    good, wrong = Result("0", Status.SUCCESS), Result("0", Status.WRONG_ANSWER)
    with pytest.raises(ServiceError, match="gave 1 of 2 results"):
        settle(FakeEngine(), request, [good], 3)
    with pytest.raises(ServiceError, match="gave 0 of 2 results"):
        settle(FakeEngine(), request, [], 3)
    assert settle(FakeEngine(), request, [wrong], 3) == [wrong]


def test_statuses_of_a_table() -> None:
    table = pa.table({"solution_id": ["a", "a"], "test_id": ["1", "2"], "status": ["success", "timeout"]})
    assert execution.statuses(table) == {("a", "1"): Status.SUCCESS, ("a", "2"): Status.TIMEOUT}
    assert execution.statuses(table.slice(0, 0)) == {}
