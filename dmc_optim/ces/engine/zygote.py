"""The program inside the sandbox. It knows no test, no expected output and nothing of this package.

    zygote (pid 1)  forks a template, waits for its end, kills and cleans up what is left, forks the next
    template        compiles one solution (no user code runs), then forks one process for every test
    run             drops its privileges, takes stdin and stdout from the supervisor, runs the solution

The template does not read requests for runs: the forked run waits for its own, so that it is ready when the
test comes. Everything a run can reach is memory of its own; the only shared page holds one flag, "the uncaught
exception was a MemoryError", with which a solution can only make one failure look like another.

Standard library only, as little of it as possible: what is imported here is copied at every fork.
"""

import _socket
import atexit
import bisect  # noqa: F401  imported once here so that runs need not
import builtins
import collections  # noqa: F401
import ctypes
import fcntl
import functools  # noqa: F401
import gc
import heapq  # noqa: F401
import io
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

COMPILE = struct.Struct("=cIqqqqi")  # b"C", runs expected, file bytes, cpu s, address bytes, processes, flags
REPLY = struct.Struct("=cqqqqqqqqqB")
CODE_PATH = "/box/solution.py"
SOCKET_FD = 3
PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_CHILD_SUBREAPER = 1, 4, 36

_IMPORT = re.compile(rb"^[ \t]*(?:import|from)[ \t]+([A-Za-z_][\w., \t]*)", re.M)
_NEVER_PRELOAD = {"__main__", "antigravity", "this", "idlelib", "turtle", "tkinter", "turtledemo", "lib2to3", "test"}
_ALSO_PRELOAD = {"numpy", "sortedcontainers"}

_prctl = ctypes.CDLL(None).prctl
_setup = {}


def serve(conn):
    """Zygote and template. Returns only inside a run, with what to execute."""
    flag = mmap.mmap(-1, mmap.PAGESIZE)
    while True:
        pid = os.fork()
        if pid == 0:
            return template(conn, flag)
        _, status = os.waitpid(pid, 0)
        if os.WIFEXITED(status) and os.WEXITSTATUS(status) == 77:
            os._exit(0)
        kill_all()
        clean_scratch()
        try:
            conn.send(b"X" + struct.pack("=q", status))
        except OSError:
            os._exit(0)


def kill_all():
    """Kill and reap everything in the sandbox but its init and the caller. Returns rusages of what was reaped."""
    usages = []
    while True:
        try:
            pid, _, usage = os.wait4(-1, os.WNOHANG)
        except ChildProcessError:
            return usages
        if pid == 0:
            if _setup["pid_namespace"]:
                os.kill(-1, signal.SIGKILL)
            else:
                kill_descendants()
            pid, _, usage = os.wait4(-1, 0)
        usages.append(usage)


def kill_descendants():
    """Without a pid namespace: kill by walking the children files, until none is left."""
    seen = True
    while seen:
        seen, front = False, [os.getpid()]
        while front:
            try:
                with open(f"/proc/{front[0]}/task/{front.pop(0)}/children") as listing:
                    children = [int(child) for child in listing.read().split()]
            except OSError:
                continue
            front.extend(children)
            for child in children:
                try:
                    os.kill(child, signal.SIGKILL)
                    with open(f"/proc/{child}/stat") as stat:
                        seen = seen or stat.read().rpartition(")")[2].split()[0] not in "ZX"
                except OSError:
                    pass


def clean_scratch():
    """Empty the scratch directories if a run left anything there."""
    for path, free in _setup["scratch"]:
        if os.statvfs(path).f_ffree != free:
            for directory in _setup["scratch_directories"]:
                empty_directory(directory)


def empty_directory(root):
    """Delete everything in root, without recursion: nested directories are first moved up to it."""
    counter = 0
    pending = True
    while pending:
        pending = False
        for entry in list(os.scandir(root)):
            if not entry.is_dir(follow_symlinks=False):
                os.unlink(entry.path)
                continue
            for inner in list(os.scandir(entry.path)):
                if inner.is_dir(follow_symlinks=False):
                    counter += 1
                    os.rename(inner.path, f"{root}/.{os.getpid()}.{counter}")
                    pending = True
                else:
                    os.unlink(inner.path)
            os.rmdir(entry.path)


def template(conn, flag):
    """Compile one solution, then fork a run for each test. Returns in the runs."""
    _prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    signal.signal(signal.SIGUSR1, lambda *_: os.kill(-1, signal.SIGKILL) if _setup["pid_namespace"] else kill_descendants())
    conn.send(b"P")  # the kernel adds this process's id as the supervisor sees it
    header, code_fd = receive(conn)
    _, expected_runs, file_bytes, cpu_s, address_bytes, processes, flags = COMPILE.unpack(header)
    os.lseek(code_fd, 0, os.SEEK_SET)  # the same descriptor comes again when a sandbox is replaced
    with open(code_fd, "rb") as file:
        source = file.read()
    write_source(source)
    set_limits(file_bytes, cpu_s, address_bytes, processes)
    try:
        code = compile(source, CODE_PATH, "exec", dont_inherit=True)
    except BaseException as error:
        conn.send(b"S" + f"{type(error).__name__}: {error}".encode("utf-8", "replace")[:400])
        select.poll().poll()  # until the supervisor ends this process
    preload(source)
    namespace = main_module().__dict__
    conn.send(b"K" + ",".join(sorted(_setup["preloaded"])).encode())
    gc.collect()
    gc.freeze()
    ready = select.poll()
    ready.register(conn, select.POLLIN)
    run = 0
    while True:
        if run >= expected_runs:
            ready.poll()
        run += 1
        flag[0] = 0
        fcntl.fcntl(2, fcntl.F_SETFL, os.O_WRONLY)
        pid = os.fork()
        if pid == 0:
            kind = become_run(conn)
            return (code if kind == b"R" else compile("", CODE_PATH, "exec")), namespace, flag
        reply = reap(pid, flag)
        clean_scratch()
        try:
            conn.send(reply)
        except OSError:
            os._exit(77)


def receive(conn):
    """One message and the descriptor that came with it; ends the process when the supervisor is gone."""
    data, ancillary, _, _ = conn.recvmsg(4096, _socket.CMSG_SPACE(8 * 4))
    if not data:
        os._exit(77)
    fds = [fd for _, _, packed in ancillary for (fd,) in struct.iter_unpack("i", packed[: len(packed) // 4 * 4])]
    return data, *fds


def set_limits(file_bytes, cpu_s, address_bytes, processes):
    """Hard limits, inherited by every run."""
    for name, value in (
        (resource.RLIMIT_FSIZE, file_bytes),
        (resource.RLIMIT_CPU, cpu_s),
        (resource.RLIMIT_AS, address_bytes),
        (resource.RLIMIT_NPROC, processes),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_MEMLOCK, 1 << 20),
        (resource.RLIMIT_MSGQUEUE, 0),
    ):
        if value >= 0:
            resource.setrlimit(name, (value, value))


def write_source(source):
    """Put the program where its tracebacks and __file__ say it is."""
    path = _setup["code_path"]
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o444)
    view = memoryview(source)
    while view:
        view = view[os.write(fd, view) :]
    os.close(fd)


def preload(source):
    """Import the trusted modules that the program names, so that its runs need not."""
    wanted = set()
    for statement in _IMPORT.findall(source):
        before = statement.split(b" import ")[0]
        for name in before.split(b","):
            words = name.split()
            if words:
                wanted.add(words[0].decode().rstrip("."))
    allowed = sys.stdlib_module_names | _ALSO_PRELOAD
    done = _setup["preloaded"] = set()
    for name in sorted(wanted):
        top = name.partition(".")[0]
        if top in allowed and top not in _NEVER_PRELOAD and name not in sys.modules:
            try:
                __import__(name)
            except BaseException:
                continue
            done.add(name)


def main_module():
    """A fresh __main__, as `python solution.py` makes it."""
    module = type(sys)("__main__")
    module.__builtins__ = builtins
    module.__file__ = CODE_PATH
    module.__annotations__ = {}
    module.__cached__ = None
    sys.modules["__main__"] = module
    sys.argv[:] = [CODE_PATH]
    sys.path[0] = "/box"
    return module


def become_run(conn):
    """Drop privileges, wait for this run's message, put its files at 0 and 1. Returns the kind of run."""
    signal.signal(signal.SIGUSR1, signal.SIG_DFL)
    os.setsid()
    if _setup["oom_path"]:
        fd = os.open(_setup["oom_path"], os.O_WRONLY, dir_fd=_setup["proc_fd"])
        os.write(fd, b"1000")
        os.close(fd)
    if _setup["uid"] >= 0:
        os.setgroups(())
        os.setresgid(_setup["gid"], _setup["gid"], _setup["gid"])
        os.setresuid(_setup["uid"], _setup["uid"], _setup["uid"])
    _prctl(PR_SET_DUMPABLE, 1, 0, 0, 0)
    kind, stdin, stdout = receive(conn)
    os.dup2(stdin, 0)
    os.dup2(stdout, 1)
    os.closerange(3, 4096)
    return kind


def reap(pid, flag):
    """Wait for a run, kill what it left, and say what the whole tree used."""
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    ended = time.monotonic_ns()
    waited = runqueue_wait(pid)
    _, status, usage = os.wait4(pid, 0)
    left = kill_all()
    usages = [usage, *left]
    return REPLY.pack(
        b"D",
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


def runqueue_wait(pid):
    """Nanoseconds the main thread of a zombie was runnable but not running; 0 where the kernel does not say."""
    try:
        fd = os.open(f"{pid}/schedstat", os.O_RDONLY, dir_fd=_setup["proc_fd"])
    except OSError:
        return 0
    try:
        return int(os.read(fd, 128).split()[1])
    finally:
        os.close(fd)


def standard_streams():
    """sys.stdin and friends over files like those of a run, made once and inherited by every fork."""
    null = os.memfd_create("null")
    os.dup2(null, 0)
    os.dup2(null, 1)
    os.close(null)
    text = {"encoding": "utf-8", "errors": "surrogateescape"}
    sys.stdin = sys.__stdin__ = io.TextIOWrapper(io.BufferedReader(io.FileIO(0, "rb", closefd=False)), **text)
    sys.stdout = sys.__stdout__ = io.TextIOWrapper(io.BufferedWriter(io.FileIO(1, "wb", closefd=False)), **text)


def run(code, namespace, flag):
    """Execute the program and end the process as CPython would, with the same exit code."""
    main, run_exit, flush, leave, collect = sys.modules, atexit._run_exitfuncs, flush_streams, os._exit, gc.collect
    exit_type, memory_type, base_type, is_a, show = SystemExit, MemoryError, BaseException, isinstance, show_exception
    status = 0
    try:
        exec(code, namespace)
    except base_type as error:
        if is_a(error, exit_type):
            status = exit_status(error.code)
        else:
            status = 1
            if is_a(error, memory_type):
                flag[0] = 1
            show(error)
    try:
        threading = main.get("threading")
        if threading is not None:
            threading._shutdown()
    except base_type as error:
        show(error)
    run_exit()
    status = flush(status)
    clear_module(namespace)
    collect()
    leave(flush(status))


def exit_status(code, _none=type(None), _int=int, _is=isinstance, _write=os.write, _str=str):
    """What sys.exit(code) means."""
    if _is(code, _none):
        return 0
    if _is(code, _int):
        return code & 0xFF
    try:
        sys.stdout.flush()
    except Exception:
        pass
    _write(2, _str(code).encode("utf-8", "replace") + b"\n")
    return 1


def show_exception(error):
    """Print a traceback without the frames of this file."""
    try:
        trace = error.__traceback__
        if trace is not None:
            trace = trace.tb_next
        sys.excepthook(type(error), error.with_traceback(trace), trace)
    except BaseException:
        pass


def flush_streams(status):
    """Flush as at exit; a failure turns the status into 120, as in CPython."""
    for name in ("stdout", "stderr"):
        try:
            stream = getattr(sys, name, None)
            if stream is not None and not stream.closed:
                stream.flush()
        except BaseException:
            status = status or 120
    return status


def clear_module(namespace):
    """Drop the program's globals in CPython's order, so that finalizers run and open files are flushed."""
    try:
        for private in (True, False):
            for name in list(namespace):
                if (name[:1] == "_" and name[1:2] != "_") is private and name != "__builtins__":
                    namespace[name] = None
    except BaseException:
        pass


def start():
    """Read the set-up that the launcher left in the environment, and remove it from there."""
    for item in os.environ.pop("SANDBOX").split(";"):
        key, value = item.split("=", 1)
        _setup[key] = value if "path" in key or "director" in key else int(value)
    _setup["scratch_directories"] = _setup["scratch_directories"].split(":")
    _setup["scratch"] = [(_setup["scratch_directories"][0], os.statvfs(_setup["scratch_directories"][0]).f_ffree)]
    _setup["proc_fd"] = os.open(_setup["proc_path"], os.O_RDONLY | os.O_DIRECTORY)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    sys.set_int_max_str_digits(0)
    standard_streams()
    gc.collect()
    gc.freeze()
    conn = _socket.socket(fileno=SOCKET_FD)
    receive(conn)  # sent when the supervisor has become the parent, whose death then ends this process
    _prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    conn.send(b"Z")
    return conn


_program = serve(start())
run(*_program)
