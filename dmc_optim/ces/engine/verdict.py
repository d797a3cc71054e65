"""The status of one execution from what the supervisor saw, in the order of classification (design of CES 2.1)."""

import os
import signal
from dataclasses import dataclass, field

from schemas.enums import Status


@dataclass(frozen=True)
class Outcome:
    """Facts about one run. Nothing here comes from a channel that the program could write.

    killed_for: "cpu limit" or "wall limit" when the supervisor ended the run. exit_status: as waitpid gives it.
    memory_error: the program ended by an uncaught MemoryError (a program can feign this, but only to turn one
    failure into another: it counts only beside a non-zero exit).
    """

    exit_status: int = 0
    lost: str = ""
    oom_kills: int = 0
    killed_for: str = ""
    over_time: str = ""
    output_bytes: int = 0
    output_limit: int = 0
    compile_error: str = ""
    memory_error: bool = False
    stderr_tail: bytes = b""
    extra: dict[str, float] = field(default_factory=dict)


def before_comparison(outcome: Outcome) -> tuple[Status, str] | None:
    """Status and detail of a run that never gets to the comparison; None when its output decides.

    lost or set-up fault → infrastructure; OOM counter → out_of_memory; ended by the supervisor, or over the
    limit on its clock → timeout; output cap → output_limit; compile failure → syntax_error; MemoryError →
    out_of_memory; non-zero exit or signal → runtime_exception.
    """
    if outcome.lost:
        return Status.INFRASTRUCTURE, outcome.lost
    if outcome.oom_kills:
        return Status.OUT_OF_MEMORY, "memory limit"
    if outcome.killed_for or outcome.over_time:
        return Status.TIMEOUT, outcome.killed_for or outcome.over_time
    if outcome.output_bytes > outcome.output_limit:
        return Status.OUTPUT_LIMIT, "output limit"
    if outcome.compile_error:
        return Status.SYNTAX_ERROR, outcome.compile_error
    if os.WIFSIGNALED(outcome.exit_status):
        return Status.RUNTIME_EXCEPTION, _signal_text(os.WTERMSIG(outcome.exit_status))
    code = os.WEXITSTATUS(outcome.exit_status)
    if code and outcome.memory_error:
        return Status.OUT_OF_MEMORY, "MemoryError"
    if code:
        return Status.RUNTIME_EXCEPTION, _exit_text(code, outcome.stderr_tail)
    return None


def _signal_text(number: int) -> str:
    try:
        return f"signal {number} ({signal.Signals(number).name})"
    except ValueError:
        return f"signal {number}"


def _exit_text(code: int, stderr_tail: bytes) -> str:
    lines = stderr_tail.decode("utf-8", "replace").strip().splitlines()
    last = lines[-1].strip()[:160] if lines else ""
    return f"exit {code}: {last}" if last else f"exit {code}"
