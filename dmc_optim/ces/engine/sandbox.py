"""One running zygote, as its supervisor sees it: compile a program, run it on one input, kill what overruns.

All clocks and counters are read out here or come from the template, which runs no user code.
"""

import os
import select
import signal
import socket
import struct
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from dmc_optim.ces.engine.blobs import sealed
from dmc_optim.ces.engine.cgroups import SlotCgroup
from dmc_optim.ces.engine.clocks import Timing
from dmc_optim.ces.engine.inside.processes import kill_all
from dmc_optim.ces.engine.interpreter import Interpreter
from dmc_optim.ces.engine.launch import INNER_UID, Isolation, launch
from dmc_optim.ces.engine.procfs import longest_wait_s, threads_of
from dmc_optim.ces.engine.slot_files import SlotFiles
from dmc_optim.ces.engine.verdict import Outcome
from dmc_optim.ces.types import MIB, Clock, Limits

RUN, EMPTY_RUN, ONLY, EMPTY_ONLY = b"R", b"B", b"O", b"E"  # kinds of runs; the empty ones measure the baseline

_PROGRAM = struct.Struct("=cIqqqqi")
_COMPILED = struct.Struct("=cq")
_REPLY = struct.Struct("=cqqqqqqqqqB")
_CREDENTIALS = struct.Struct("iII")
_START_S = 20.0
_KILL_GRACE_S = 5.0
_KEPT_PROCESSES = 3  # the zygote, the template and the run that waits
_ADDRESS_FACTOR, _LEAST_ADDRESS = 16, 16 << 30  # lazy memory costs nothing: this only ends absurd requests at once
_FILE_BYTES = 16 * MIB
_INLINE_CODE = 60_000
_CHECK_S = 0.010
_STARVED_FACTOR = 8

Watch = dict[int, Callable[[], None]]


class Lost(Exception):
    """The sandbox broke (or was killed) for no reason of the program's: start another, run again."""


class Cancelled(Exception):
    """The caller no longer wants the answer."""


@dataclass(frozen=True)
class Run:
    """One finished run: facts for the verdict, clocks, and its output up to the cap where that was to be kept."""

    outcome: Outcome
    timing: Timing
    peak_memory_bytes: int
    context_switches: int
    left_processes: int = 0
    output: bytes = b""


@dataclass(frozen=True)
class Compiled:
    """What became of a program: why it cannot run, or which modules are imported for it and what that cost."""

    preloaded: str
    cpu_ns: int
    failure: Outcome | None = None


@dataclass(frozen=True)
class Once:
    """A program compiled and run in one go; no run where it did not compile."""

    compiled: Compiled
    run: Run | None


class Sandbox:
    """Start with `Sandbox(...)`; after Lost only `close` may be called.

    watch: descriptors (the caller's connection, the caller itself) and what to do when one becomes readable during
    a run; a callback raises Cancelled to end the run. Inputs are bytes, or a descriptor with an offset of its own.
    """

    def __init__(self, interpreter: Interpreter, isolation: Isolation, cgroup: SlotCgroup, watch: Watch) -> None:
        self.isolation = isolation
        self.files = SlotFiles()
        self._cgroup = cgroup
        self._watch = watch
        self._control, inner = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._control.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        self._pidfd = self._template = -1
        self._template_pid = 0
        self._programs = 0
        self.broken = False  # a message may lie unread, which the next template would take for its own
        self._idle = frozenset[int]()  # processes that are no part of what is supervised
        self._poll = select.poll()
        with inner:
            streams = (self.files.stdin, self.files.stdout, self.files.stderr_write)
            self.pid = launch(interpreter, isolation, cgroup.join, inner.fileno(), streams)
        self._pidfd = os.pidfd_open(self.pid)
        for fd in (self._control.fileno(), self.files.stderr, *watch):
            self._poll.register(fd, select.POLLIN)
        self._send(b"G")
        if self._receive(_START_S)[:1] != b"Z":
            self.files.drain(_FILE_BYTES)
            last = self.files.errors().decode("utf-8", "replace").strip().splitlines()[-1:]
            self.close()
            raise Lost(" ".join(["the zygote did not start:", *last]))

    @property
    def has_program(self) -> bool:
        """Whether a compiled program waits for runs."""
        return self._template >= 0

    def compile(self, code: bytes, limits: Limits, expected_runs: int) -> Compiled:
        """Compile a program in a fresh template, ready for `run`. Raises Lost, Cancelled."""
        self._send_program(b"C", code, [], limits, expected_runs)
        reply, killed_for = self._supervise(limits, self._kill_template)
        compiled = self._compiled(reply, killed_for, limits)
        self._leave_out(self._template_pid)
        if compiled.failure is None:
            self._cgroup.limit_memory(limits.memory_bytes)
        return compiled

    def run_once(
        self, code: bytes, stdin: bytes | int, limits: Limits, keep_output: bool = False, kind: bytes = ONLY
    ) -> Once:
        """Compile a program and run it on its only input, in one process. Raises Lost, Cancelled."""
        self.files.prepare(stdin if isinstance(stdin, bytes) else b"")
        self._send_program(kind, code, [stdin] if isinstance(stdin, int) else [], limits, 1)
        reply, killed_for = self._supervise(limits, self._kill_template)
        compiled = self._compiled(reply, killed_for, limits)
        if compiled.failure is not None:
            return Once(compiled, None)
        self._cgroup.begin()
        started = time.monotonic_ns()
        reply, killed_for = self._supervise(limits, self._kill_template)
        self._forget_template()
        run = self._finished(reply, killed_for, started, limits, compiled.cpu_ns)
        return Once(compiled, self._with_output(run, limits) if keep_output else run)

    def run(self, stdin: bytes | int, limits: Limits, keep_output: bool = False, kind: bytes = RUN) -> Run:
        """Run the compiled program once. Raises Lost, Cancelled."""
        self.files.prepare(stdin if isinstance(stdin, bytes) else b"")
        if self._control.fileno() in self._poll_now():
            raise Lost("the template ended between runs")
        self._cgroup.begin()
        started = time.monotonic_ns()
        self._send(kind, [stdin] if isinstance(stdin, int) else [])
        reply, killed_for = self._supervise(limits, self._kill_run)
        if reply[:1] != b"D" or killed_for:  # a late kill could hit the next run, so the template goes too
            self.end_program()
        if reply[:1] != b"D":
            self.broken = True
            if not self._cgroup.oom_kills():
                raise Lost("the template ended during a run")
            return self._finished(reply, "memory limit", started, limits, 0, killed=1)
        run = self._finished(reply, killed_for, started, limits, 0)
        return self._with_output(run, limits) if keep_output else run

    def _with_output(self, run: Run, limits: Limits) -> Run:
        return replace(run, output=self.files.output(limits.output_bytes))

    def _send_program(self, kind: bytes, code: bytes, fds: list[int], limits: Limits, expected_runs: int) -> None:
        self.end_program()
        self._cgroup.limit_processes(limits.processes + _KEPT_PROCESSES)
        self._cgroup.limit_memory(limits.memory_bytes)
        self._await_template()
        self._programs += 1
        self._cgroup.oom_kills()  # what was killed before this program is not its doing
        self._leave_out(0)
        self._cgroup.begin()
        address = max(_ADDRESS_FACTOR * limits.memory_bytes, _LEAST_ADDRESS)
        inline = len(code) <= _INLINE_CODE
        message = _PROGRAM.pack(
            kind,
            expected_runs,
            max(limits.output_bytes + 1, _FILE_BYTES),
            int(limits.time_s * max(limits.wall_factor, 1.0)) + 5,
            address,
            self._process_limit(limits),
            len(code) if inline else -1,
        )
        if inline:
            self._send(message + code, fds)
            return
        file = sealed(code)
        try:
            self._send(message, [file, *fds])
        finally:
            os.close(file)

    def _leave_out(self, template: int) -> None:
        """The zygote, and a template whose program is compiled, are no part of what is measured and limited."""
        self._idle = frozenset({self.pid, template})
        self._cgroup.watch(self._idle)

    def _compiled(self, reply: bytes, killed_for: str, limits: Limits) -> Compiled:
        """What the template said of its program. Raises Lost when it ended without saying."""
        kind = reply[:1]
        if kind == b"K" and not killed_for:
            return Compiled(reply[_COMPILED.size :].decode(), _COMPILED.unpack_from(reply)[1])
        killed = self._cgroup.oom_kills()
        self.end_program()
        self.broken = kind != b"S"
        if killed and self.broken and self._programs > 1:
            raise Lost("the template ran out of memory")  # whether by this program, a fresh sandbox tells
        failure = Outcome(oom_kills=killed, killed_for=killed_for, output_limit=limits.output_bytes)
        if kind == b"S":
            failure = replace(failure, compile_error=reply[1:].decode("utf-8", "replace"))
        elif not killed and not killed_for:
            status = _REPLY.unpack(reply)[1] if len(reply) == _REPLY.size else 0
            if not os.WIFSIGNALED(status) or os.WTERMSIG(status) == signal.SIGKILL:
                raise Lost("the template ended")
            failure = replace(failure, compile_error=f"the compiler crashed: signal {os.WTERMSIG(status)}")
        return Compiled("", 0, failure)

    def _finished(
        self, reply: bytes, killed_for: str, started_ns: int, limits: Limits, before_ns: int, killed: int = 0
    ) -> Run:
        """Facts of a run from its reply. before_ns: CPU time its process had used before the program began."""
        if len(reply) != _REPLY.size:
            raise Lost("the sandbox gave an unknown answer")
        _, status, ended, user, system, rss, voluntary, involuntary, waited, left, flag = _REPLY.unpack(reply)
        tree, cpu = 0 if self._cgroup.poll_s else self._cgroup.cpu_ns(), max(user + system - before_ns, 0)
        if tree > 1.2 * cpu + 20_000_000:  # children that nobody waited for are in no rusage
            cpu = tree
        self.files.drain(limits.stderr_bytes)
        outcome = Outcome(
            exit_status=status,
            oom_kills=killed or self._cgroup.oom_kills(),
            killed_for=killed_for,
            output_bytes=self.files.output_bytes(),
            output_limit=limits.output_bytes,
            memory_error=bool(flag),
            stderr_tail=self.files.errors(),
        )
        return Run(
            outcome=outcome,
            timing=Timing(cpu / 1e9, max(ended - started_ns, 0) / 1e9, waited / 1e9),
            peak_memory_bytes=max(self._cgroup.memory_peak(), rss),
            context_switches=voluntary + involuntary,
            left_processes=left,
        )

    def _process_limit(self, limits: Limits) -> int:
        """The rlimit on processes where no cgroup limits them: it counts everything its uid has on this host."""
        if self._cgroup.poll_s is None:
            return -1
        if self.isolation.namespaces:
            return limits.processes + _KEPT_PROCESSES
        return limits.processes + threads_of(INNER_UID if os.geteuid() == 0 else os.geteuid())

    def close(self) -> None:
        """Kill everything inside and reap the zygote."""
        if self._pidfd >= 0:
            try:
                signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)
            except ProcessLookupError:
                pass
            try:
                os.waitid(os.P_PIDFD, self._pidfd, os.WEXITED)
            except ChildProcessError:
                pass
            if not self.isolation.namespaces:  # with a process namespace they ended with its init
                kill_all(0)
            os.close(self._pidfd)
            self._pidfd = -1
            self.files.close()
        self.end_program()
        self._control.close()

    def _await_template(self) -> None:
        """Take the hello of the template that waits, with its pid as this process sees it."""
        while self._template < 0:
            self._wait_readable(_START_S)
            data, ancillary, _, _ = self._control.recvmsg(4096, socket.CMSG_SPACE(_CREDENTIALS.size))
            if not data:
                raise Lost("the zygote ended")
            if data[:1] == b"P":
                pid = next(
                    _CREDENTIALS.unpack(packed)[0] for _, kind, packed in ancillary if kind == socket.SCM_CREDENTIALS
                )
                self._template_pid = pid
                if self._control.fileno() in self._poll_now():
                    continue  # it ended, and says nothing else before it has a program
                try:
                    self._template = os.pidfd_open(pid)
                except OSError:
                    raise Lost("the template ended") from None

    def end_program(self) -> None:
        """End the compiled program and whatever it still runs; the zygote prepares the next template."""
        if self._template >= 0:
            self._kill_template()
            self._forget_template()

    def _forget_template(self) -> None:
        os.close(self._template)
        self._template = -1

    def _kill_template(self) -> None:
        try:
            signal.pidfd_send_signal(self._template, signal.SIGKILL)
        except ProcessLookupError:
            pass

    def _kill_run(self) -> None:
        try:
            signal.pidfd_send_signal(self._template, signal.SIGUSR1)
        except ProcessLookupError:
            pass

    def _supervise(self, limits: Limits, kill: Callable[[], None]) -> tuple[bytes, str]:
        """Wait for the reply; end the run at its limits. Returns (reply, limit that ended it or "")."""
        started = time.monotonic()
        wall_limit = limits.time_s * limits.wall_factor if limits.clock is Clock.CPU else limits.time_s
        check_at = started + limits.time_s
        killed_for, poll_s = "", self._cgroup.poll_s
        while True:
            patience = max(check_at - time.monotonic(), 0.0)
            readable = self._ready(patience if poll_s is None else min(patience, poll_s))
            if self.files.stderr in readable:
                self.files.drain(limits.stderr_bytes)
            for fd in readable:
                if fd in self._watch:
                    self._watch[fd]()
            if self._control.fileno() in readable:
                return self._control.recv(4096), killed_for
            now = time.monotonic()
            if poll_s is not None and not killed_for and self._cgroup.over_memory():
                killed_for = "memory limit"
                kill()
                check_at = now + _KILL_GRACE_S
            if now < check_at:
                continue
            if killed_for:
                raise Lost("a killed run did not end")
            cpu_used = self._cgroup.cpu_ns() / 1e9
            if limits.clock is Clock.CPU and cpu_used >= limits.time_s:
                killed_for = "cpu limit"
            elif (
                now - started >= wall_limit and now - started - self._starved_s(now - started - cpu_used) >= wall_limit
            ):
                killed_for = "wall limit"
            elif now - started >= _STARVED_FACTOR * wall_limit:
                raise Lost("the host gave the program no time to run")
            if killed_for:
                kill()
                check_at = now + _KILL_GRACE_S
            else:
                left = max(limits.time_s - cpu_used, _CHECK_S) if limits.clock is Clock.CPU else _CHECK_S
                at_wall = started + wall_limit if now < started + wall_limit else now + _CHECK_S
                check_at = min(now + left, at_wall)

    def _starved_s(self, most: float) -> float:
        """Seconds in which others had the core, no part of a wall limit. most: those in which no process of it ran."""
        return min(longest_wait_s(pid for pid in self._cgroup.processes() if pid not in self._idle), most)

    def _ready(self, timeout_s: float) -> list[int]:
        return [fd for fd, _ in self._poll.poll(timeout_s * 1000 + 1)]

    def _poll_now(self) -> list[int]:
        return [fd for fd, _ in self._poll.poll(0)]

    def _wait_readable(self, timeout_s: float) -> None:
        deadline = time.monotonic() + timeout_s
        while True:
            left = deadline - time.monotonic()
            if left <= 0:
                raise Lost("the sandbox does not answer")
            readable = self._ready(left)
            if self.files.stderr in readable:
                self.files.drain(MIB)
            for fd in readable:
                if fd in self._watch:
                    self._watch[fd]()
            if self._control.fileno() in readable:
                return

    def _receive(self, timeout_s: float) -> bytes:
        self._wait_readable(timeout_s)
        return self._control.recv(4096)

    def _send(self, message: bytes, fds: Sequence[int] = ()) -> None:
        try:
            if fds:
                socket.send_fds(self._control, [message], list(fds))
            else:
                self._control.send(message)
        except OSError as error:
            raise Lost(f"the sandbox is gone: {error}") from error
