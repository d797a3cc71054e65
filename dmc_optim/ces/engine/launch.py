"""From a supervisor to a running zygote: fork, cgroup, namespaces, root directory, seccomp, exec.

    supervisor ── fork ──> builder: cgroup, affinity, namespaces, root directory
                              └── fork ──> init (pid 1): /proc, pivot_root, user namespace, seccomp, exec of the zygote

The builder ends once the init is mapped; the supervisor is a child subreaper, so the init becomes its child.
"""

import fcntl
import os
import resource
import socket
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from dmc_optim.ces.engine import namespaces as ns
from dmc_optim.ces.engine import rootfs, seccomp
from dmc_optim.ces.engine.interpreter import Interpreter
from dmc_optim.errors import EngineError

STACK_BYTES = 256 << 20
INNER_UID = 65534
_HIGH_FD = 1000
_KEPT = (ns.CAP_DAC_OVERRIDE, ns.CAP_FOWNER, ns.CAP_KILL, ns.CAP_SETGID, ns.CAP_SETUID)
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

    outer_uids: host ids that the sandbox's root and nobody are mapped to; None maps the caller's own id.
    """

    namespaces: bool
    outer_uids: tuple[int, int] | None
    core: int | None
    tmp_bytes: int


def zygote_source() -> str:
    """Text of the program that runs inside the sandbox."""
    return Path(__file__).with_name("zygote.py").read_text(encoding="utf-8")


def launch(
    interpreter: Interpreter,
    isolation: Isolation,
    join_cgroup: Callable[[int], None],
    control: socket.socket,
    stderr_fd: int,
) -> int:
    """Start a zygote that talks over `control` and writes its runs' stderr to stderr_fd. Returns its pid.

    Raises EngineError with the step that failed.
    """
    report_read, report_write = os.pipe()
    source = zygote_source()
    builder = os.fork()
    if builder == 0:
        try:
            os.close(report_read)
            _build(interpreter, isolation, join_cgroup, control.fileno(), stderr_fd, report_write, source)
        except BaseException as error:
            step = traceback.extract_tb(error.__traceback__)[-1].name
            os.write(report_write, f"E{step}: {error}".encode())
        os._exit(1)
    os.close(report_write)
    with open(report_read, "rb") as report:
        text = report.read().decode("utf-8", "replace")
    os.waitpid(builder, 0)
    pid, _, trouble = text.partition("E")
    if trouble or not pid:
        raise EngineError(f"sandbox set-up failed in {trouble or 'an unknown step'}")
    return int(pid)


def _build(
    interpreter: Interpreter,
    isolation: Isolation,
    join_cgroup: Callable[[int], None],
    control_fd: int,
    stderr_fd: int,
    report: int,
    source: str,
) -> None:
    with suppress(OSError):  # without CAP_SYS_RESOURCE the runs are only made likelier victims than this
        Path("/proc/self/oom_score_adj").write_text("-1000")
    join_cgroup(os.getpid())
    if isolation.core is not None:
        os.sched_setaffinity(0, {isolation.core})
    resource.setrlimit(resource.RLIMIT_STACK, (STACK_BYTES, STACK_BYTES))
    os.setsid()
    host_proc = os.open("/proc", os.O_PATH | os.O_DIRECTORY)
    kinds = ns.NEWNS | ns.NEWPID | ns.NEWNET | ns.NEWIPC | ns.NEWUTS | ns.NEWCGROUP
    ns.unshare(kinds)
    outer = isolation.outer_uids
    assert outer is not None
    rootfs.build(interpreter, outer[0], isolation.tmp_bytes, source)
    mapped_read, mapped_write = os.pipe()
    ready_read, ready_write = os.pipe()
    init = os.fork()
    if init == 0:
        try:
            os.close(mapped_write)
            os.close(ready_read)
            _enter_as_init(ready_write, mapped_read)
            _exec_zygote(interpreter, control_fd, stderr_fd, report)
        except BaseException as error:
            os.write(report, f"E{type(error).__name__}: {error}".encode())
        os._exit(1)
    os.close(mapped_read)
    os.close(ready_write)
    if os.read(ready_read, 1) != b"r":
        os._exit(1)
    for name, ids in (("uid_map", outer), ("gid_map", outer)):
        fd = os.open(f"{init}/{name}", os.O_WRONLY, dir_fd=host_proc)
        os.write(fd, f"0 {ids[0]} 1\n{INNER_UID} {ids[1]} 1\n".encode())
        os.close(fd)
    os.write(report, str(init).encode())
    os.write(mapped_write, b"m")
    os._exit(0)


def _enter_as_init(ready: int, mapped: int) -> None:
    """Become the sandbox's pid 1, inside its root and its user namespace."""
    ns.unshare(ns.NEWNS)  # pivot_root would move the builder's root along
    ns.mount("none", "/", flags=ns.MS_REC | ns.MS_PRIVATE)
    socket.sethostname("sandbox")
    rootfs.enter()
    ns.unshare(ns.NEWUSER)
    os.write(ready, b"r")
    if os.read(mapped, 1) != b"m" or os.read(mapped, 1) != b"":
        os._exit(1)
    os.close(mapped)
    os.close(ready)


def _exec_zygote(interpreter: Interpreter, control_fd: int, stderr_fd: int, report: int) -> None:
    os.setgroups(())
    os.setresgid(0, 0, 0)
    os.setresuid(0, 0, 0)
    ns.bound_capabilities(_KEPT)
    ns.prctl(ns.PR_SET_NO_NEW_PRIVS, 1)
    ns.install_seccomp(seccomp.deny_list())
    setup = {
        "pid_namespace": 1,
        "uid": INNER_UID,
        "gid": INNER_UID,
        "proc_path": f"{rootfs.PRIVATE}/proc",
        "oom_path": "self/oom_score_adj",
        "code_path": "/box/solution.py",
        "scratch_directories": "/tmp:/dev/shm",
    }
    environment = {**_ENVIRONMENT, "SANDBOX": ";".join(f"{key}={value}" for key, value in setup.items())}
    null = os.open("/dev/null", os.O_RDWR)
    high = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, _HIGH_FD) for fd in (null, null, stderr_fd, control_fd, report)]
    for target, fd in enumerate(high[:4]):  # `report` stays until exec closes it
        os.dup2(fd, target)
    os.closerange(4, _HIGH_FD)
    os.chdir("/tmp")
    os.umask(0o022)
    program = interpreter.executable
    os.execve(program, [program, f"{rootfs.PRIVATE}/zygote.py"], environment)
