"""The queue of a node and the threads that feed its executor."""

import asyncio
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import count

from dmc_optim.ces.service.blobs import BlobStore
from dmc_optim.ces.service.ledger import Job, JobState
from dmc_optim.ces.service.wire import encode_result
from dmc_optim.ces.types import Cancellable, Executor, Result, TestCase
from dmc_optim.errors import EngineError

logger = logging.getLogger(__name__)

_CANCEL_AGAIN_S = 0.2
# After a wait for a result, further ones are left to gather: waking a thread for each would cost more than all else
# that is done with it.
_WAITED_S = 0.0005
_GATHER_S = 0.01


@dataclass(frozen=True, slots=True)
class Ended:
    """How a run of a job ended. fault: the executor failed, in words; then nothing else is set."""

    stopped: bool = False
    cancelled: bool = False
    fault: str = ""


Message = tuple[bytes, Result] | Ended


class Dispatcher:
    """Runs jobs on an executor in the order they came. `submit`, `cancel` and the callback belong to the loop.

    receive: called in the event loop with each message of a job (a result and its line, at last an Ended).
    node: put on results in place of the executor's own name, unless "".
    memory_per_run_bytes: test data resolved at a time for one job. linger_s: results are handed to the loop together
    when they come within this time; waking the loop for each costs more than the results do.
    """

    def __init__(
        self,
        executor: Executor,
        blobs: BlobStore,
        receive: Callable[[Job, Message], None],
        clock: Callable[[], float],
        node: str,
        memory_per_run_bytes: int,
        linger_s: float,
    ) -> None:
        self._executor = executor
        self._blobs = blobs
        self._receive = receive
        self._clock = clock
        self._node = node
        self._memory_per_run = memory_per_run_bytes
        self._linger_s = linger_s
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waiting: deque[Job] = deque()
        self._changed = threading.Condition()
        self._closing = False
        self._runs = count()
        self._threads: list[threading.Thread] = []
        self._cancellations: set[asyncio.Task[None]] = set()
        self.running: set[Job] = set()

    @property
    def waiting(self) -> int:
        """Jobs in the queue."""
        return len(self._waiting)

    def start(self, threads: int) -> None:
        """Start so many threads, each with one job at a time; call it inside the running event loop."""
        self._loop = asyncio.get_running_loop()
        for number in range(threads):
            thread = threading.Thread(target=self._work, name=f"ces-job-{number}", daemon=True)
            thread.start()
            self._threads.append(thread)

    def submit(self, job: Job) -> None:
        """Queue a job."""
        with self._changed:
            self._waiting.append(job)
            self._changed.notify()

    def cancel(self, job: Job) -> None:
        """End a job: out of the queue at once, or its running program killed."""
        job.cancelled = True
        with self._changed:
            queued = job in self._waiting
            if queued:
                self._waiting.remove(job)
        if queued:
            self._receive(job, Ended(cancelled=True))
            return
        task = asyncio.get_running_loop().create_task(self._cancel_running(job))
        self._cancellations.add(task)
        task.add_done_callback(self._cancellations.discard)

    def alive(self) -> bool:
        """Whether every thread is."""
        return all(thread.is_alive() for thread in self._threads)

    def close(self, join_s: float = 5.0) -> None:
        """End the threads; jobs still queued are dropped."""
        with self._changed:
            self._closing = True
            self._waiting.clear()
            self._changed.notify_all()
        deadline = self._clock() + join_s
        for thread in self._threads:
            thread.join(max(0.0, deadline - self._clock()))

    async def _cancel_running(self, job: Job) -> None:
        # Again and again: the run may be just about to start, and an executor ignores ids it does not know yet.
        while job in self.running:
            if isinstance(self._executor, Cancellable):
                await asyncio.to_thread(self._executor.cancel, job.run_id)
            await asyncio.sleep(_CANCEL_AGAIN_S)

    def _work(self) -> None:
        while (job := self._next()) is not None:
            try:
                ended = self._run(job)
            except Exception as error:  # programs never raise here: this is the executor's own fault
                logger.warning("the executor failed on request %s", job.request_id, exc_info=error)
                ended = Ended(fault=f"{type(error).__name__}: {error}")
            if job.cancelled and ended.fault:  # an executor may well fail on being cancelled
                ended = Ended(cancelled=True)
            self._post(job, ended)

    def _next(self) -> Job | None:
        with self._changed:
            while not self._waiting and not self._closing:
                self._changed.wait()
            if self._closing:
                return None
            job = self._waiting.popleft()
            job.state = JobState.RUNNING
            job.waited_s = self._clock() - job.accepted_at
            self.running.add(job)
            return job

    def _run(self, job: Job) -> Ended:
        work = job.work
        assert work is not None  # a waiting job holds its work
        code = work.program(self._blobs.get)
        index = job.position
        for tests in self._portions(job):
            job.run_id = f"run-{next(self._runs)}"
            if job.cancelled:
                return Ended(cancelled=True)
            request = replace(work.template, code=code, tests=tests, request_id=job.run_id)
            results = iter(self._executor.execute(request))
            try:
                for test in tests:
                    asked = self._clock()
                    result = next(results, None)
                    if job.cancelled:
                        return Ended(cancelled=True)
                    if result is None or result.test_id != test.id:
                        got = "no result" if result is None else f"a result of test {result.test_id!r}"
                        raise EngineError(f"the executor gave {got} where test {test.id!r} was due")
                    self._deliver(job, index, result)
                    index += 1
                    if work.template.stop.ends_after(result.status):
                        return Ended(stopped=True)
                    if test is not tests[-1] and self._clock() - asked > _WAITED_S:
                        time.sleep(_GATHER_S)
            finally:
                close = getattr(results, "close", None)
                if close is not None:
                    close()
        return Ended()

    def _portions(self, job: Job) -> Iterator[tuple[TestCase, ...]]:
        """The remaining tests in portions whose bytes stay within the memory bound (one test may exceed it)."""
        work = job.work
        assert work is not None
        tests: list[TestCase] = []
        size = 0
        for index in range(job.position, len(work.tests)):
            test = work.test(index, self._blobs.get)
            length = len(test.input) + len(test.expected or b"")
            if tests and size + length > self._memory_per_run:
                yield tuple(tests)
                tests, size = [], 0
            tests.append(test)
            size += length
        if tests:
            yield tuple(tests)

    def _deliver(self, job: Job, index: int, result: Result) -> None:
        queue_s = job.waited_s + (result.queue_s or 0.0)
        self._post(job, (encode_result(index, result, queue_s=queue_s, node=self._node or result.node), result))

    def _post(self, job: Job, message: Message) -> None:
        job.inbox.append(message)
        last = isinstance(message, Ended)
        if not last and job.posted:
            return
        job.posted = True
        assert self._loop is not None
        try:
            self._loop.call_soon_threadsafe(self._collect if last else self._collect_soon, job)
        except RuntimeError:  # the loop is closed: the node has stopped and nobody waits for this
            self._closing = True

    def _collect_soon(self, job: Job) -> None:
        asyncio.get_running_loop().call_later(self._linger_s, self._collect, job)

    def _collect(self, job: Job) -> None:
        job.posted = False
        while job.inbox:
            message = job.inbox.popleft()
            if isinstance(message, Ended):
                self.running.discard(job)
            self._receive(job, message)
