"""Idempotency: which request ids this node knows, how far each is, and what it gave.

A request sent again under its id attaches to the running job or replays the finished one; no test of it is executed
or counted twice while the ledger remembers it. Finished jobs are forgotten oldest first, by number, bytes and age.
All of it belongs to the event loop's thread, except the fields a worker thread is said to touch.
"""

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from dmc_optim.ces.service.bodies import Work
from dmc_optim.ces.service.journal import Journal

_OVERHEAD_BYTES = 1024  # of a remembered job beside its lines


class JobState(StrEnum):
    """Where a job is. An interrupted one (cancelled, or the engine failed) can be taken up again."""

    WAITING = "waiting"
    RUNNING = "running"
    FINISHED = "finished"
    INTERRUPTED = "interrupted"


@dataclass(slots=True, eq=False)
class Job:
    """One request under one id.

    base: position of the test that the first journal line belongs to (above 0 when a client resumes here what
    another node began). closing: the last line of the answer. inbox and posted are shared with a worker thread.
    """

    request_id: str
    serial: int
    fingerprint: str
    work: Work | None
    journal: Journal
    base: int = 0
    state: JobState = JobState.WAITING
    accepted_at: float = 0.0
    waited_s: float = 0.0
    settled_at: float = 0.0
    cancelled: bool = False
    run_id: str = ""
    closing: bytes = b""
    remembered: bool = True
    followers: set[asyncio.Event] = field(default_factory=set)
    inbox: deque[Any] = field(default_factory=deque)
    posted: bool = False

    @property
    def position(self) -> int:
        """The position of the next test without a result."""
        return self.base + len(self.journal)

    @property
    def settled(self) -> bool:
        """Whether nothing more will come unless it is taken up again."""
        return self.state in (JobState.FINISHED, JobState.INTERRUPTED)

    def notify(self) -> None:
        """Wake everybody who follows the job."""
        for event in self.followers:
            event.set()

    def serves(self, start: int) -> bool:
        """Whether a client that has the results before `start` can go on from this job."""
        if start < self.base:
            return False
        return start <= self.position or not self.settled


class Ledger:
    """Jobs by request id.

    entries, size_bytes, ttl_s: bounds of what is remembered of settled jobs. clock: seconds, monotonic.
    """

    def __init__(self, entries: int, size_bytes: int, ttl_s: float, clock: Callable[[], float]) -> None:
        self._entries = entries
        self._size_bound = size_bytes
        self._ttl_s = ttl_s
        self._clock = clock
        self._jobs: dict[str, Job] = {}
        self._settled: OrderedDict[int, Job] = OrderedDict()  # by serial, oldest first
        self.size_bytes = 0

    def __len__(self) -> int:
        return len(self._jobs)

    def get(self, request_id: str) -> Job | None:
        """The job known under this id."""
        self.sweep()
        return self._jobs.get(request_id)

    def add(self, job: Job) -> None:
        """Know a new job; one under the same id is forgotten."""
        former = self._jobs.pop(job.request_id, None)
        if former is not None:
            self._forget(former)
        self._jobs[job.request_id] = job

    def reopen(self, job: Job) -> None:
        """An interrupted job is about to run again."""
        if self._settled.pop(job.serial, None) is not None:
            self.size_bytes -= job.journal.size + _OVERHEAD_BYTES

    def settle(self, job: Job) -> None:
        """A job has ended; it is remembered within the bounds."""
        job.settled_at = self._clock()
        if not job.remembered:
            self.release(job)
            return
        self._settled[job.serial] = job
        self.size_bytes += job.journal.size + _OVERHEAD_BYTES
        self.sweep()

    def discard(self, job: Job) -> None:
        """Forget this job now."""
        if self._jobs.get(job.request_id) is job:
            del self._jobs[job.request_id]
        self._forget(job)

    def sweep(self) -> None:
        """Forget settled jobs, oldest first, until every bound holds."""
        now = self._clock()
        while self._settled:
            oldest = next(iter(self._settled.values()))
            within = len(self._settled) <= self._entries and self.size_bytes <= self._size_bound
            if within and now - oldest.settled_at <= self._ttl_s:
                return
            del self._jobs[oldest.request_id]
            self._forget(oldest)

    def release(self, job: Job) -> None:
        """Give back what a forgotten job holds, once nobody follows it and it has ended."""
        if not job.remembered and not job.followers and job.settled and not job.journal.closed:
            job.journal.close()

    def _forget(self, job: Job) -> None:
        job.remembered = False
        if self._settled.pop(job.serial, None) is not None:
            self.size_bytes -= job.journal.size + _OVERHEAD_BYTES
        self.release(job)
