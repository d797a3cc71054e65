"""The process of one slot: inputs and expected outputs in, programs into the sandbox, verdicts out.

Run as a script by a clean interpreter (`supervisor.py FD`), never forked from the caller, which has threads.
It ends when the caller's end of the connection closes, and takes its sandbox and cgroup along.
"""

import os
import select
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

import socket

from dmc_optim.ces.comparators import comparator
from dmc_optim.ces.engine import blobs, clocks
from dmc_optim.ces.engine import namespaces as ns
from dmc_optim.ces.engine.channel import Channel, Closed
from dmc_optim.ces.engine.judgement import Attempt, another_needed, judged, settled
from dmc_optim.ces.engine.protocol import Cancel, Configure, Measured, OpenProgram, Progress, Ready, Text, Work
from dmc_optim.ces.engine.runner import Program, Runner
from dmc_optim.ces.engine.sandbox import Cancelled, Lost
from dmc_optim.ces.engine.verdict import before_comparison
from dmc_optim.errors import DmcOptimError
from schemas.enums import Status

ATTEMPTS = 4
_FLUSH_S = 0.005


class Supervisor:
    """Serves one caller until it hangs up."""

    def __init__(self, channel: Channel, configure: Configure) -> None:
        self._channel = channel
        self._caller = os.pidfd_open(os.getppid())  # its connection may outlive it in processes that it forked
        self._idle = select.poll()
        for fd in (channel.fileno(), self._caller):
            self._idle.register(fd, select.POLLIN)
        self.runner = Runner(configure, {channel.fileno(): self._heard, self._caller: self._caller_gone})
        self._program: Program | None = None
        self._serial = 0
        self._cancelled: set[int] = set()
        self._pending: list[Measured] = []
        self._flushed_at = 0.0
        self._backlog: list[tuple[object, list[int]]] = []

    def serve(self) -> None:
        """Work through messages until the caller is gone."""
        while True:
            message, fds = self._backlog.pop(0) if self._backlog else self._receive()
            if isinstance(message, Work):
                if message.opened is not None:
                    self._open(message.opened, fds)
                self._work(message, fds)

    def _receive(self) -> tuple[object, list[int]]:
        if any(fd == self._caller for fd, _ in self._idle.poll()):
            self._caller_gone()
        return self._channel.receive()

    def _caller_gone(self) -> None:
        raise Closed("the caller's process ended")

    def _open(self, opened: OpenProgram, fds: list[int]) -> None:
        """The program of the next tests. One asked for again stays compiled from its second request on."""
        program = Program(opened, _content(opened.code, fds), comparator(opened.comparator))
        last = self._program
        if last is not None and last.same_as(program):
            program.kept = True
            if last.kept and self.runner.goes_on():
                program.baseline = last.baseline
                self._program = program
                return
        self.runner.end_program()
        self._program = program

    def _work(self, work: Work, fds: list[int]) -> None:
        program = self._program
        assert program is not None
        stopped = False
        self._serial = work.serial
        try:
            for position, text, expected in work.tests:
                if work.serial in self._cancelled:
                    raise Cancelled
                result = self._test(program, position, text, expected, fds)
                self._pending.append(result)
                if program.opened.stop.ends_after(result.status):
                    stopped = True
                    break
                if time.monotonic() - self._flushed_at > _FLUSH_S:
                    self._flush(work.serial)
        except Cancelled:
            self._cancelled.discard(work.serial)
            self.runner.end_program()
            stopped = True
        finally:
            blobs.close_all(fds)
        self._flush(work.serial, done=True, stopped=stopped)
        if program.once:
            self.runner.end_program()

    def _flush(self, serial: int, done: bool = False, stopped: bool = False) -> None:
        self._channel.send(Progress(serial, tuple(self._pending), done, stopped))
        self._pending.clear()
        self._flushed_at = time.monotonic()

    def _heard(self) -> None:
        """The caller says something while a program runs: only a cancel matters now."""
        message, fds = self._channel.receive()
        if not isinstance(message, Cancel):
            self._backlog.append((message, fds))
        elif message.serial == self._serial:
            raise Cancelled
        else:
            self._cancelled.add(message.serial)

    def _test(self, program: Program, position: int, text: Text, expected: Text | None, fds: list[int]) -> Measured:
        """One test, run again while the sandbox (not the program) fails."""
        trouble = ""
        for attempt in range(ATTEMPTS):
            try:
                result = self._measure(program, position, text, expected, fds)
                return result._replace(retries=attempt) if attempt else result
            except (Lost, DmcOptimError, OSError) as error:
                trouble = str(error)
            self.runner.drop()
        return Measured(position, Status.INFRASTRUCTURE, trouble, retries=ATTEMPTS - 1)

    def _measure(self, program: Program, position: int, text: Text, expected: Text | None, fds: list[int]) -> Measured:
        started_at = time.monotonic()
        opened = program.opened
        attempts: list[Attempt] = []
        wanted = None if expected is None else _content(expected, fds)
        while not attempts or another_needed(attempts, opened.repetitions, opened.limits, program.baseline):
            stdin = text if isinstance(text, bytes) else blobs.reopened(fds[text])
            try:
                run = self.runner.run(program, stdin, keep_output=wanted is not None or opened.return_output)
            finally:
                if isinstance(stdin, int):
                    os.close(stdin)
            if run is None:
                return self._not_compiled(program, position, started_at)
            measured = judged(
                position, run, wanted, program.compare, opened.limits, program.baseline, opened.return_output
            )
            attempts.append(Attempt(run, measured))
        return settled(attempts, opened.repetitions, opened.limits, program.baseline)._replace(started_at=started_at)

    def _not_compiled(self, program: Program, position: int, started_at: float) -> Measured:
        assert program.failure is not None
        status, detail = before_comparison(program.failure) or (Status.INFRASTRUCTURE, "no verdict")
        duration = program.opened.limits.time_s if status is Status.TIMEOUT else clocks.MINIMUM_DURATION_S
        return Measured(position, status, detail, duration, cpu_s=0.0, wall_s=0.0, started_at=started_at)


def _content(text: Text, fds: list[int]) -> bytes:
    return text if isinstance(text, bytes) else blobs.read_all(fds[text])


def main(fd: int) -> None:
    """Serve the caller at the other end of a socket."""
    for number in (signal.SIGINT, signal.SIGTERM):  # sent to a whole group; the caller decides when this ends
        signal.signal(number, signal.SIG_IGN)
    ns.prctl(ns.PR_SET_CHILD_SUBREAPER, 1)
    channel = Channel(socket.socket(fileno=fd))
    supervisor = None
    try:
        configure, _ = channel.receive()
        if configure.supervisor_cores:
            os.sched_setaffinity(0, configure.supervisor_cores)
        try:
            supervisor = Supervisor(channel, configure)
            channel.send(Ready(supervisor.runner.prepare().cpu_s))
        except (DmcOptimError, Lost, OSError) as error:
            channel.send(Ready(error=str(error) or type(error).__name__))
            return
        supervisor.serve()
    except Closed:
        pass
    finally:
        with suppress(OSError):
            if supervisor is not None:
                supervisor.runner.close()


if __name__ == "__main__":
    main(int(sys.argv[1]))
