"""Inside the sandbox: the process that waits for programs. It knows no test and no expected output.

    zygote (pid 1)  forks a template, waits for its end, kills and cleans up what is left, forks the next
    template        compiles one solution (no user code runs), then forks one process for every test,
                    or becomes the run itself when there is only one test
    run             drops its privileges, takes stdin and stdout from the supervisor, runs the solution

Each waits for its own message: a template for its program, a run for its test. So both are forked ahead and
ready when the message comes. Everything a run can reach is memory of its own; the only shared page holds one
flag, "the uncaught exception was a MemoryError", with which a solution can only make one failure look like
another.

Standard library only, as little of it as possible: what is imported here is copied at every fork.
"""

from __future__ import annotations

import _socket
import bisect  # noqa: F401  imported once here so that runs need not
import collections  # noqa: F401
import ctypes
import functools  # noqa: F401
import gc
import heapq  # noqa: F401
import io  # noqa: F401
import itertools  # noqa: F401
import math  # noqa: F401
import mmap
import operator  # noqa: F401
import os
import re
import resource
import select
import signal
import struct
import sys
import time

from processes import empty_directory, kill_all, kill_now
from program import CODE_PATH, main_module, run

# kind, runs expected, bytes of a file, cpu s, bytes of address space, processes, bytes of code that follow (or -1)
PROGRAM = struct.Struct("=cIqqqqi")
REPLY = struct.Struct("=cqqqqqqqqqB")  # kind, exit status, end, user, system, rss, switches (2), wait, left, flag
COMPILED = struct.Struct("=cq")  # b"K", CPU nanoseconds of this process so far; then the names of preloaded modules
SOCKET_FD = 3
GUARD_MARK = struct.pack("=I", 0x7A7A7A7A)
PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_SECCOMP, PR_SET_CHILD_SUBREAPER = 1, 4, 22, 36
_CAPABILITY_VERSION_3 = 0x20080522
_NUMBERS = ("pid_namespace", "uid", "gid")
_OWN_FRAMES = 5  # below a program's own, so that it can recurse as deep as without them
_LONG_NS = 20_000_000  # a shorter run was not kept waiting to speak of
_CLEAR = bytes(mmap.PAGESIZE)  # the whole shared page, so that no run finds what another one wrote
_GONE = 77  # exit status of a process whose supervisor hung up, or whose set-up failed

_IMPORT = re.compile(rb"^[ \t]*(?:import|from)[ \t]+([A-Za-z_][\w., \t]*)", re.M)
_NEVER_PRELOAD = {"__main__", "antigravity", "this", "idlelib", "turtle", "tkinter", "turtledemo", "lib2to3", "test"}
_ALSO_PRELOAD = {"numpy", "sortedcontainers"}

TYPE_CHECKING = False  # the import for annotations alone is not made inside the sandbox
if TYPE_CHECKING:
    from typing import Any

    Job = tuple[Any, list[dict[str, Any]], mmap.mmap]

_libc = ctypes.CDLL(None)
_setup: dict[str, Any] = {}


def serve(conn: _socket.socket) -> Job:
    """Zygote and template. Returns only inside a run, with what to execute."""
    flag = mmap.mmap(-1, mmap.PAGESIZE)
    while True:
        forked = time.monotonic_ns()
        pid = os.fork()
        if pid == 0:
            return template(conn, flag)
        reply = reap(pid, forked, flag, b"X")
        clean_scratch()
        flag[:] = _CLEAR
        try:
            conn.send(reply)
        except OSError:
            os._exit(0)


def clean_scratch() -> None:
    """Empty the scratch directories if a run left anything there."""
    if _setup["uid"] < 0 or not _setup["pid_namespace"]:  # the run owned them and may have locked others out
        for directory in _setup["scratch"]:
            os.chmod(directory, 0o1777)
    if _setup["pid_namespace"] and os.statvfs(_setup["scratch"][0]).f_ffree == _setup["free_inodes"]:
        return
    for directory in _setup["scratch"]:
        empty_directory(directory)


def template(conn: _socket.socket, flag: mmap.mmap) -> Job:
    """Compile one solution, then fork a run for each test. Returns in the runs."""
    _libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # as programs expect it
    signal.signal(signal.SIGUSR1, lambda *_: kill_now(_setup["pid_namespace"]))
    make_likely_victim()
    conn.send(b"P")  # the kernel adds this process's id as the supervisor sees it
    message, files = receive(conn)
    kind, expected_runs, *limits, inline = PROGRAM.unpack_from(message)
    source = message[PROGRAM.size :]
    if inline < 0:
        with open(files.pop(0), "rb") as file:
            source = file.read()
    write_source(source)
    set_limits(*limits)
    try:
        code = compile(source, CODE_PATH, "exec", dont_inherit=True)
    except BaseException as error:
        conn.send(b"S" + f"{type(error).__name__}: {error}".encode("utf-8", "replace")[:400])
        select.poll().poll()  # until the supervisor ends this process
    preloaded = ",".join(preload(source)).encode()
    empty = compile("", CODE_PATH, "exec")
    if kind in (b"O", b"E"):
        become_only_run(conn, files, preloaded)
        return (code if kind == b"O" else empty), [main_module().__dict__], flag
    gc.collect()
    gc.freeze()
    namespaces = [main_module().__dict__]  # after the freeze, so that it can be collected at the program's end
    conn.send(COMPILED.pack(b"K", time.process_time_ns()) + preloaded)
    ready = select.poll()
    ready.register(conn, select.POLLIN)
    run_number, taken = 0, mmap.mmap(-1, mmap.PAGESIZE)
    while True:
        if run_number >= expected_runs:
            ready.poll()
        run_number += 1
        flag[:], taken[0] = _CLEAR, 0
        protected, forked = os.getpid(), time.monotonic_ns()
        pid = os.fork()
        if pid == 0:
            drop_privileges(protected)
            kind, files = receive(conn)
            taken[0] = 1
            taken.close()  # before the program, which must not reach it
            take_files(files)
            return (code if kind == b"R" else empty), namespaces, flag
        reply = reap(pid, forked, flag, b"D")
        if not taken[0]:
            os._exit(_GONE)  # the run ended before it took its message: its set-up failed, which is no verdict
        clean_scratch()
        try:
            conn.send(reply)
        except OSError:
            os._exit(_GONE)


def become_only_run(conn: _socket.socket, files: list[int], preloaded: bytes) -> None:
    """The template of a single test turns into its run; the zygote will reap it."""
    drop_privileges(1)
    _libc.prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
    conn.send(COMPILED.pack(b"K", time.process_time_ns()) + preloaded)
    take_files(files)


def receive(conn: _socket.socket) -> tuple[bytes, list[int]]:
    """One message and the descriptors that came with it; ends the process when the supervisor is gone."""
    data, ancillary, _, _ = conn.recvmsg(1 << 16, _socket.CMSG_SPACE(8 * 4))
    if not data:
        os._exit(_GONE)
    fds = [fd for _, _, packed in ancillary for (fd,) in struct.iter_unpack("i", packed[: len(packed) // 4 * 4])]
    return data, fds


def make_likely_victim() -> None:
    """Where memory runs out, the kernel should take a run and not the zygote. Inherited by every run."""
    _libc.prctl(PR_SET_DUMPABLE, 1, 0, 0, 0)  # what it writes to is its own only then
    try:
        fd = os.open("self/oom_score_adj", os.O_WRONLY, dir_fd=_setup["proc_fd"])
        os.write(fd, b"1000")
        os.close(fd)
    except OSError:
        pass
    _libc.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)  # so that no run reads or writes its memory, under the same uid neither


def set_limits(file_bytes: int, cpu_s: int, address_bytes: int, processes: int) -> None:
    """Hard limits, inherited by every run. A negative one is left as it is."""
    for name, value in (
        (resource.RLIMIT_FSIZE, file_bytes),
        (resource.RLIMIT_CPU, cpu_s),
        (resource.RLIMIT_AS, address_bytes),
        (resource.RLIMIT_NPROC, processes),
    ):
        if value >= 0:
            limit(name, value)


def limit(name: int, value: int) -> None:
    """Set a hard limit, or keep the one there is where that is lower."""
    try:
        resource.setrlimit(name, (value, value))
    except ValueError:
        hard = resource.getrlimit(name)[1]
        resource.setrlimit(name, (hard, hard))


def write_source(source: bytes) -> None:
    """Put the program where its tracebacks and __file__ say it is."""
    fd = _setup["source_fd"]
    if fd >= 0:
        os.ftruncate(fd, len(source))
        view, at = memoryview(source), 0
        while at < len(source):
            at += os.pwrite(fd, view[at:], at)


def preload(source: bytes) -> list[str]:
    """Import the trusted modules that the program names, so that its runs need not. Returns their names."""
    wanted = set()
    for statement in _IMPORT.findall(source):
        for name in statement.split(b" import ")[0].split(b","):
            words = name.split()
            if words:
                wanted.add(words[0].decode("ascii", "replace").rstrip("."))
    allowed = sys.stdlib_module_names | _ALSO_PRELOAD
    done = []
    for name in sorted(wanted):
        parts = name.split(".")
        if parts[0] in allowed and not _NEVER_PRELOAD.intersection(parts) and name not in sys.modules:
            try:
                __import__(name)
            except BaseException:
                continue
            done.append(name)
    return done


def drop_privileges(protected: int) -> None:
    """Everything a run gives up before it may see a test. protected: a pid that it must not be able to signal."""
    signal.signal(signal.SIGUSR1, signal.SIG_DFL)
    os.setsid()
    if _setup["uid"] >= 0:
        os.setgroups(())
        os.setresgid(_setup["gid"], _setup["gid"], _setup["gid"])
        os.setresuid(_setup["uid"], _setup["uid"], _setup["uid"])
    else:
        _libc.capset(struct.pack("=Ii", _CAPABILITY_VERSION_3, 0), bytes(24))
    if _setup["guard"]:
        install_guard(protected if _setup["pid_namespace"] else os.getpid())
    _libc.prctl(PR_SET_DUMPABLE, 1, 0, 0, 0)


def take_files(files: list[int]) -> None:
    """A big input comes as a file of its own; whatever else is open is closed."""
    if files:
        os.dup2(files[0], 0)
    os.closerange(3, 4096)


def install_guard(pid: int) -> None:
    """Refuse signals to processes that are no part of the run, where they have the same uid."""
    program = _setup["guard"].replace(GUARD_MARK, struct.pack("=I", pid))
    records = ctypes.create_string_buffer(program, len(program))
    prog = struct.pack("HP", len(program) // 8, ctypes.addressof(records))
    if _libc.prctl(PR_SET_SECCOMP, 2, prog, 0, 0) != 0:
        os._exit(_GONE)


def reap(pid: int, forked: int, flag: mmap.mmap, kind: bytes) -> bytes:
    """Wait for a run, kill what it left. Returns the message that says how it ended and what its tree used."""
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    ended = time.monotonic_ns()
    waited = runqueue_wait(pid) if ended - forked > _LONG_NS else 0
    _, status, usage = os.wait4(pid, 0)
    left = kill_all(_setup["pid_namespace"])
    usages = [usage, *left]
    return REPLY.pack(
        kind,
        status,
        ended,
        sum(round(u.ru_utime * 1e9) for u in usages),
        sum(round(u.ru_stime * 1e9) for u in usages),
        max(u.ru_maxrss for u in usages) * 1024,
        sum(u.ru_nvcsw for u in usages),
        sum(u.ru_nivcsw for u in usages),
        waited,
        len(left),
        flag[0],
    )


def runqueue_wait(pid: int) -> int:
    """Nanoseconds the main thread of a zombie was ready but not running; 0 where the kernel does not say."""
    try:
        fd = os.open(f"{pid}/schedstat", os.O_RDONLY, dir_fd=_setup["proc_fd"])
    except OSError:
        return 0
    try:
        return int(os.read(fd, 128).split()[1])
    except (OSError, ValueError, IndexError):
        return 0
    finally:
        os.close(fd)


def start() -> _socket.socket:
    """Read the set-up that the launcher left in the environment, and remove it from there."""
    for item in os.environ.pop("SANDBOX").split(";"):
        key, value = item.split("=", 1)
        _setup[key] = int(value) if key in _NUMBERS else value
    _setup["scratch"] = _setup.pop("scratch_directories").split(":")
    _setup["free_inodes"] = os.statvfs(_setup["scratch"][0]).f_ffree
    path, _setup["source_fd"] = _setup["code_path"], -1
    if path:
        _setup["source_fd"] = os.open(path, os.O_WRONLY | os.O_CREAT, 0o444)
    for kind, most in ((resource.RLIMIT_CORE, 0), (resource.RLIMIT_MEMLOCK, 1 << 20), (resource.RLIMIT_MSGQUEUE, 0)):
        limit(kind, most)
    _setup["guard"] = bytes.fromhex(_setup.pop("guard_path"))
    _setup["proc_fd"] = os.open(_setup["proc_path"], os.O_RDONLY | os.O_DIRECTORY)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    if not _setup["pid_namespace"]:  # otherwise orphans come to this process because it is the init
        _libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    sys.set_int_max_str_digits(0)
    sys.setrecursionlimit(sys.getrecursionlimit() + _OWN_FRAMES)
    for name in ("processes", "program", "zygote"):
        sys.modules.pop(name, None)
    gc.collect()
    gc.freeze()
    _libc.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
    conn = _socket.socket(fileno=SOCKET_FD)
    receive(conn)  # sent when the supervisor has become the parent, whose death then ends this process
    _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    conn.send(b"Z")
    return conn


run(*serve(start()))
