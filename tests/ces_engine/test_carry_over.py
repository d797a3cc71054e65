"""Nothing that a run does to its files, streams or shared memory reaches the next run of the slot."""

from collections.abc import Iterator

import pytest

from dmc_optim.ces import Limits, Request, Result, Status, TestCase
from dmc_optim.ces.engine.embedded import Embedded

ATTRIBUTES = """
import os
for place in (0, 1, 2, "/tmp", "/dev/shm", "/box", "/dev/null"):
    try: print(os.getxattr(place, "user.note"))
    except OSError: pass
    try: os.setxattr(place, "user.note", b"left")
    except OSError: pass
"""
LOCKS = """
import fcntl, os, struct
whole = lambda kind: struct.pack("hhqqi4x", kind, 0, 0, 0, 0)
for fd, kind in ((0, fcntl.F_RDLCK), (1, fcntl.F_WRLCK), (2, fcntl.F_WRLCK)):
    other = os.open(f"/proc/self/fd/{fd}", os.O_RDONLY if fd == 0 else os.O_WRONLY)
    try: fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError: print("locked", fd)
    os.close(other)
    fcntl.flock(fd, fcntl.LOCK_EX)
    for command, argument in ((fcntl.F_OFD_SETLK, whole(kind)), (1024, fcntl.F_WRLCK)):
        try: fcntl.fcntl(fd, command, argument)
        except OSError: pass
    other = os.open(f"/proc/self/fd/{fd}", os.O_RDWR if fd == 1 else os.O_RDONLY if fd == 0 else os.O_WRONLY)
    found = fcntl.fcntl(other, fcntl.F_OFD_GETLK, whole(fcntl.F_WRLCK if fd else fcntl.F_RDLCK))
    if struct.unpack("hhqqi4x", found)[0] != fcntl.F_UNLCK: print("range locked", fd)
"""
SHARED_PAGES = """
import ctypes
for line in open("/proc/self/maps"):
    extent, access, *_ = line.split()
    if access == "rw-s":
        low, high = (int(part, 16) for part in extent.split("-"))
        if any(ctypes.string_at(low + 1, high - low - 1)): print(line)
        ctypes.memset(low + 1, 7, high - low - 1)
"""
PIPE = """
import fcntl, os, sys
if fcntl.fcntl(2, fcntl.F_GETPIPE_SZ) != 65536: print("resized")
for size in (4096, 1 << 20):
    try: fcntl.fcntl(2, fcntl.F_SETPIPE_SZ, size)
    except OSError: pass
if sys.stdin.read() == "write":
    fcntl.fcntl(2, fcntl.F_SETFL, os.O_WRONLY | os.O_DIRECT | os.O_NONBLOCK)  # every write a packet of its own
    try:
        while True: os.write(2, b"!")
    except OSError: pass
"""
TAKEN_NAMES = """
import os
if os.listdir("/tmp") or os.listdir("/dev/shm"): print("not empty")
for root in ("/tmp", "/dev/shm"):
    for name in [str(n) for n in range(1, 40)] + [f".{pid}.{n}" for pid in range(1, 5) for n in range(1, 40)]:
        if name.endswith("3"): open(f"{root}/{name}", "w").close()
        else: os.makedirs(f"{root}/{name}/in/1/2")
"""


@pytest.fixture(scope="module")
def one(engine: Embedded) -> Iterator[Embedded]:
    """An engine of one slot, so that consecutive runs meet the same sandbox."""
    with Embedded(1) as single:
        yield single


def consecutive(engine: Embedded, code: str, text: bytes = b"") -> list[Result]:
    """Three runs of one program, then two of programs that run once, all in the same sandbox."""
    found: list[Result] = []
    for count in (3, 1, 1):
        tests = tuple(TestCase(str(index), text) for index in range(count))
        found += engine.execute(Request(code.encode(), tests, return_output=True))
    return found


@pytest.mark.parametrize("code", [ATTRIBUTES, LOCKS, SHARED_PAGES, PIPE, TAKEN_NAMES])
def test_a_run_finds_nothing_of_the_one_before(one: Embedded, code: str) -> None:
    for result in consecutive(one, code):
        assert (result.status, result.output, result.retries) == (Status.SUCCESS, b"", 0), result


def test_what_was_left_in_the_stderr_pipe_is_not_the_next_runs(one: Embedded) -> None:
    tests = (TestCase("writes", b"write"), TestCase("silent", b""))
    _, silent = one.execute(Request(PIPE.encode(), tests))
    assert (silent.status, silent.stderr_tail) == (Status.SUCCESS, b"")


def test_the_standard_streams_can_be_opened_by_name(one: Embedded) -> None:
    code = "open('/dev/stderr', 'w').write('e')\nopen('/dev/stdout', 'a').write(open('/dev/stdin').read())"
    for result in consecutive(one, code, b"in"):
        assert (result.status, result.output, result.stderr_tail) == (Status.SUCCESS, b"in", b"e")


def test_a_sandbox_short_of_memory_gives_no_program_the_verdict_of_another(one: Embedded) -> None:
    tests = tuple(TestCase(str(index), b"", b"1") for index in range(2))
    for memory in (1 << 20, 2 << 20, 4 << 20) * 3:
        starved = one.execute(Request(b"import os, sys\nprint(1)", tests, Limits(memory_bytes=memory)))
        assert {r.status for r in starved} <= {Status.OUT_OF_MEMORY, Status.SUCCESS}
        for number in (1, 2):
            code = f"import os, sys\nprint({memory + number})".encode()
            (result,) = one.execute(Request(code, (TestCase("next", b"", str(memory + number).encode()),)))
            assert result.status == Status.SUCCESS, result
