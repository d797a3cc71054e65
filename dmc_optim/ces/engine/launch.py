"""From a supervisor to a running zygote: fork, cgroup, namespaces, root directory, seccomp, exec.

    supervisor ── fork ──> builder: cgroup, affinity, namespaces, root directory
                              └── fork ──> init (pid 1): /proc, pivot_root, ids, seccomp, exec of the zygote

The builder ends once the init runs; the supervisor is a child subreaper, so the init becomes its child. Without
namespaces the builder itself becomes the zygote.
"""

import fcntl
import os
import resource
import signal
import socket
import stat
import tempfile
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from dmc_optim.ces.engine import landlock, rootfs, seccomp
from dmc_optim.ces.engine import namespaces as ns
from dmc_optim.ces.engine.inside import bundle
from dmc_optim.ces.engine.interpreter import Interpreter
from dmc_optim.errors import EngineError

STACK_BYTES = 256 << 20
INNER_UID = 65534
_HIGH_FD = 1000
_OPEN_FILES = 1024  # whatever the caller has: what programs may open, and how much pipes and sockets can hold
_KEPT = (ns.CAP_DAC_OVERRIDE, ns.CAP_FOWNER, ns.CAP_KILL, ns.CAP_SETGID, ns.CAP_SETUID)
_SPACES = ns.NEWNS | ns.NEWPID | ns.NEWNET | ns.NEWIPC | ns.NEWUTS | ns.NEWCGROUP
_ENVIRONMENT = {
    "PATH": "/usr/bin:/bin",
    "HOME": "/tmp",
    "LANG": "C.UTF-8",
    "PYTHONHASHSEED": "0",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONNOUSERSITE": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
}


@dataclass(frozen=True)
class Isolation:
    """How to isolate a zygote.

    outer_uids: host ids that the sandbox's root and nobody are mapped to by a privileged caller; None maps the
    caller's own id to both. scratch: the directory for scratch files where there are no namespaces.
    counted: whether a cgroup counts memory that no process has mapped.
    """

    namespaces: bool
    outer_uids: tuple[int, int] | None
    core: int | None
    tmp_bytes: int
    scratch: str = ""
    counted: bool = True


@dataclass(frozen=True)
class _Pipes:
    """Descriptors that the zygote keeps: streams of its runs, control socket, where set-up faults are reported."""

    streams: tuple[int, int, int]
    control: int
    report: int


def launch(
    interpreter: Interpreter,
    isolation: Isolation,
    join_cgroup: Callable[[int], None],
    control: int,
    streams: tuple[int, int, int],
) -> int:
    """Start a zygote that talks over `control` and whose runs have `streams` as stdin, stdout, stderr.

    Returns its pid.

    Raises EngineError with the step that failed.
    """
    report_read, report_write = os.pipe()
    pipes = _Pipes(streams, control, report_write)
    program = bundle()
    builder = os.fork()
    if builder == 0:
        try:
            os.close(report_read)
            _confine(isolation, join_cgroup)
            if isolation.namespaces:
                _build(interpreter, isolation, pipes, program)
            else:
                os.write(report_write, str(os.getpid()).encode())
                _check_access(interpreter)
                _restrict_files(interpreter, isolation)
                allowed = seccomp.deny_list(inet=False, memory_files=False)
                _exec_zygote(interpreter, _plain_setup(isolation), pipes, allowed, script="-c", text=program)
        except BaseException as error:
            step = traceback.extract_tb(error.__traceback__)[-1].name
            os.write(report_write, f"E{step}: {error}".encode())
        os._exit(1)
    os.close(report_write)
    with open(report_read, "rb") as report:
        text = report.read().decode("utf-8", "replace")
    pid, _, trouble = text.partition("E")
    if isolation.namespaces or trouble or not pid:
        os.waitpid(builder, 0)
    if trouble or not pid:
        raise EngineError(f"sandbox set-up failed in {trouble or 'an unknown step'}")
    return int(pid)


def _confine(isolation: Isolation, join_cgroup: Callable[[int], None]) -> None:
    with suppress(OSError):  # without CAP_SYS_RESOURCE the runs are only made likelier victims than this
        Path("/proc/self/oom_score_adj").write_text("-1000")
    join_cgroup(os.getpid())
    if isolation.core is not None:
        os.sched_setaffinity(0, {isolation.core})
    hard = resource.getrlimit(resource.RLIMIT_STACK)[1]
    stack = STACK_BYTES if hard == resource.RLIM_INFINITY else min(STACK_BYTES, hard)
    resource.setrlimit(resource.RLIMIT_STACK, (stack, stack))
    os.setsid()


def _build(interpreter: Interpreter, isolation: Isolation, pipes: _Pipes, program: str) -> None:
    """In the builder: namespaces and root directory, then the init; ends the process."""
    host_proc = os.open("/proc", os.O_PATH | os.O_DIRECTORY)
    outer = isolation.outer_uids
    if outer is not None:
        ns.unshare(_SPACES)
    else:
        own = os.geteuid(), os.getegid()
        ns.unshare(ns.NEWUSER | _SPACES)
        _write_maps(host_proc, "self", *((f"0 {inner} 1\n") for inner in own))
    rootfs.build(interpreter, outer[0] if outer else 0, isolation.tmp_bytes, program)
    go_read, go_write = os.pipe()
    ready_read, ready_write = os.pipe()
    init = os.fork()
    if init == 0:
        try:
            os.close(go_write)
            os.close(ready_read)
            _become_init(mapped=outer is not None)
            os.write(ready_write, b"r")
            if os.read(go_read, 1) != b"g":
                os._exit(1)
            setup = _namespace_setup(separate_uid=outer is not None)
            allowed = seccomp.deny_list(memory_files=isolation.counted)
            _exec_zygote(interpreter, setup, pipes, allowed, script=f"{rootfs.PRIVATE}/zygote.py")
        except BaseException as error:
            os.write(pipes.report, f"E{type(error).__name__}: {error}".encode())
        os._exit(1)
    os.close(go_read)
    os.close(ready_write)
    if os.read(ready_read, 1) != b"r":
        os._exit(1)
    if outer is not None:
        both = f"0 {outer[0]} 1\n{INNER_UID} {outer[1]} 1\n"
        _write_maps(host_proc, str(init), both, both)
    os.write(pipes.report, str(init).encode())
    os.write(go_write, b"g")
    os._exit(0)


def _write_maps(proc: int, process: str, uids: str, gids: str) -> None:
    """Map ids into the user namespace of a process, by a descriptor of the host's /proc."""
    texts = {"uid_map": uids, "gid_map": gids}
    if process == "self":
        texts = {"setgroups": "deny", **texts}
    for name, text in texts.items():
        fd = os.open(f"{process}/{name}", os.O_WRONLY, dir_fd=proc)
        try:
            os.write(fd, text.encode())
        finally:
            os.close(fd)


def _become_init(mapped: bool) -> None:
    """Pid 1 of the sandbox: its own root and, where ids are mapped from outside, its user namespace."""
    ns.unshare(ns.NEWNS)  # pivot_root would move the builder's root along
    ns.mount("none", "/", flags=ns.MS_REC | ns.MS_PRIVATE)
    socket.sethostname("sandbox")
    rootfs.enter(private_proc=mapped)
    if mapped:
        ns.unshare(ns.NEWUSER)


def _namespace_setup(separate_uid: bool) -> dict[str, str | int]:
    if separate_uid:
        os.setgroups(())
        os.setresgid(0, 0, 0)
        os.setresuid(0, 0, 0)
    return {
        "pid_namespace": 1,
        "uid": INNER_UID if separate_uid else -1,
        "gid": INNER_UID if separate_uid else -1,
        "proc_path": f"{rootfs.PRIVATE}/proc" if separate_uid else "/proc",
        "code_path": "/box/solution.py" if separate_uid else "",
        "scratch_directories": "/tmp:/dev/shm",
        "guard_path": "" if separate_uid else seccomp.guard(others=True, shared_uid=True).hex(),
    }


def _plain_setup(isolation: Isolation) -> dict[str, str | int]:
    root = os.geteuid() == 0
    return {
        "pid_namespace": 0,
        "uid": INNER_UID if root else -1,
        "gid": INNER_UID if root else -1,
        "proc_path": "/proc",
        "code_path": "",
        "scratch_directories": isolation.scratch,
        "guard_path": seccomp.guard(others=False, shared_uid=not root).hex(),
    }


def _check_access(interpreter: Interpreter) -> None:
    """Programs that get a uid of their own, but no files of their own, must be able to read the interpreter."""
    if os.geteuid() != 0:
        return
    for path in (interpreter.executable, *interpreter.stdlib, *(package for package, _ in interpreter.packages)):
        real = Path(os.path.realpath(path))
        for part in (real, *real.parents):
            if not part.stat().st_mode & (stat.S_IXOTH if part != real else stat.S_IROTH):
                raise PermissionError(f"Permission denied: {part} is closed to other users, as whom programs run")


def _restrict_files(interpreter: Interpreter, isolation: Isolation) -> None:
    """Where there is no root directory of its own: Landlock, if the kernel has it."""
    if landlock.version() < 1:
        return
    ns.prctl(ns.PR_SET_NO_NEW_PRIVS, 1)
    readable = [interpreter.executable, interpreter.loader, *interpreter.stdlib, *interpreter.libraries]
    readable += [path for path, _ in interpreter.packages]
    readable += [str(Path(path).parent) for path in interpreter.libraries]
    sites = dict.fromkeys(str(Path(path).parent) for path, _ in interpreter.packages)
    devices = [f"/dev/{name}" for name in ("null", "zero", "full", "random", "urandom")]
    landlock.restrict([*readable, "/proc"], [isolation.scratch, *devices], listable=sites)


def _exec_zygote(
    interpreter: Interpreter,
    setup: dict[str, str | int],
    pipes: _Pipes,
    allowed: bytes,
    script: str,
    text: str = "",
) -> None:
    """Give up privileges and become the zygote; does not return."""
    if os.geteuid() == 0:
        ns.bound_capabilities(_KEPT)
    ns.prctl(ns.PR_SET_NO_NEW_PRIVS, 1)
    ns.install_seccomp(allowed)
    scratch = str(setup["scratch_directories"]).split(":")[0]
    environment = {**_ENVIRONMENT, "HOME": scratch, "TMPDIR": scratch}
    environment["SANDBOX"] = ";".join(f"{key}={value}" for key, value in setup.items())
    if text:
        environment["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(str(Path(p).parent) for p, _ in interpreter.packages))
    wanted = (*pipes.streams, pipes.control, pipes.report)
    high = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, _HIGH_FD) for fd in wanted]
    for target, fd in enumerate(high[:4]):  # `report` stays until exec closes it
        os.dup2(fd, target)
    os.closerange(4, _HIGH_FD)
    files = min(_OPEN_FILES, resource.getrlimit(resource.RLIMIT_NOFILE)[1])
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))
    os.chdir(scratch)
    os.umask(0o022)
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:  # nohup and shells leave some ignored
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    executable = interpreter.executable
    os.execve(executable, [executable, script, *([text] if text else [])], environment)


def make_scratch() -> str:
    """A scratch directory for a tier without namespaces, writable for the programs' uid."""
    path = tempfile.mkdtemp(prefix="dmc-optim-")
    if os.geteuid() == 0:
        os.chown(path, INNER_UID, INNER_UID)
    return path
