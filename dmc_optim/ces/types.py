"""The contract of the execution service: what is asked, what comes back (design of CES, paper Appendix C).

One `Request` carries a program and many tests; one `Result` comes back for each test, in the order of the
tests. The same types travel in process (`Embedded`) and over HTTP (`Client`), so a caller never knows which
of the two it talks to.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol, runtime_checkable

from schemas.enums import Outcome, Status

MIB = 1 << 20
NO_ANSWER = "no_answer"  # mark of an infrastructure result that no service gave: nobody answers any more


class StopRule(StrEnum):
    """When a request may end before its last test. Tests after the end get no result."""

    ALL = "all"
    FIRST_FAILURE = "first_failure"  # first hard failure; time-outs and infrastructure never end it
    FIRST_NON_SUCCESS = "first_non_success"  # first failure or time-out; infrastructure never ends it

    def ends_after(self, status: Status) -> bool:
        """Whether a result of this status is the last one of its request."""
        if self is StopRule.FIRST_FAILURE:
            return status.outcome is Outcome.FAILURE
        if self is StopRule.FIRST_NON_SUCCESS:
            return status.outcome in (Outcome.FAILURE, Outcome.TIMEOUT)
        return False


class Clock(StrEnum):
    """The clock that durations and the time limit use."""

    CPU = "cpu"
    WALL = "wall"


@dataclass(frozen=True, slots=True)
class Limits:
    """The envelope of one execution. Times in seconds, sizes in bytes.

    wall_factor: the wall-clock backstop is time_s × wall_factor.
    """

    time_s: float = 10.0
    wall_factor: float = 1.5
    memory_bytes: int = 1 << 30
    output_bytes: int = 16 * MIB
    stderr_bytes: int = 64 * 1024
    tmp_bytes: int = 256 * MIB
    processes: int = 64
    clock: Clock = Clock.CPU


@dataclass(frozen=True, slots=True)
class TestCase:
    """One input, and what the output is compared with.

    expected is None when nothing is compared: a normal exit is then a success (consensus runs).
    """

    __test__ = False  # not a pytest class

    id: str
    input: bytes
    expected: bytes | None = None


@dataclass(frozen=True, slots=True)
class Request:
    """One program on many tests. request_id makes retries idempotent on a service."""

    code: bytes
    tests: tuple[TestCase, ...]
    limits: Limits = field(default_factory=Limits)
    comparator: str = "trimmed"
    stop: StopRule = StopRule.ALL
    repetitions: int = 1
    return_output: bool = False
    request_id: str = ""


@dataclass(frozen=True, slots=True)
class Result:
    """What one execution gave.

    duration_s is the program's own time on the configured clock, baseline subtracted, at least 1e-4; None only
    for infrastructure. detail says in a few words why (`signal 11`, `exit 3`, `wall limit`, first difference…).
    output is present only when asked for; output_truncated tells whether it was cut at the cap.
    """

    test_id: str
    status: Status
    duration_s: float | None = None
    duration_std_s: float | None = None
    repetitions: int = 1
    cpu_s: float | None = None
    wall_s: float | None = None
    queue_s: float | None = None
    peak_memory_bytes: int | None = None
    detail: str = ""
    output: bytes | None = None
    output_truncated: bool = False
    stderr_tail: bytes = b""
    marks: tuple[str, ...] = ()  # e.g. "wall_clock", "rerun", "near_limit"
    retries: int = 0
    node: str = ""
    epoch: int = 0
    tier: str = ""
    interpreter: str = ""
    engine: str = ""
    context_switches: int | None = None
    steal_s: float | None = None


@runtime_checkable
class Executor(Protocol):
    """Anything that runs requests: the embedded engine, the HTTP client, the fake of the tests.

    Thread-safe. `execute` streams results in test order as they are known. `execute_many` runs several requests
    at once, up to the parallelism it has, and yields (index of the request, its results in test order), in the
    order in which requests finish. Neither raises for anything the program does.
    """

    @property
    def parallelism(self) -> int:
        """How many executions run at the same time."""

    def execute(self, request: Request) -> Iterator[Result]:
        """Results of one request, in test order, as they are known."""

    def execute_many(self, requests: Iterable[Request]) -> Iterator[tuple[int, list[Result]]]:
        """(index of a request, its results) in the order in which requests finish."""

    def close(self) -> None:
        """Give back what is held; running requests end."""


@runtime_checkable
class Cancellable(Protocol):
    """An executor whose running requests can be ended from another thread.

    `cancel` ends the request that runs under this request_id: its programs are killed at once and its iterator
    ends early. Unknown ids are ignored. The service calls it when the client of a request is gone.
    """

    def cancel(self, request_id: str) -> None:
        """End the request of that id; unknown ids are ignored."""
