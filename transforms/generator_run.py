"""Running a model-written `InputGenerator` in the sandbox: one call, one process, one seed.

The class never runs here. A call is an ordinary program for the execution service: the harness below, with the
class's source and the call on standard input, so that what it prints cannot be mistaken for its answer.
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass

from dmc_optim.ces.types import Limits, Request, Result, StopRule, TestCase
from schemas.enums import AttemptReason, Campaign, Status

METHODS = {
    Campaign.CORRECTNESS: ("edge", "small", "sample"),
    Campaign.OPTIMIZATION: ("edge", "large", "sample"),
}

HARNESS = b"""\
import json, os, random, sys
head, _, source = sys.stdin.buffer.read().partition(b"\\n")
call = json.loads(head)
answer = os.fdopen(os.dup(1), "wb")
os.dup2(2, 1)
space = {"__name__": "input_generator"}
random.seed(call["seed"])
exec(compile(source, "input_generator.py", "exec"), space)
generator = space["InputGenerator"]()
random.seed(call["seed"])
if "numpy" in sys.modules:
    sys.modules["numpy"].random.seed(call["seed"] % 2**32)
text = getattr(generator, call["method"])()
if isinstance(text, str):
    answer.write(b"ok\\n" + text.encode())
else:
    answer.write(b"type\\n" + type(text).__name__.encode())
answer.close()
"""


@dataclass(frozen=True)
class GeneratedInputs:
    """The inputs of an attempt, or the reason why it has none."""

    inputs: tuple[bytes, ...] = ()
    reason: AttemptReason | None = None
    detail: str = ""


def schedule(campaign: Campaign, calls_per_method: int) -> list[str]:
    """Method names in call order: the campaign's three methods, repeated (15 calls with 5 repetitions)."""
    return list(METHODS[campaign]) * calls_per_method


def call_seed(problem_id: str, campaign: Campaign, attempt: int, call: int) -> int:
    """Seed of one call: a rerun gives the same string."""
    text = f"{problem_id}\0{campaign.value}\0{attempt}\0{call}"
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8])


def generator_request(
    source: str, problem_id: str, campaign: Campaign, attempt: int, calls_per_method: int, limits: Limits
) -> Request:
    """All calls of one attempt; the first that fails ends it."""
    tests = []
    for call, method in enumerate(schedule(campaign, calls_per_method)):
        head = json.dumps({"method": method, "seed": call_seed(problem_id, campaign, attempt, call)})
        tests.append(TestCase(f"{call:02d}-{method}", head.encode() + b"\n" + source.encode()))
    return Request(code=HARNESS, tests=tuple(tests), limits=limits, stop=StopRule.FIRST_NON_SUCCESS, return_output=True)


def read_inputs(results: Sequence[Result], calls: int, max_bytes: int) -> GeneratedInputs:
    """Inputs from the calls' results, in call order; the first defect rejects the attempt."""
    inputs = []
    for result in results:
        reason, detail = _defect(result, max_bytes)
        if reason is not None:
            return GeneratedInputs(reason=reason, detail=f"call {result.test_id}: {detail}")
        assert result.output is not None
        inputs.append(result.output.removeprefix(b"ok\n"))
    if len(inputs) < calls:
        return GeneratedInputs(reason=AttemptReason.INFRASTRUCTURE, detail=f"{len(inputs)} of {calls} calls came back")
    return GeneratedInputs(tuple(inputs))


def _defect(result: Result, max_bytes: int) -> tuple[AttemptReason | None, str]:
    output = result.output or b""
    if result.status is Status.INFRASTRUCTURE:
        return AttemptReason.INFRASTRUCTURE, result.detail
    if result.status is Status.TIMEOUT:
        return AttemptReason.GENERATOR_TIMEOUT, result.detail or "time limit"
    if result.status is Status.OUTPUT_LIMIT:
        return AttemptReason.INPUT_TOO_LARGE, f"over {max_bytes} bytes"
    if result.status is not Status.SUCCESS:
        tail = result.stderr_tail.decode("utf-8", "replace").strip().splitlines()
        return AttemptReason.GENERATOR_CRASHED, (tail[-1][:200] if tail else f"{result.status} {result.detail}".strip())
    if output.startswith(b"type\n"):
        return AttemptReason.WRONG_TYPE, f"returned {output[5:105].decode('utf-8', 'replace')}"
    if not output.startswith(b"ok\n"):
        return AttemptReason.GENERATOR_CRASHED, "ended without an answer"
    text = output.removeprefix(b"ok\n")
    if not text.strip():
        return AttemptReason.EMPTY_INPUT, "empty input"
    if len(text) > max_bytes:
        return AttemptReason.INPUT_TOO_LARGE, f"{len(text)} bytes, at most {max_bytes}"
    try:
        text.decode("utf-8")
    except UnicodeDecodeError:
        return AttemptReason.WRONG_TYPE, "not valid UTF-8"
    return None, ""
