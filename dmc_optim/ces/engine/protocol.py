"""Messages between the caller and a supervisor, both of this package. How they travel: channel.py.

Tuples rather than classes with state, because one pair of them is packed and unpacked for every few executions.
"""

from typing import NamedTuple

from dmc_optim.ces.engine.cgroup_parents import CgroupPlan
from dmc_optim.ces.engine.interpreter import Interpreter
from dmc_optim.ces.engine.tiers import Tier
from dmc_optim.ces.types import Limits, StopRule
from schemas.enums import Status

Text = bytes | int  # the bytes themselves, or the number of a descriptor that came with the message


class Configure(NamedTuple):
    """First message: what kind of slot this is. name: of the slot and of its cgroup."""

    name: str
    tier: Tier
    interpreter: Interpreter
    cgroups: CgroupPlan
    core: int | None
    supervisor_cores: frozenset[int]
    outer_uids: tuple[int, int] | None


class Ready(NamedTuple):
    """Answer to Configure: the empty-run baseline, or what went wrong."""

    baseline_cpu_s: float = 0.0
    error: str = ""


class OpenProgram(NamedTuple):
    """A program and what its tests have in common. tests_ahead: how many runs of it may come in all."""

    code: Text
    limits: Limits
    comparator: str
    stop: StopRule
    repetitions: int
    return_output: bool
    tests_ahead: int


class Work(NamedTuple):
    """Tests to run in order: (position in the request, input, expected or None).

    opened: a new program; None goes on with the last one.
    """

    serial: int
    opened: OpenProgram | None
    tests: tuple[tuple[int, Text, Text | None], ...]


class Cancel(NamedTuple):
    """Stop working on this request."""

    serial: int


class Measured(NamedTuple):
    """One finished test, without what is the same for every result of the slot."""

    position: int
    status: Status
    detail: str = ""
    duration_s: float | None = None
    duration_std_s: float | None = None
    repetitions: int = 1
    cpu_s: float | None = None
    wall_s: float | None = None
    started_at: float = 0.0
    peak_memory_bytes: int | None = None
    output: bytes | None = None
    output_truncated: bool = False
    stderr_tail: bytes = b""
    marks: tuple[str, ...] = ()
    retries: int = 0
    context_switches: int | None = None
    steal_s: float | None = None


class Progress(NamedTuple):
    """Finished tests; done: no more will come for this Work; stopped: the stop rule or a cancel ended it."""

    serial: int
    results: tuple[Measured, ...]
    done: bool = False
    stopped: bool = False
