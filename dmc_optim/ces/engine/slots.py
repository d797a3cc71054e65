"""The caller's side of one slot: its supervisor process, and the thread that feeds it.

A supervisor that dies is replaced and its unfinished tests run again; a test that takes several supervisors with
it gets an infrastructure result, never a verdict.
"""

import contextlib
import logging
import os
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from dmc_optim.ces.engine import blobs
from dmc_optim.ces.engine.blobs import BlobCache, close_all
from dmc_optim.ces.engine.channel import Channel, Closed, pair
from dmc_optim.ces.engine.jobs import Job
from dmc_optim.ces.engine.protocol import Cancel, Configure, Measured, OpenProgram, Progress, Ready, Text, Work
from dmc_optim.ces.types import Result
from dmc_optim.errors import EngineError
from schemas.enums import Status

_SUPERVISOR = Path(__file__).with_name("supervisor.py")
logger = logging.getLogger(__name__)

_SPAWN_ATTEMPTS = 6
_SPAWN_DELAY_S = 0.05
_END_S = 20.0
_SUPERVISOR_LOSSES = 3  # a test is given up after it went down with this many supervisors


@dataclass(frozen=True)
class Labels:
    """What every result of a slot carries. marks: beside those of the measurement itself."""

    node: str
    epoch: int
    tier: str
    interpreter: str
    engine: str
    marks: tuple[str, ...] = ()


class Source(Protocol):
    """Where a slot's thread gets work."""

    def next_job(self) -> Job | None:
        """Wait for a job to work on; None when the engine closes."""

    def release(self, job: Job) -> None:
        """This slot has nothing more to do for the job."""

    @property
    def slots(self) -> int:
        """How many slots share the work."""


class Slot:
    """One supervisor and one thread."""

    def __init__(self, configure: Configure, labels: Labels, source: Source, cache: BlobCache) -> None:
        self.name = configure.name
        self._configure = configure
        self._labels = labels
        self._source = source
        self._cache = cache
        self._channel: Channel | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._serial: int | None = None
        self._losses: Counter[tuple[int, int]] = Counter()
        self._closing = False
        self._thread = threading.Thread(target=self._loop, name=configure.name, daemon=True)

    def spawn(self) -> None:
        """Start the supervisor process; `ready` waits for it."""
        ours, theirs = pair()
        with theirs:
            command = [sys.executable, "-I", "-S", "-B", str(_SUPERVISOR), str(theirs.fileno())]
            environment = {"PATH": os.environ.get("PATH", ""), "LANG": "C.UTF-8"}
            self._process = subprocess.Popen(
                command, pass_fds=[theirs.fileno()], env=environment, stdin=subprocess.DEVNULL, cwd="/"
            )
        self._channel = Channel(ours)
        self._channel.send(self._configure)

    def ready(self) -> Ready:
        """Wait until the supervisor has a sandbox. Raises EngineError with what went wrong."""
        assert self._channel is not None
        try:
            answer, _ = self._channel.receive()
        except Closed as error:
            raise EngineError(f"the supervisor of {self._configure.name} ended at its start") from error
        if answer.error:
            raise EngineError(answer.error)
        return answer

    def start(self) -> None:
        """Begin to take work."""
        self._thread.start()

    def cancel(self, job: Job) -> None:
        """Tell the supervisor to stop if it works on this job."""
        channel = self._channel
        if channel is not None and self._serial == job.serial:
            with contextlib.suppress(Closed):
                channel.send(Cancel(job.serial))

    @property
    def supervisor_pid(self) -> int:
        """Process id, for the tests that kill it."""
        return self._process.pid if self._process else -1

    def close(self) -> None:
        """End the supervisor; running programs die with it."""
        self._closing = True
        if self._channel is not None:
            with contextlib.suppress(OSError):
                self._channel.sock.shutdown(socket.SHUT_RDWR)
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join(timeout=_END_S)
        self._reap()
        if self._channel is not None:
            self._channel.close()

    def _reap(self) -> None:
        if self._process is None:
            return
        try:
            self._process.wait(timeout=_END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _loop(self) -> None:
        while (job := self._source.next_job()) is not None:
            try:
                self._serve(job)
            except Exception as error:
                logger.exception("slot %s failed", self._configure.name)
                self._give_up(job, job.unfinished(), f"the engine failed: {error}")
            finally:
                self._serial = None
                self._source.release(job)

    def _serve(self, job: Job) -> None:
        """Run tests of one job until there are none left for this slot."""
        opened, size = False, 0
        while not self._closing:
            positions = job.take(size, self._source.slots)
            if not positions:
                return
            size = len(positions)
            self._serial = job.serial
            try:
                goes_on = self._chunk(job, positions, opening=not opened)
                opened = True
                if not goes_on:
                    return
            except (Closed, OSError):
                opened = False
                if self._closing:
                    return
                self._recover(job, positions)

    def _opening(self, job: Job, fds: list[int]) -> OpenProgram:
        request = job.request
        return OpenProgram(
            code=self._text(request.code, fds),
            limits=request.limits,
            comparator=request.comparator,
            stop=request.stop,
            repetitions=request.repetitions,
            return_output=request.return_output,
            tests_ahead=len(request.tests) * max(request.repetitions, 1),
        )

    def _chunk(self, job: Job, positions: list[int], opening: bool) -> bool:
        """Send tests, deliver results until they are done. False when the job has ended."""
        channel = self._channel
        assert channel is not None
        fds: list[int] = []
        try:
            opened = self._opening(job, fds) if opening else None
            tests = tuple(self._packed(job, position, fds) for position in positions)
            channel.send(Work(job.serial, opened, tests), fds)
        finally:
            close_all(fds)
        if job.cancelled:  # the cancel may have come before this slot was known to work on it
            channel.send(Cancel(job.serial))
        while True:
            progress, _ = channel.receive()
            assert isinstance(progress, Progress)
            for measured in progress.results:
                job.deliver(measured.position, self._result(job, measured))
            if progress.done:
                return not progress.stopped

    def _packed(self, job: Job, position: int, fds: list[int]) -> tuple[int, Text, Text | None]:
        test = job.request.tests[position]
        expected = None if test.expected is None else self._text(test.expected, fds)
        return position, self._text(test.input, fds), expected

    def _text(self, text: bytes, fds: list[int]) -> Text:
        if len(text) <= blobs.INLINE_BYTES:
            return text
        fds.append(self._cache.descriptor(text))
        return len(fds) - 1

    def _result(self, job: Job, measured: Measured) -> Result:
        labels = self._labels
        queue_s = max(measured.started_at - job.submitted_at, 0.0) if measured.started_at else None
        return Result(
            test_id=job.request.tests[measured.position].id,
            status=measured.status,
            duration_s=measured.duration_s,
            duration_std_s=measured.duration_std_s,
            repetitions=measured.repetitions,
            cpu_s=measured.cpu_s,
            wall_s=measured.wall_s,
            queue_s=queue_s,
            peak_memory_bytes=measured.peak_memory_bytes,
            detail=measured.detail,
            output=measured.output,
            output_truncated=measured.output_truncated,
            stderr_tail=measured.stderr_tail,
            marks=measured.marks + labels.marks,
            retries=measured.retries + self._losses[job.serial, measured.position],
            node=labels.node,
            epoch=labels.epoch,
            tier=labels.tier,
            interpreter=labels.interpreter,
            engine=labels.engine,
            context_switches=measured.context_switches,
            steal_s=measured.steal_s,
        )

    def _recover(self, job: Job, positions: list[int]) -> None:
        """After the loss of a supervisor: count it against the test that ran, hand the rest back, start another."""
        missing = [position for position in positions if not job.has(position)]
        if missing:
            suspect = (job.serial, missing[0])
            self._losses[suspect] += 1
            if self._losses[suspect] >= _SUPERVISOR_LOSSES:
                self._give_up(job, missing[:1], "its supervisor was lost again and again")
                missing = missing[1:]
            job.give_back(missing)
        trouble = self._respawn()
        if trouble:
            logger.error("slot %s cannot restart: %s", self._configure.name, trouble)
            self._give_up(job, job.unfinished(), f"no supervisor can be started: {trouble}")

    def _respawn(self) -> str:
        """Start another supervisor, patiently; the last trouble when none starts."""
        trouble = ""
        for attempt in range(_SPAWN_ATTEMPTS):
            if self._closing:
                return "the engine closes"
            if attempt:
                time.sleep(_SPAWN_DELAY_S * 2**attempt)
            self._reap()
            if self._channel is not None:
                self._channel.close()
            try:
                self.spawn()
                self.ready()
                return ""
            except (EngineError, Closed, OSError) as error:
                trouble = str(error)
        return trouble

    def _give_up(self, job: Job, positions: list[int], why: str) -> None:
        """Infrastructure results: never a verdict."""
        for position in positions:
            job.deliver(position, self._result(job, Measured(position, Status.INFRASTRUCTURE, why)))
