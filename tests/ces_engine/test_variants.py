"""Misbehaving and rare programs: the status that the contract names, and a slot that goes on as if nothing had been."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from dmc_optim.ces import Executor, Limits, Request, Result, Status, TestCase
from dmc_optim.ces.engine.embedded import Embedded
from tests.ces_engine.variants import Variant, ends, escapes, language, resources, streams

GROUPS: dict[str, tuple[Limits, dict[str, Variant]]] = {
    "memory": (Limits(memory_bytes=200 << 20), resources.MEMORY),
    "files": (Limits(), resources.FILES),
    "time": (Limits(time_s=0.25), resources.TIME),
    "exits": (Limits(), ends.EXITS),
    "signals": (Limits(), ends.SIGNALS),
    "left_running": (Limits(), ends.LEFT_RUNNING),
    "output": (Limits(), streams.OUTPUT),
    "input": (Limits(), streams.INPUT),
    "compared": (Limits(), streams.COMPARED),
    "syntax": (Limits(), language.SYNTAX),
    "library": (Limits(), language.LIBRARY),
    "escapes": (Limits(), escapes.ESCAPES),
}
ALL = [
    pytest.param(replace(limits, time_s=0.25) if "T" in variant.statuses else limits, variant, id=f"{group}-{name}")
    for group, (limits, variants) in GROUPS.items()
    for name, variant in variants.items()
]
ORDINARY = b"import json\nprint(json.dumps([int(input()) + 7, __name__]))"


@pytest.fixture(scope="module")
def one(engine: Embedded) -> Iterator[Embedded]:
    """An engine of one slot, so that the ordinary program follows in the same sandbox."""
    with Embedded(1) as single:
        yield single


def ordinary(engine: Executor) -> Result:
    """The result of a program that has nothing to do with the one before it."""
    (result,) = engine.execute(Request(ORDINARY, (TestCase("ordinary", b"1", b'[8, "__main__"]'),)))
    return result


@pytest.mark.parametrize(("limits", "variant"), ALL)
def test_variant(one: Embedded, limits: Limits, variant: Variant) -> None:
    test = TestCase("variant", variant.input, variant.expected)
    (result,) = one.execute(Request(variant.code, (test,), limits, variant.comparator, return_output=True))
    assert result.status in variant.accepted, (result.status, result.detail, (result.output or b"")[:200])
    assert result.retries == 0
    after = ordinary(one)
    assert (after.status, after.retries) == (Status.SUCCESS, 0), after.detail


@pytest.mark.parametrize("name", escapes.POISON)
def test_nothing_is_poisoned_for_the_next_run(one: Embedded, name: str) -> None:
    poison = escapes.POISON[name].encode()
    for count in (1, 2):
        tests = tuple(TestCase(str(index), b"") for index in range(count))
        for result in one.execute(Request(poison, tests)):
            assert (result.status.outcome is not None, result.retries) == (True, 0), result
        after = ordinary(one)
        assert (after.status, after.retries) == (Status.SUCCESS, 0), after.detail


def test_a_poisoned_run_does_not_reach_the_next_test_of_its_own_program(one: Embedded) -> None:
    for name, code in escapes.POISON.items():
        spared = (
            f"import json, os\nif input() == 'poison':\n    exec({code!r})\nelse:\n    print(json.dumps([len('ab')]))\n"
        )
        tests = (TestCase("poisoned", b"poison"), TestCase("clean", b"clean", b"[2]"))
        _, clean = one.execute(Request(spared.encode(), tests))
        assert (clean.status, clean.retries) == (Status.SUCCESS, 0), (name, clean.detail)
