"""One service node: its queue, ledger, blobs and figures behind the calls that the HTTP surface makes.

Everything here runs in the event loop's thread; the executor is reached through the dispatcher's threads.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from itertools import count

from dmc_optim.ces.health.epochs import epoch_gauges
from dmc_optim.ces.health.state import EpochFile, default_state_path
from dmc_optim.ces.service.blobs import BlobStore
from dmc_optim.ces.service.bodies import InfoAnswer, LimitsBody, Work
from dmc_optim.ces.service.dispatch import Dispatcher, Ended, Message
from dmc_optim.ces.service.journal import Journal
from dmc_optim.ces.service.ledger import Job, JobState, Ledger
from dmc_optim.ces.service.metrics import Metrics
from dmc_optim.ces.service.problems import Problem, draining, id_reused, missing_blobs, queue_full
from dmc_optim.ces.service.settings import ServiceSettings
from dmc_optim.ces.service.spool import SpoolDir
from dmc_optim.ces.service.wire import PROTOCOL, encode_end, encode_error
from dmc_optim.ces.types import Executor, Limits, Request, Result, TestCase
from dmc_optim.errors import ArtifactError
from schemas.enums import Status

logger = logging.getLogger(__name__)

_FAULTS_UNTIL_PROBE = 3  # engine faults in a row after which the node takes no work until a probe passes
_PROBE_EVERY_S = 2.0
_DOWN_UNTIL_RESTART_S = 120.0
_PATIENCE_S = 60.0  # beyond the longest time an execution may take, re-runs included
_RERUNS = 4
_RETRY_AFTER_BOUNDS_S = (0.1, 30.0)
_JOBS_PER_SLOT = 2  # handed to the executor, so that a slot finds its next job there the moment it is free


class Admission:
    """A place in the queue held while a body arrives; use as a context manager, `keep` once the job is queued."""

    def __init__(self, node: "Node") -> None:
        self._node = node
        self._bytes = 0
        node.arriving += 1

    def grow(self, n_bytes: int) -> None:
        """Account for more bytes of the body. Problem 429 when it and others together are over the bound."""
        held, others = self._node.held_bytes, self._node.held_bytes - self._bytes
        if others > 0 and held + n_bytes > self._node.settings.queue_bytes:
            raise queue_full(self._node.retry_after_s(), f"{others} bytes of accepted bodies")
        self._bytes += n_bytes
        self._node.held_bytes += n_bytes

    def keep(self) -> int:
        """Hand the bytes over to a job; returns how many."""
        kept, self._bytes = self._bytes, 0
        return kept

    def __enter__(self) -> "Admission":
        return self

    def __exit__(self, *exc: object) -> None:
        self._node.arriving -= 1
        self._node.held_bytes -= self._bytes


class Node:
    """The state of one service process.

    executor: what runs the programs; it stays the caller's to close. clock: seconds, monotonic.
    """

    def __init__(
        self, executor: Executor, settings: ServiceSettings, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.settings = settings
        self._executor = executor
        self._clock = clock
        self._slots = executor.parallelism
        self._hands = self._slots * _JOBS_PER_SLOT
        self._spool = SpoolDir(settings.spool_dir)
        self.blobs = BlobStore(self._spool.path, settings.blob_memory_bytes, settings.blob_disk_bytes)
        self._ledger = Ledger(settings.ledger_entries, settings.ledger_bytes, settings.ledger_ttl_s, clock)
        self.metrics = Metrics(clock)
        self._dispatcher = Dispatcher(
            executor,
            self.blobs,
            self._receive,
            clock,
            settings.node,
            settings.memory_per_run_bytes,
            settings.linger_s,
        )
        self._serials = count()
        self._body_bytes: dict[Job, int] = {}
        self._job_s = 0.1  # running mean of how long a job is with the executor
        self._progress_at = clock()
        self._faults = 0
        self._probe: Result | None = None
        self._down_since = clock()
        self._not_ready = "starting"
        self._tasks: list[asyncio.Task[None]] = []
        self.arriving = 0
        self.held_bytes = 0
        self.following = 0
        self.draining = False
        self._watch()

    def start(self) -> None:
        """Start the threads and the periodic checks; call it inside the running event loop."""
        self._dispatcher.start(self._hands)
        loop = asyncio.get_running_loop()
        self._tasks = [loop.create_task(self._keep_probed()), loop.create_task(self._keep_watched())]

    async def close(self) -> None:
        """Stop everything; jobs that still run are cancelled."""
        self.draining = True
        self.abandon()
        for task in self._tasks:
            task.cancel()
        await asyncio.to_thread(self._dispatcher.close)
        self._spool.close()

    def abandon(self) -> None:
        """Cancel all accepted work; its clients are told to ask elsewhere."""
        for job in list(self._body_bytes):
            if not job.cancelled:
                self._dispatcher.cancel(job)

    @property
    def busy(self) -> bool:
        """Whether accepted work is unfinished or an answer is still being sent."""
        return bool(self._body_bytes) or self.following > 0 or self.arriving > 0

    def not_ready(self) -> str:
        """Why the node should get no new work; "" when it should."""
        return "draining" if self.draining else self._not_ready

    def not_alive(self) -> str:
        """Why the node should be restarted; "" when it should not."""
        if not self._dispatcher.alive() and not self.draining:
            return "a thread that feeds the engine has died"
        if self._probe is not None and self._not_ready and self._clock() - self._down_since > _DOWN_UNTIL_RESTART_S:
            return f"no execution has succeeded for {_DOWN_UNTIL_RESTART_S:.0f} s: {self._not_ready}"
        return ""

    def info(self) -> InfoAnswer:
        """What this node is and takes."""
        settings, probe = self.settings, self._probe
        highest = LimitsBody.model_construct(
            **{name: getattr(settings.highest_limits, name) for name in LimitsBody.model_fields}
        )
        return InfoAnswer(
            protocol=PROTOCOL,
            node=settings.node or (probe.node if probe else ""),
            slots=self._slots,
            engine=probe.engine if probe else "",
            tier=probe.tier if probe else "",
            interpreter=probe.interpreter if probe else "",
            epoch=probe.epoch if probe else 0,
            draining=self.draining,
            max_tests=settings.max_tests,
            max_body_bytes=settings.max_body_bytes,
            max_blob_bytes=settings.max_blob_bytes,
            max_response_bytes=settings.max_response_bytes,
            highest_limits=highest,
        )

    def retry_after_s(self) -> float:
        """When a place in the queue is likely free: the queue's length over the pace of the executor."""
        low, high = _RETRY_AFTER_BOUNDS_S
        return min(high, max(low, (self._dispatcher.waiting + 1) * self._job_s / self._hands))

    def admit(self, request_id: str) -> Admission:
        """A place for a request whose body is about to be read. Raises Problem 429 or 503.

        A request id whose job is unfinished or finished here always has one: its retry costs no new place.
        """
        job = self._ledger.get(request_id)
        if job is None or job.state is JobState.INTERRUPTED:
            if self.draining:
                raise draining(self._drain_retry_s())
            if self._not_ready:
                raise Problem(
                    503,
                    "not_ready",
                    f"this node cannot execute now: {self._not_ready}",
                    "use another node, or try again after retry_after_s",
                    retry_after_s=_PROBE_EVERY_S,
                )
            if len(self._body_bytes) + self.arriving >= self._hands + self.settings.queue_limit:
                raise queue_full(self.retry_after_s(), f"{self._dispatcher.waiting} requests wait")
        return Admission(self)

    async def open(self, request_id: str, work: Work, start: int, admission: Admission) -> Job:
        """The job of this id: a new one, or the known one to attach to, replay or take up again.

        start: position of the first result the client lacks. Raises Problem (409, 424).
        """
        job = self._ledger.get(request_id)
        while job is not None and job.cancelled and not job.settled:  # its run is being killed: take it up after
            await self._changed(job)
            job = self._ledger.get(request_id)
        if job is not None and job.fingerprint != work.fingerprint:
            raise id_reused(request_id)
        if job is not None and job.serves(start):
            if job.state is not JobState.INTERRUPTED:
                self.metrics.request("replayed" if job.settled else "attached")
                return job
            self._pin(work)
            self.metrics.request("resumed")
            self._ledger.reopen(job)
            job.cancelled, job.closing = False, b""
        else:
            self._pin(work)
            serial = next(self._serials)
            job = Job(
                request_id, serial, work.fingerprint, None, Journal(self._spool.path / f"journal-{serial}"), start
            )
            self._ledger.add(job)
        job.work, job.state, job.accepted_at = work, JobState.WAITING, self._clock()
        self._body_bytes[job] = admission.keep()
        self._dispatcher.submit(job)
        return job

    def follow(self, job: Job, event: asyncio.Event) -> None:
        """Have `event` set whenever the job has more to read."""
        job.followers.add(event)
        self.following += 1

    def unfollow(self, job: Job, event: asyncio.Event) -> None:
        """Stop following. A job that nobody follows is cancelled after the grace time."""
        job.followers.discard(event)
        self.following -= 1
        self._ledger.release(job)
        if not job.settled and not job.followers:
            asyncio.get_running_loop().call_later(self.settings.grace_s, self._cancel_if_left, job)

    def _cancel_if_left(self, job: Job) -> None:
        if not job.followers and not job.settled and not job.cancelled:
            self._dispatcher.cancel(job)

    async def _changed(self, job: Job) -> None:
        event = asyncio.Event()
        job.followers.add(event)
        try:
            await event.wait()
        finally:
            job.followers.discard(event)

    def _pin(self, work: Work) -> None:
        missing = self.blobs.pin(work.digests)
        if missing:
            raise missing_blobs(missing)

    def _receive(self, job: Job, message: Message) -> None:
        if job.settled:  # the late word of a run that was given up
            return
        self._progress_at = self._clock()
        if isinstance(message, Ended):
            self._settle(job, message)
            return
        line, result = message
        if len(job.journal) == 0:
            self.metrics.waited(job.waited_s)
        job.journal.append(line)
        self.metrics.observe(result)
        self._faults = 0
        job.notify()

    def _settle(self, job: Job, ended: Ended) -> None:
        assert job.work is not None  # kept until the job is settled
        lost = len(job.work.tests) - job.position
        self.blobs.unpin(job.work.digests)
        job.work = None
        self.held_bytes -= self._body_bytes.pop(job)
        if ended.fault:
            self.metrics.lost(lost)
            self.metrics.request("failed")
            job.closing = encode_error("engine_fault", ended.fault, "send the request again, best to another node")
            self._fault(ended.fault)
        elif ended.cancelled:
            self.metrics.lost(lost)
            self.metrics.request("cancelled")
            job.closing = encode_error("cancelled", "the request was cancelled", "send the request again")
        else:
            held = self._clock() - job.accepted_at - job.waited_s
            self._job_s += 0.1 * (held - self._job_s)
            self.metrics.request("finished")
            job.closing = encode_end(job.position, ended.stopped)
        job.state = JobState.INTERRUPTED if ended.fault or ended.cancelled else JobState.FINISHED
        self._ledger.settle(job)
        job.notify()

    def _fault(self, words: str) -> None:
        self._faults += 1
        if self._faults >= _FAULTS_UNTIL_PROBE and not self._not_ready:
            self._not_ready = words
            self._down_since = self._clock()

    def _drain_retry_s(self) -> float:
        return min(self.settings.drain_s, max(5.0, self.retry_after_s()))

    async def _keep_probed(self) -> None:
        """While not ready, run a trivial program every few seconds; the node is ready once one has run."""
        while True:
            if self._not_ready:
                try:
                    result = await asyncio.to_thread(self._run_probe)
                    failure = result.detail or "infrastructure fault"
                except Exception as error:
                    result, failure = None, f"{type(error).__name__}: {error}"
                if result is not None and result.status is not Status.INFRASTRUCTURE:
                    if self._probe is None:
                        self._describe(result)
                    self._probe, self._not_ready, self._faults = result, "", 0
                    continue
                if self._not_ready != failure:
                    logger.warning("the engine runs no program: %s", failure)
                self._not_ready = failure
            await asyncio.sleep(_PROBE_EVERY_S if self._not_ready else 0.2)

    def _run_probe(self) -> Result:
        test = TestCase("probe", b"", b"1\n")
        request = Request(b"print(1)\n", (test,), limits=Limits(time_s=5.0), request_id=f"probe-{next(self._serials)}")
        return next(iter(self._executor.execute(request)))

    async def _keep_watched(self) -> None:
        """Give up runs when the engine answers nothing at all any more, so that their clients can ask elsewhere."""
        while True:
            await asyncio.sleep(1.0)
            now = self._clock()
            for job in list(self._dispatcher.running):
                if job.work is None:
                    continue
                template = job.work.template
                longest = template.limits.time_s * template.limits.wall_factor * template.repetitions * _RERUNS
                if now - max(self._progress_at, job.accepted_at + job.waited_s) > longest + _PATIENCE_S:
                    logger.error("the engine gave no result of request %s; giving it up", job.request_id)
                    self._dispatcher.running.discard(job)
                    self._settle(job, Ended(fault="the engine gave no result in time"))
                    self._ledger.discard(job)  # the stuck thread may still write to it: never take it up again

    def _describe(self, probe: Result) -> None:
        self.metrics.describe(
            {
                "node": self.settings.node or probe.node,
                "engine": probe.engine,
                "tier": probe.tier,
                "interpreter": probe.interpreter,
            }
        )

    def _watch(self) -> None:
        watch, blobs = self.metrics.watch, self.blobs
        watch("ces_queue_depth", "Requests that wait to be handed to the engine.", lambda: self._dispatcher.waiting)
        watch(
            "ces_queue_capacity",
            "Requests that may wait to be handed to the engine.",
            lambda: self.settings.queue_limit,
        )
        watch("ces_in_flight", "Requests handed to the engine.", lambda: len(self._dispatcher.running))
        watch("ces_slots", "Executions that run at the same time.", lambda: self._slots)
        watch("ces_ready", "1 when the node takes new work.", lambda: not self.not_ready())
        watch("ces_accepted_body_bytes", "Bytes of bodies of unfinished requests.", lambda: self.held_bytes)
        watch("ces_ledger_requests", "Request ids known.", lambda: len(self._ledger))
        watch("ces_ledger_bytes", "Bytes of finished answers kept.", lambda: self._ledger.size_bytes)
        watch("ces_blobs", "Blobs held.", lambda: len(blobs))
        watch("ces_blob_memory_bytes", "Bytes of blobs in memory.", lambda: blobs.memory_bytes)
        watch("ces_blob_disk_bytes", "Bytes of blobs on disk.", lambda: blobs.disk_bytes)
        watch("ces_blob_hits", "Blobs asked for and held.", lambda: blobs.hits)
        watch("ces_blob_misses", "Blobs asked for and not held.", lambda: blobs.misses)
        watch("ces_blob_evictions", "Blobs dropped for room.", lambda: blobs.evictions)
        self.metrics.watch_readings("What `ces probe` last found on this machine.", _probe_readings)


def _probe_readings() -> dict[str, float]:
    """The stored state of this machine's engine; nothing where it cannot be read."""
    try:
        state = EpochFile(default_state_path("embedded")).read()
    except ArtifactError:
        return {}
    return {"probed_epoch" if name == "epoch" else name: value for name, value in epoch_gauges(state).items()}
