"""Voting on an attempt's inputs: who agrees, and that a fault of the service is no verdict."""

from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from dmc_optim.artifacts.layout import Layout
from dmc_optim.ces.types import Request, Result
from dmc_optim.config import BuildConfig
from dmc_optim.llm.recorded import RecordedCompletions
from schemas.enums import Campaign, Stage, Status
from transforms.context import StageContext
from transforms.synthesize import AttemptOutcome, AttemptUnit, vote

INPUTS = [b"1", b"2"]


class Scripted:
    """Programs are what they print, or the name of a status. Expected outputs are compared as bytes."""

    parallelism = 1

    def execute(self, request: Request) -> Iterator[Result]:
        word = request.code.decode()
        for test in request.tests:
            status = Status(word) if word in list(Status) else Status.SUCCESS
            if status is Status.SUCCESS and test.expected not in (None, request.code):
                status = Status.WRONG_ANSWER
            output = request.code if status is Status.SUCCESS else None
            duration = None if status is Status.INFRASTRUCTURE else 0.5
            yield Result(test.id, status, duration_s=duration, output=output)
            if request.stop.ends_after(status):
                return

    def execute_many(self, requests: Iterable[Request]) -> Iterator[tuple[int, list[Result]]]:
        yield from ((index, list(self.execute(request))) for index, request in enumerate(requests))

    def close(self) -> None:
        return None


def outcome(tmp_path: Path, *programs: str) -> AttemptOutcome:
    file = tmp_path / "a.jsonl"
    file.write_text('{"problem_id": "t/0", "attempt": 0, "completion": "x"}\n')
    (reference,) = RecordedCompletions.load(file).references("t/0", "", Campaign.CORRECTNESS)
    codes = {f"s{number}": program.encode() for number, program in enumerate(programs)}
    unit = AttemptUnit("t/0", 0, Campaign.CORRECTNESS, reference, tuple(codes))
    context = StageContext(Layout("memory://none"), Stage.SYNTHESIZE_CORRECTNESS, "key", BuildConfig(), 1)
    return vote(context, unit, Scripted(), codes, INPUTS)


@pytest.mark.parametrize(
    ("programs", "reason", "n_agreeing"),
    [
        (("a", "a", "b"), None, 2),
        (("a", "b", "b", "timeout", "runtime_exception"), None, 2),
        (("a", "b"), "no_consensus", 1),
        (("timeout", "a"), "no_consensus", 1),
        (("timeout", "timeout"), "no_consensus", 0),
        (("a", "a", "b", "b", "c"), "ambiguous_consensus", 2),
        (("a", "a", "infrastructure"), None, 2),
        (("a", "infrastructure"), "infrastructure", None),
        (("a", "a", "b", "b", "infrastructure"), "infrastructure", None),
        (("infrastructure", "infrastructure"), "infrastructure", None),
    ],
)
def test_the_largest_agreeing_group_wins_and_infrastructure_rejects_nothing_for_good(
    tmp_path: Path, programs: tuple[str, ...], reason: str | None, n_agreeing: int | None
) -> None:
    found = outcome(tmp_path, *programs)
    assert (found.reason, found.n_agreeing) == (reason, n_agreeing)
    assert len(found.pairs) == (0 if reason else len(INPUTS))
    assert len(found.votes) == len(programs)
    assert sum(v["agreed"] for v in found.votes) == (0 if reason else n_agreeing)
