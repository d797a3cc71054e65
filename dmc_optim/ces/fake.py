"""A deterministic stand-in for the execution service, for tests: it runs nothing.

What a program "does" is drawn from a hash of (seed, program, input), so the same question has the same answer in
any order, on any number of workers. A program may fix its own behaviour with comment lines:

    # fake: wrong=0.5 timeout=0.1 crash=0 oom=0 duration=0.2 infrastructure=0

wrong, timeout, crash, oom, infrastructure: shares of inputs with that outcome (of the hash's [0, 1) draw);
duration: seconds, scaled by a workload drawn for the input and by noise drawn for the pair. Output is the hash of
the input, the same for every program (a wrong one appends a mark), so that a consensus of right programs exists. A
generator harness (input starts with `{"method":`) gets an input text made from its seed.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

from dmc_optim.ces.types import Request, Result, TestCase
from schemas.enums import Status

_DIRECTIVE = re.compile(rb"^#\s*fake:(.*)$", re.MULTILINE)
_OUTCOMES = (
    ("wrong", Status.WRONG_ANSWER),
    ("timeout", Status.TIMEOUT),
    ("crash", Status.RUNTIME_EXCEPTION),
    ("oom", Status.OUT_OF_MEMORY),
    ("infrastructure", Status.INFRASTRUCTURE),
)


class FakeEngine:
    """Executor whose results are a pure function of (seed, request). Counts what it was asked."""

    def __init__(self, seed: int = 0, slots: int = 2) -> None:
        self.seed = seed
        self.executions = 0
        self._slots = slots

    @property
    def parallelism(self) -> int:
        """As many as it was told to claim."""
        return self._slots

    def execute(self, request: Request) -> Iterator[Result]:
        """Results in test order, ending where the request's stop rule ends it."""
        behaviour = _behaviour(request.code)
        for test in request.tests:
            self.executions += 1
            result = self._one(request, test, behaviour)
            yield result
            if request.stop.ends_after(result.status):
                return

    def execute_many(self, requests: Iterable[Request]) -> Iterator[tuple[int, list[Result]]]:
        """One request after another."""
        for index, request in enumerate(requests):
            yield index, list(self.execute(request))

    def close(self) -> None:
        """Nothing is held."""

    def _one(self, request: Request, test: TestCase, behaviour: dict[str, float]) -> Result:
        draw = self._draw(request.code, test.input)
        status = Status.SUCCESS
        edge = 0.0
        for name, outcome in _OUTCOMES:
            edge += behaviour.get(name, 0.0)
            if draw < edge:
                status = outcome
                break
        workload = 0.1 + 2 * self._draw(b"workload", test.input)
        duration = behaviour.get("duration", 0.01) * workload * (0.5 + self._draw(request.code, b"", test.input))
        output = self._output(test.input, wrong=status is Status.WRONG_ANSWER)
        if status is Status.WRONG_ANSWER and test.expected is None:
            status = Status.SUCCESS  # nothing to compare with: a wrong output still ends normally
        if status is Status.TIMEOUT:
            duration = request.limits.time_s
        infrastructure = status is Status.INFRASTRUCTURE
        return Result(
            test_id=test.id,
            status=status,
            duration_s=None if infrastructure else duration,
            cpu_s=None if infrastructure else duration,
            wall_s=None if infrastructure else duration,
            peak_memory_bytes=None if infrastructure else 10_000_000,
            output=output if request.return_output and status is Status.SUCCESS else None,
            node="fake",
            tier="fake",
            interpreter="fake",
            engine="fake",
        )

    def _output(self, text: bytes, *, wrong: bool) -> bytes:
        call = _generator_call(text)
        if call is not None:
            return b"ok\n" + f"{call['method']} {call['seed'] % 997}\n".encode()
        mark = b" wrong" if wrong else b""
        return hashlib.sha256(text).hexdigest()[:12].encode() + mark + b"\n"

    def _draw(self, *parts: bytes) -> float:
        data = b"\0".join((str(self.seed).encode(), *parts))
        return int.from_bytes(hashlib.sha256(data).digest()[:8]) / 2**64


def _behaviour(code: bytes) -> dict[str, float]:
    values: dict[str, float] = {}
    for line in _DIRECTIVE.findall(code):
        for item in line.decode(errors="replace").split():
            name, _, value = item.partition("=")
            values[name] = float(value)
    return values


def _generator_call(text: bytes) -> dict[str, Any] | None:
    if not text.startswith(b'{"method":'):
        return None
    call = json.loads(text.partition(b"\n")[0])
    return call if isinstance(call, dict) else None
