"""The process of one slot: inputs and expected outputs in, programs into the sandbox, verdicts out.

Run as a script by a clean interpreter (`supervisor.py FD`), never forked from the caller, which has threads.
It ends when the caller's end of the connection closes, and takes its sandbox and cgroup along.
"""

import os
import shutil
import signal
import statistics
import sys
import time
from contextlib import suppress
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

import socket
from dataclasses import dataclass, replace

from dmc_optim.ces.comparators import Comparator, comparator
from dmc_optim.ces.engine import blobs, clocks
from dmc_optim.ces.engine import namespaces as ns
from dmc_optim.ces.engine.cgroups import CgroupV1, CgroupV2, SlotCgroup
from dmc_optim.ces.engine.channel import Channel, Closed, close_all
from dmc_optim.ces.engine.clocks import Baseline, Timing
from dmc_optim.ces.engine.launch import Isolation, make_scratch
from dmc_optim.ces.engine.process_table import ProcessTable
from dmc_optim.ces.engine.protocol import Cancel, Configure, Measured, OpenProgram, Progress, Ready, Text, Work
from dmc_optim.ces.engine.sandbox import Cancelled, Lost, Run, Sandbox
from dmc_optim.ces.engine.steal import StealMeter
from dmc_optim.ces.engine.verdict import Outcome, before_comparison
from dmc_optim.ces.types import Limits
from dmc_optim.errors import DmcOptimError
from schemas.enums import Status

ATTEMPTS = 4
_FLUSH_S = 0.005
_BASELINE_RUNS = 15
_RECYCLE_RUNS = 20_000
_RUNS_AHEAD = 1 << 20


@dataclass
class Program:
    """The program at hand and what its tests have in common."""

    opened: OpenProgram
    code_fd: int
    compare: Comparator
    failure: Outcome | None = None
    baseline: Baseline = Baseline()


class Supervisor:
    """Serves one caller until it hangs up."""

    def __init__(self, channel: Channel, configure: Configure) -> None:
        self._channel = channel
        self._configure = configure
        self._cgroup = _accounting(configure)
        self._scratch = "" if configure.tier.namespaces else make_scratch()
        self._steal = StealMeter(configure.core)
        self._sandbox: Sandbox | None = None
        self._tmp_bytes = Limits().tmp_bytes
        self._runs = 0
        self._baselines: dict[str, Baseline] = {}
        self._program: Program | None = None
        self._cancelled: set[int] = set()
        self._pending: list[Measured] = []
        self._flushed_at = 0.0
        self._backlog: list[tuple[object, list[int]]] = []

    def prepare(self) -> float:
        """Start the sandbox and measure an empty run; returns its CPU seconds."""
        return self._measured_baseline("").cpu_s

    def serve(self) -> None:
        """Work through messages until the caller is gone."""
        while True:
            message, fds = self._backlog.pop(0) if self._backlog else self._channel.receive()
            if isinstance(message, OpenProgram):
                self._open(message, fds[0])
            elif isinstance(message, Work):
                self._work(message, fds)

    def close(self) -> None:
        """Take everything down."""
        if self._sandbox is not None:
            self._sandbox.close()
        self._cgroup.remove()
        if self._scratch:
            shutil.rmtree(self._scratch, ignore_errors=True)

    def _open(self, message: OpenProgram, code_fd: int) -> None:
        if self._program is not None:
            os.close(self._program.code_fd)
            if self._sandbox is not None:
                self._sandbox.end_program()
        self._program = Program(message, code_fd, comparator(message.comparator))

    def _work(self, work: Work, fds: list[int]) -> None:
        program = self._program
        assert program is not None
        stopped = False
        try:
            for position, text, expected in work.tests:
                if work.serial in self._cancelled:
                    raise Cancelled
                result = self._test(program, position, text, expected, fds)
                self._pending.append(result)
                if time.monotonic() - self._flushed_at > _FLUSH_S:
                    self._flush(work.serial)
                if program.opened.stop.ends_after(result.status):
                    stopped = True
                    break
        except Cancelled:
            self._cancelled.discard(work.serial)
            if self._sandbox is not None:
                self._sandbox.end_program()
            stopped = True
        finally:
            close_all(fds)
        self._flush(work.serial, done=True, stopped=stopped)

    def _flush(self, serial: int, done: bool = False, stopped: bool = False) -> None:
        self._channel.send(Progress(serial, tuple(self._pending), done, stopped))
        self._pending.clear()
        self._flushed_at = time.monotonic()

    def _heard(self) -> None:
        """The caller says something while a program runs: only a cancel matters now."""
        message, fds = self._channel.receive()
        if isinstance(message, Cancel):
            if self._program is not None and message.serial == self._program.opened.serial:
                raise Cancelled
            self._cancelled.add(message.serial)
        else:
            self._backlog.append((message, fds))

    def _test(self, program: Program, position: int, text: Text, expected: Text | None, fds: list[int]) -> Measured:
        """One test, run again while the sandbox (not the program) fails."""
        trouble = ""
        for attempt in range(ATTEMPTS):
            try:
                result = self._measure(program, position, text, expected, fds)
                return replace(result, retries=attempt) if attempt else result
            except Lost as lost:
                trouble = str(lost)
            except DmcOptimError as error:
                trouble = str(error)
            self._drop_sandbox()
        return Measured(position, Status.INFRASTRUCTURE, trouble, retries=ATTEMPTS - 1)

    def _measure(self, program: Program, position: int, text: Text, expected: Text | None, fds: list[int]) -> Measured:
        sandbox = self._compiled(program)
        started_at = time.monotonic()
        if program.failure is not None:
            status, detail = before_comparison(program.failure) or (Status.INFRASTRUCTURE, "no verdict")
            return Measured(position, status, detail, clocks.MINIMUM_DURATION_S, started_at=started_at)
        limits, repetitions = program.opened.limits, program.opened.repetitions
        runs: list[tuple[Run, Measured]] = []
        while True:
            sandbox = self._compiled(program)
            stdin = blobs.sealed(text.inline) if text.inline is not None else blobs.reopened(fds[text.descriptor])
            stdout = os.memfd_create("stdout", os.MFD_CLOEXEC)
            try:
                run = self._run(sandbox, stdin, stdout, limits)
                judged = self._judge(program, position, run, stdout, expected, fds)
            finally:
                os.close(stdin)
                os.close(stdout)
            runs.append((run, judged))
            if not self._another(runs, repetitions, limits, program.baseline):
                break
        return replace(self._settle(runs, repetitions, limits, program.baseline), started_at=started_at)

    def _another(self, runs: list[tuple[Run, Measured]], repetitions: int, limits: Limits, baseline: Baseline) -> bool:
        """Whether the test must run again: repetitions asked for, or a suspicious measurement."""
        run, judged = runs[-1]
        if judged.status not in (Status.SUCCESS, Status.TIMEOUT):
            return False
        if len(runs) < repetitions:
            return True
        if len(runs) > clocks.RERUNS or repetitions > 1:
            return False
        if run.outcome.killed_for:  # its clock was at the limit; only a wall limit can hit the innocent
            return run.outcome.killed_for == "wall limit" and clocks.disturbed(run.timing)
        if len(runs) == 1:
            return bool(clocks.suspicions(run.timing, limits, baseline))
        return not all(earlier.timing.blocked() for earlier, _ in runs)

    def _settle(
        self, runs: list[tuple[Run, Measured]], repetitions: int, limits: Limits, baseline: Baseline
    ) -> Measured:
        """One result for all runs of a test."""
        last = runs[-1][1]
        if last.status not in (Status.SUCCESS, Status.TIMEOUT):
            duration = clocks.on_clock(runs[-1][0].timing, limits.clock, baseline)
            return replace(last, duration_s=duration, repetitions=1)
        index, duration, marks = clocks.settled([run.timing for run, _ in runs], limits.clock, baseline)
        chosen = runs[index][1]
        if repetitions > 1:
            durations = [clocks.on_clock(run.timing, limits.clock, baseline) for run, _ in runs]
            std = statistics.stdev(durations) if len(durations) > 1 else 0.0
            return replace(
                chosen, duration_s=statistics.fmean(durations), duration_std_s=std, repetitions=len(runs), marks=marks
            )
        if len(runs) > 1:
            marks += ("rerun", *clocks.suspicions(runs[0][0].timing, limits, baseline))
        if chosen.status is Status.TIMEOUT:
            duration = max(duration, limits.time_s)
        return replace(chosen, duration_s=duration, marks=marks)

    def _judge(
        self, program: Program, position: int, run: Run, stdout: int, expected: Text | None, fds: list[int]
    ) -> Measured:
        limits, timing = program.opened.limits, run.timing
        outcome = run.outcome
        if clocks.on_clock(timing, limits.clock, program.baseline) >= limits.time_s:
            outcome = replace(outcome, over_time=f"{limits.clock} limit")
        verdict = before_comparison(outcome)
        output = None
        wanted = program.opened.return_output
        if verdict is None or wanted:
            output = os.pread(stdout, limits.output_bytes, 0)
        if verdict is None:
            verdict = Status.SUCCESS, ""
            if expected is not None:
                text = expected.inline if expected.inline is not None else blobs.read_all(fds[expected.descriptor])
                difference = program.compare(output or b"", text)
                if difference is not None:
                    verdict = Status.WRONG_ANSWER, difference
        return Measured(
            position,
            verdict[0],
            verdict[1],
            cpu_s=timing.own_cpu_s(program.baseline),
            wall_s=timing.own_wall_s(program.baseline),
            peak_memory_bytes=run.peak_memory_bytes,
            output=output if wanted else None,
            output_truncated=outcome.output_bytes > limits.output_bytes,
            stderr_tail=outcome.stderr_tail,
            context_switches=run.context_switches,
            steal_s=timing.steal_s,
        )

    def _run(self, sandbox: Sandbox, stdin: int, stdout: int, limits: Limits, kind: bytes = b"R") -> Run:
        self._steal.before()
        self._runs += 1
        run = sandbox.run(stdin, stdout, limits, kind)
        return replace(run, timing=replace(run.timing, steal_s=self._steal.after(run.timing.wall_s)))

    def _compiled(self, program: Program) -> Sandbox:
        """The sandbox, with the program in it; program.failure says when it does not compile."""
        sandbox = self._started(program.opened.limits)
        if sandbox.has_program or program.failure is not None:
            return sandbox
        failure, preloaded = sandbox.compile(program.code_fd, program.opened.limits, program.opened.tests_ahead)
        program.failure = failure
        if failure is None:
            if preloaded not in self._baselines:
                self._baselines[preloaded] = self._empty_runs(sandbox, 5)
            program.baseline = self._baselines[preloaded]
        return sandbox

    def _started(self, limits: Limits) -> Sandbox:
        """A running sandbox with the scratch size asked for, recycled now and then."""
        stale = limits.tmp_bytes != self._tmp_bytes or self._runs > _RECYCLE_RUNS
        if self._sandbox is not None and stale and not self._sandbox.has_program:
            self._drop_sandbox()
        if self._sandbox is None:
            self._runs = 0
            self._tmp_bytes = limits.tmp_bytes
            configure = self._configure
            isolation = Isolation(
                configure.tier.namespaces, configure.outer_uids, configure.core, limits.tmp_bytes, self._scratch
            )
            watch = (self._channel.fileno(), self._heard)
            self._sandbox = Sandbox(configure.interpreter, isolation, self._cgroup, watch)
        return self._sandbox

    def _drop_sandbox(self) -> None:
        if self._sandbox is not None:
            self._sandbox.close()
            self._sandbox = None

    def _measured_baseline(self, preloaded: str) -> Baseline:
        sandbox = self._started(Limits())
        code = blobs.sealed(b"")
        try:
            sandbox.compile(code, Limits(), _BASELINE_RUNS)
            self._baselines[preloaded] = self._empty_runs(sandbox, _BASELINE_RUNS)
            sandbox.end_program()
        finally:
            os.close(code)
        return self._baselines[preloaded]

    def _empty_runs(self, sandbox: Sandbox, count: int) -> Baseline:
        """Median clocks of empty runs of the program at hand."""
        timings: list[Timing] = []
        for _ in range(count):
            stdin, stdout = blobs.sealed(b""), os.memfd_create("stdout", os.MFD_CLOEXEC)
            try:
                timings.append(self._run(sandbox, stdin, stdout, Limits(), b"B").timing)
            finally:
                os.close(stdin)
                os.close(stdout)
        cpu = statistics.median(timing.cpu_s for timing in timings)
        return Baseline(cpu, statistics.median(timing.wall_s for timing in timings))


def _accounting(configure: Configure) -> SlotCgroup:
    plan = configure.cgroups
    if plan.version == 1:
        return CgroupV1(plan.parents, configure.name)
    if plan.version == 2:
        return CgroupV2(plan.parents[""], configure.name)
    return ProcessTable()


def main(fd: int) -> None:
    """Serve the caller at the other end of a socket."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    ns.prctl(ns.PR_SET_CHILD_SUBREAPER, 1)
    channel = Channel(socket.socket(fileno=fd))
    supervisor = None
    try:
        configure, _ = channel.receive()
        if configure.supervisor_cores:
            os.sched_setaffinity(0, configure.supervisor_cores)
        try:
            supervisor = Supervisor(channel, configure)
            channel.send(Ready(supervisor.prepare()))
        except (DmcOptimError, Lost, OSError) as error:
            channel.send(Ready(error=str(error) or type(error).__name__))
            return
        supervisor.serve()
    except Closed:
        pass
    finally:
        with suppress(OSError):
            if supervisor is not None:
                supervisor.close()


if __name__ == "__main__":
    main(int(sys.argv[1]))
