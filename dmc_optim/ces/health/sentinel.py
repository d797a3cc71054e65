"""The sentinel suite: fixed programs of known output, run rarely to feel how fast the service is now (paper C.12)."""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, field

from dmc_optim.ces.types import Executor, Limits, Request, TestCase
from dmc_optim.errors import InvalidInputError
from schemas.enums import Status

MIN_TIMINGS = 3  # of a snippet in a reading; a median of fewer says little

_CPU = "n=int(input())\na=1\nfor _ in range(n):\n    a=(a*1103515245+12345)%2147483648\nprint(a)\n"
_MEMORY = (
    "n=int(input())\nb=bytearray(n)\nfor i in range(0,n,4096):\n    b[i]=1\nc=bytes(b)\nprint(sum(c[::4096]),len(c))\n"
)
_ALLOCATION = (
    "n=int(input())\nd={}\nfor i in range(n):\n    d[i]=[i,str(i)]\nprint(len(d),sum(len(v[1]) for v in d.values()))\n"
)
_FILE = (
    "n=int(input())\nblock=b'x'*65536\n"
    "with open('/tmp/sentinel','wb') as f:\n    for _ in range(n):\n        f.write(block)\n"
    "total=0\nwith open('/tmp/sentinel','rb') as f:\n    while chunk:=f.read(65536):\n        total+=len(chunk)\n"
    "print(total)\n"
)
_READ = "import sys\nprint(sum(map(int,sys.stdin.buffer.read().split())))\n"
_WRITE = "import sys\nn=int(input())\nsys.stdout.write(''.join('%d\\n'%(i%1000) for i in range(n)))\n"
_SORT = "n=int(input())\nv=[(i*7919)%1000003 for i in range(n)]\nv.sort()\nprint(v[0],v[n//2],v[-1])\n"


@dataclass(frozen=True, slots=True)
class Snippet:
    """One sentinel. input and expected output as bytes."""

    name: str
    code: str
    input: bytes
    expected: bytes


@dataclass(frozen=True)
class SuiteReading:
    """One pass over the suite.

    timings: snippet → durations in seconds of its successful runs. failed: snippet → status of its runs that did not
    succeed, as often as they occurred. identity: what ran it (engine, interpreter, tier), for telling an upgrade from a
    slow-down. complete: every snippet was timed often enough to be compared.
    """

    timings: dict[str, list[float]]
    failed: dict[str, list[str]] = field(default_factory=dict)
    identity: str = ""

    @property
    def complete(self) -> bool:
        """Whether the reading may enter a baseline or be judged by one."""
        return all(len(values) >= MIN_TIMINGS for values in self.timings.values())


def suite() -> tuple[Snippet, ...]:
    """The fixed programs: CPU at four lengths, memory, allocation, a file, input, output, sorting; about half a
    second a pass.

    Their durations span two orders of magnitude, so that a slope and an offset can be told apart.
    """
    numbers = b" ".join(str(i % 1000).encode() for i in range(120_000))
    return (
        *(Snippet(f"cpu_{n}", _CPU, f"{n}\n".encode(), _lcg(n)) for n in (10_000, 100_000, 500_000, 1_500_000)),
        Snippet("memory_64m", _MEMORY, b"67108864\n", b"16384 67108864\n"),
        Snippet("allocation", _ALLOCATION, b"60000\n", b"60000 288890\n"),
        Snippet("file_16m", _FILE, b"256\n", b"16777216\n"),
        Snippet("read_500k", _READ, numbers + b"\n", b"59940000\n"),
        Snippet("write_600k", _WRITE, b"150000\n", "".join(f"{i % 1000}\n" for i in range(150_000)).encode()),
        Snippet("sort", _SORT, b"120000\n", _sorted_numbers(120_000)),
    )


def suite_digest(snippets: tuple[Snippet, ...]) -> str:
    """Identifies programs and inputs: readings of different suites are never compared."""
    text = json.dumps([[s.name, s.code, hashlib.sha256(s.input).hexdigest()] for s in snippets])
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def take_reading(
    executor: Executor, snippets: tuple[Snippet, ...], repetitions: int = 5, limits: Limits | None = None
) -> SuiteReading:
    """Run the suite `repetitions` times, snippets interleaved, one execution at a time so as not to disturb itself.

    A run that does not succeed gives no timing and is listed; nothing is retried. Raises InvalidInputError for fewer
    than MIN_TIMINGS repetitions, and whatever the executor raises when the service is out of reach.
    """
    if repetitions < MIN_TIMINGS:
        raise InvalidInputError(f"a reading needs at least {MIN_TIMINGS} repetitions of each sentinel")
    timings: dict[str, list[float]] = {snippet.name: [] for snippet in snippets}
    failed: dict[str, list[str]] = {}
    identity = ""
    for name, status, duration_s, ran_by in _runs(executor, snippets, repetitions, limits or Limits()):
        if status is Status.SUCCESS and duration_s is not None:
            timings[name].append(duration_s)
            identity = ran_by
        else:
            failed.setdefault(name, []).append(status.value)
    return SuiteReading(timings, failed, identity)


def _runs(
    executor: Executor, snippets: tuple[Snippet, ...], repetitions: int, limits: Limits
) -> Iterator[tuple[str, Status, float | None, str]]:
    for repetition in range(repetitions):
        for snippet in snippets:
            test = TestCase(f"{snippet.name}-{repetition}", snippet.input, snippet.expected)
            results = list(executor.execute(Request(snippet.code.encode(), (test,), limits)))
            if not results:
                yield snippet.name, Status.INFRASTRUCTURE, None, ""
            for result in results:
                ran_by = " · ".join(part for part in (result.engine, result.interpreter, result.tier) if part)
                yield snippet.name, result.status, result.duration_s, ran_by


def _lcg(n: int) -> bytes:
    """What the CPU snippet prints: n steps of its recurrence, by squaring instead of looping."""
    modulus, multiplier, increment = 1 << 31, 1103515245, 12345
    a, c, total_a, total_c = multiplier, increment, 1, 0
    while n:
        if n & 1:
            total_a, total_c = total_a * a % modulus, (total_c * a + c) % modulus
        a, c = a * a % modulus, (a + 1) * c % modulus
        n >>= 1
    return f"{(total_a + total_c) % modulus}\n".encode()


def _sorted_numbers(n: int) -> bytes:
    values = sorted(i * 7919 % 1000003 for i in range(n))
    return f"{values[0]} {values[n // 2]} {values[-1]}\n".encode()
