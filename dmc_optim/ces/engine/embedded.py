"""The embedded engine: an Executor that runs programs in isolated processes on this machine."""

import itertools
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from dmc_optim.ces.comparators import comparator
from dmc_optim.ces.engine import admission, bounds, interpreter, tiers
from dmc_optim.ces.engine.admission import CoreLease
from dmc_optim.ces.engine.blobs import BlobCache
from dmc_optim.ces.engine.cgroup_parents import sweep
from dmc_optim.ces.engine.cgroups import PREFIX
from dmc_optim.ces.engine.identity import engine_version, node_name
from dmc_optim.ces.engine.jobs import Job
from dmc_optim.ces.engine.procfs import living
from dmc_optim.ces.engine.protocol import Configure
from dmc_optim.ces.engine.slots import Labels, Slot
from dmc_optim.ces.types import Request, Result
from dmc_optim.errors import EngineError

_CACHE_BYTES = 256 << 20
_OUTER_UID_BASE = 2_000_000_000
_engines = itertools.count()


class Embedded:
    """Executor on this machine: one slot a core.

    slots: None takes as many as cores and memory allow. tier: the weakest isolation accepted (default: the
    strongest class); raises IsolationError when this host cannot give it, ConfigError for too many slots.
    """

    def __init__(
        self,
        slots: int | None = None,
        tier: str | None = None,
        *,
        executable: str = "",
        node: str = "",
        epoch: int = 0,
    ) -> None:
        self.plan = plan = tiers.choose(tier or os.environ.get(tiers.ENVIRONMENT), tiers.read_facts())
        found = interpreter.find(executable)
        self._lease = CoreLease(admission.slots_for(slots), os.sched_getaffinity(0))
        cores = self._lease.cores
        self._condition = threading.Condition()
        self._waiting: list[Job] = []
        self._active: list[Job] = []
        self._serials = itertools.count(1)
        self._closed = False
        self._cache = BlobCache(_CACHE_BYTES)
        labels = Labels(node or node_name(), epoch, plan.tier, found.identity, engine_version())
        sweep(plan.cgroups, living())
        prefix = f"{PREFIX}{os.getpid()}-{next(_engines)}"
        everywhere = os.sched_getaffinity(0)
        spare = frozenset(everywhere - set(cores)) or frozenset(everywhere)
        self._slots = [
            Slot(
                Configure(
                    name=f"{prefix}-{index}",
                    tier=plan.tier,
                    interpreter=found,
                    cgroups=plan.cgroups,
                    core=core,
                    supervisor_cores=spare,
                    outer_uids=_outer_uids(index) if plan.mapped else None,
                ),
                replace(labels, marks=("shared_core",)) if core in self._lease.shared else labels,
                self,
                self._cache,
            )
            for index, core in enumerate(cores)
        ]
        try:
            for slot in self._slots:
                slot.spawn()
            for slot in self._slots:
                slot.ready()
        except BaseException:
            self._closed = True
            for slot in self._slots:
                slot.close()
            self._lease.release()
            raise
        for slot in self._slots:
            slot.start()

    @property
    def parallelism(self) -> int:
        """Number of slots."""
        return len(self._slots)

    @property
    def slots(self) -> int:
        """Number of slots."""
        return len(self._slots)

    @property
    def cores(self) -> list[int]:
        """The core of each slot."""
        return list(self._lease.cores)

    @property
    def slot_names(self) -> list[str]:
        """Names of the slots, and of their cgroups."""
        return [slot.name for slot in self._slots]

    @property
    def supervisor_pids(self) -> list[int]:
        """Process ids of the supervisors."""
        return [slot.supervisor_pid for slot in self._slots]

    def execute(self, request: Request) -> Iterator[Result]:
        """Results in test order as they are known. Raises ConfigError for an unknown comparator, unusable limits."""
        return ResultStream(self, self._submit(request))

    def execute_many(self, requests: Iterable[Request]) -> Iterator[tuple[int, list[Result]]]:
        """Several requests at once; (index, results) in the order in which requests finish."""
        source = enumerate(requests)
        running: dict[int, tuple[int, Job]] = {}
        exhausted = False
        done: list[Job] = []
        finished = threading.Condition()

        def note(job: Job) -> None:
            if job.finished:
                with finished:
                    done.append(job)
                    finished.notify_all()

        try:
            while True:
                while not exhausted and len(running) < 2 * self.slots:
                    entry = next(source, None)
                    if entry is None:
                        exhausted = True
                        break
                    index, request = entry
                    job = self._job(request, note)
                    running[job.serial] = (index, job)
                    self._enqueue(job)
                    if not request.tests:
                        note(job)
                if not running:
                    return
                with finished:
                    while not done:
                        finished.wait()
                    job = done.pop(0)
                taken = running.pop(job.serial, None)
                if taken is not None:
                    yield taken[0], job.all_results()
        finally:
            for _, job in running.values():
                self.cancel_job(job)

    def cancel(self, request_id: str) -> None:
        """End the requests that run under this id: their programs are killed, their iterators end."""
        with self._condition:
            jobs = [job for job in (*self._waiting, *self._active) if job.request.request_id == request_id]
        for job in jobs:
            self.cancel_job(job)

    def cancel_job(self, job: Job) -> None:
        """End one job."""
        if job.finished:
            return
        job.cancel()
        with self._condition:
            self._waiting = [other for other in self._waiting if other is not job]
        for slot in self._slots:
            slot.cancel(job)

    def close(self) -> None:
        """End every slot; running requests end early."""
        with self._condition:
            self._closed = True
            jobs = [*self._waiting, *self._active]
            self._condition.notify_all()
        for job in jobs:
            job.cancel()
        for slot in self._slots:
            slot.close()
        self._cache.close()
        self._lease.release()

    def __enter__(self) -> "Embedded":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def next_job(self) -> Job | None:
        """For slots: wait for a job; requests nobody works on come first, then those that several may share."""
        with self._condition:
            while not self._closed:
                if self._waiting:
                    job = self._waiting.pop(0)
                    self._active.append(job)
                    job.workers += 1
                    return job
                for job in self._active:
                    if job.wants_worker:
                        job.workers += 1
                        return job
                self._condition.wait()
            return None

    def release(self, job: Job) -> None:
        """For slots: done with a job for now."""
        with self._condition:
            job.workers -= 1
            if job.workers == 0 and job in self._active:
                if job.wants_worker:
                    self._condition.notify_all()
                else:
                    self._active.remove(job)

    def _submit(self, request: Request) -> Job:
        job = self._job(request, lambda _: None)
        self._enqueue(job)
        return job

    def _job(self, request: Request, changed: Callable[[Job], None]) -> Job:
        comparator(request.comparator)
        bounds.check(request.limits)
        return Job(request, next(self._serials), changed)

    def _enqueue(self, job: Job) -> None:
        with self._condition:
            if self._closed:
                raise EngineError("the engine is closed")
            if job.request.tests:
                self._waiting.append(job)
                self._condition.notify_all()


def _outer_uids(index: int) -> tuple[int, int]:
    """Host ids for a slot's root and nobody, far above those of people."""
    return _OUTER_UID_BASE + 2 * index, _OUTER_UID_BASE + 2 * index + 1


class ResultStream:
    """Iterator over one request's results; closing or dropping it cancels what has not run."""

    def __init__(self, engine: Embedded, job: Job) -> None:
        self._engine = engine
        self._job = job

    def __iter__(self) -> "ResultStream":
        return self

    def __next__(self) -> Result:
        result = self._job.next_result()
        if result is None:
            raise StopIteration
        return result

    def close(self) -> None:
        """Cancel what has not run."""
        self._engine.cancel_job(self._job)

    def __del__(self) -> None:
        self.close()
