"""What an execution costs and how steady its duration is, beside bare processes measured in the same minutes.

Everything is interleaved in rounds, so that a change of the machine's speed hits ours and theirs alike; what is
reported are medians over rounds, and ratios formed within a round.
"""

import math
import os
import shutil
import signal
import statistics
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from dmc_optim.ces.engine import interpreter
from dmc_optim.ces.engine.embedded import Embedded
from dmc_optim.ces.types import Limits, Request, TestCase
from schemas.enums import Status

TRIVIAL = b"print(1)"
_FLOOR = b"""
import os, time
times = []
for _ in range(100):
    started = time.perf_counter()
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    times.append(time.perf_counter() - started)
print(sorted(times)[50])
"""
_BURN = "x = 0\nfor i in range({n}):\n    x = (x * 31 + i) & 0xFFFFFFFF\nprint(x)\n"


@dataclass
class Overhead:
    """Milliseconds an execution; each list has one entry a round, `each` one an execution.

    single: one request each of one program; other: of a program not seen before, compiled for it; batch: many tests
    in one request.
    """

    fork: list[float] = field(default_factory=list)
    single: list[float] = field(default_factory=list)
    other: list[float] = field(default_factory=list)
    batch: list[float] = field(default_factory=list)
    cold: list[float] = field(default_factory=list)
    bubblewrap: list[float] = field(default_factory=list)
    each: list[float] = field(default_factory=list)

    def ratio(self, above: str, below: str) -> float:
        """Median over rounds of above / below."""
        pairs = zip(getattr(self, above), getattr(self, below), strict=False)
        return statistics.median(a / b for a, b in pairs)

    def percentile(self, share: float) -> float:
        """Percentile of single executions, in ms."""
        ordered = sorted(self.each)
        return ordered[min(int(share * len(ordered)), len(ordered) - 1)]


def overhead(engine: Embedded, rounds: int = 10, runs: int = 100) -> Overhead:
    """Trivial executions beside a bare fork, a cold interpreter and bubblewrap."""
    found = Overhead()
    executable = interpreter.find().executable
    cold = [executable, "-I", "-S", "-c", TRIVIAL.decode()]
    bwrap = shutil.which("bwrap")
    boxed = [
        str(bwrap),
        "--unshare-all",
        "--ro-bind",
        "/",
        "/",
        "--dev",
        "/dev",
        "--proc",
        "/proc",
        "--tmpfs",
        "/tmp",
        *cold,
    ]
    one = Request(TRIVIAL, (TestCase("1", b"", b"1"),))
    many = Request(TRIVIAL, tuple(TestCase(str(index), b"", b"1") for index in range(runs)))
    for number in range(rounds):
        found.fork.append(fork_floor_ms(engine))
        each = [_milliseconds(lambda: _checked(engine, one)) for _ in range(runs)]
        found.single.append(statistics.fmean(each))
        found.each += each
        others = [replace(one, code=TRIVIAL + b" # %d" % (number * runs + index)) for index in range(runs)]
        started = time.perf_counter()
        for other in others:
            _checked(engine, other)
        found.other.append((time.perf_counter() - started) * 1000 / runs)
        found.batch.append(_milliseconds(lambda: _checked(engine, many)) / runs)
        found.cold.append(statistics.median(_milliseconds(lambda: _quiet(cold)) for _ in range(10)))
        if bwrap and _quiet(boxed) == 0:
            found.bubblewrap.append(statistics.median(_milliseconds(lambda: _quiet(boxed)) for _ in range(10)))
    return found


def fork_floor_ms(engine: Embedded) -> float:
    """A bare fork, exit and wait of a process like the zygote (a program in the sandbox is its copy), median."""
    (result,) = engine.execute(Request(_FLOOR, (TestCase("fork", b""),), return_output=True))
    return float(result.output or b"nan") * 1000


def throughput(engine: Embedded, requests: Sequence[Request]) -> tuple[float, int]:
    """Executions a second over requests run as fast as the slots allow, and how many executions that were."""
    started = time.monotonic()
    count = sum(len(results) for _, results in engine.execute_many(requests))
    return count / (time.monotonic() - started), count


def trivial_requests(count: int, tests: int = 40) -> list[Request]:
    """Programs as small as they can be."""
    cases = tuple(TestCase(str(index), b"", b"1") for index in range(tests))
    return [Request(TRIVIAL + b" # %d" % number, cases) for number in range(count)]


def big_input_ms(engine: Embedded, size: int = 20_000_000, rounds: int = 7) -> tuple[float, float, float]:
    """(first time, again, small): wall ms of a program that leaves a big input unread; medians over rounds."""
    first: list[float] = []
    again: list[float] = []
    small: list[float] = []
    for number in range(rounds):
        text = str(number).encode() * size
        for times, content in ((small, b"x" * 20), (first, text), (again, text)):
            request = Request(b"print(1)", (TestCase("1", content[:size], b"1"),))
            times.append(_milliseconds(lambda request=request: _checked(engine, request)))  # type: ignore[misc]
    return statistics.median(first), statistics.median(again), statistics.median(small)


@dataclass
class Noise:
    """Durations in seconds of one program, ours and a bare pinned process's CPU time, in one condition."""

    ours: list[float] = field(default_factory=list)
    bare: list[float] = field(default_factory=list)


def trimmed(values: Sequence[float], share: float = 0.1) -> list[float]:
    """Without the slowest share."""
    ordered = sorted(values)
    return ordered[: max(2, math.ceil(len(ordered) * (1 - share)))]


def cv(values: Sequence[float]) -> float:
    """Standard deviation over mean, the slowest tenth left out."""
    kept = trimmed(values)
    return statistics.stdev(kept) / statistics.fmean(kept)


def burn_code(seconds: float) -> str:
    """A CPU-bound program that takes about so long on this machine."""
    count = 200_000
    cold = [interpreter.find().executable, "-I", "-S", "-c"]
    once = min(bare_cpu_s([*cold, _BURN.format(n=count)]) for _ in range(5))
    empty = min(bare_cpu_s([*cold, "pass"]) for _ in range(5))
    return _BURN.format(n=max(int(count * seconds / max(once - empty, 1e-4)), 1000))


def noise(engine: Embedded, code: str, runs: int, load: str = "idle") -> Noise:
    """The same program again and again, ours and bare in turn. load: idle, other (core saturated) or same."""
    core = engine.cores[0]
    others = [other for other in sorted(os.sched_getaffinity(0)) if other != core]
    burners = {"idle": [], "other": others, "same": [core]}[load]
    spinning = [_pinned([interpreter.find().executable, "-c", "while True: pass"], where) for where in burners]
    found = Noise()
    bare = [interpreter.find().executable, "-I", "-S", "-c", code]
    request = Request(code.encode(), (TestCase("1", b""),) * 1, Limits(time_s=60))
    try:
        for _ in range(runs):
            (result,) = engine.execute(request)
            if result.status is not Status.SUCCESS or result.duration_s is None:
                raise RuntimeError(f"the program ended with {result.status}: {result.detail}")
            found.ours.append(result.duration_s)
            found.bare.append(bare_cpu_s(bare, core))
    finally:
        for process in spinning:
            process.send_signal(signal.SIGKILL)
            process.wait()
    return found


def _checked(engine: Embedded, request: Request) -> None:
    for result in engine.execute(request):
        if result.status is not Status.SUCCESS:
            raise RuntimeError(f"a trivial program ended with {result.status}: {result.detail}")


def _milliseconds(action: Callable[[], object]) -> float:
    started = time.perf_counter()
    action()
    return (time.perf_counter() - started) * 1000


def _quiet(command: list[str]) -> int:
    return subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False).returncode


def _pinned(command: list[str], core: int | None) -> subprocess.Popen[bytes]:
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    if core is not None:
        os.sched_setaffinity(process.pid, {core})
    return process


def bare_cpu_s(command: list[str], core: int | None = None) -> float:
    """CPU seconds of a plain process, on any core or pinned to one."""
    process = _pinned(command, core)
    _, _, usage = os.wait4(process.pid, 0)
    process.returncode = 0
    return usage.ru_utime + usage.ru_stime
