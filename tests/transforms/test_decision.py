"""The one convention: whatever a stage decides, what goes in and is made comes out or is dropped for a reason."""

from collections import Counter
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from schemas.enums import Category, Label, Reason
from transforms.decision import Decision, Drop, ProblemState, after, attrition_rows, exclusions, tally

IDS = st.sampled_from([f"i{n}" for n in range(8)])


@st.composite
def decisions(draw: st.DrawFn) -> tuple[ProblemState, Decision]:
    state = ProblemState(
        "train/0",
        draw(st.dictionaries(IDS, st.sampled_from(list(Label)))),
        draw(st.dictionaries(IDS, st.sampled_from(list(Category)))),
    )
    created: list[dict[str, Any]] = [
        {"test_id": f"new{n}", "category": "correctness"} for n in range(draw(st.integers(0, 3)))
    ]
    tests = [*state.tests, *(row["test_id"] for row in created)]
    decision = Decision(
        problem=draw(st.none() | st.just(Drop(Reason.LOW_CV, 0.1, 0.3))),
        solutions={s: Drop(Reason.FAILS_SUITE, 1, 0) for s in state.solutions if draw(st.booleans())},
        tests={t: Drop(Reason.TIMEOUT_FRACTION, 0.5, 0.2) for t in tests if draw(st.booleans())},
        created=created,
        duplicates=Counter({"correctness": draw(st.integers(0, 3))}),
        attempts={str(n): Drop("no_code") for n in range(draw(st.integers(0, 2)))},
        n_attempts=4,
    )
    return state, decision


@given(decisions())
def test_conservation(case: tuple[ProblemState, Decision]) -> None:
    state, decision = case
    rows = attrition_rows("filter_correctness", dict(tally(state, decision)))
    totals = [r for r in rows if r["reason"] == "total"]
    assert len({(r["entity"], r["label"]) for r in totals}) == len(totals)
    for own in totals:
        parts = [
            r["n_dropped"]
            for r in rows
            if (r["entity"], r["label"]) == (own["entity"], own["label"]) and r["reason"] != "total"
        ]
        assert sum(parts) == own["n_dropped"]
        assert own["n_in"] + own["n_created"] == own["n_out"] + own["n_dropped"]


@given(decisions())
def test_every_drop_is_a_row_and_the_survivors_are_what_no_row_names(case: tuple[ProblemState, Decision]) -> None:
    state, decision = case
    rows = exclusions("filter_correctness", state, decision)
    named = {(r["entity"], r["entity_id"]) for r in rows}
    assert len(named) == len(rows)
    survivor = after(state, decision)
    if survivor is None:
        assert ("problem", "train/0") in named
        return
    made = {r["test_id"]: r["category"] for r in decision.created}
    assert survivor.solutions == {s: v for s, v in state.solutions.items() if ("solution", s) not in named}
    assert {t for t in survivor.tests if t not in made} == {t for t in state.tests if ("test", t) not in named}
