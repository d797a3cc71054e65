"""Requests to results over HTTP, across endpoints and faults.

A fault of a service or of the network is never a verdict: the request is sent again under the same id, from the
first result it lacks, to the endpoint it ran on or to another. When the retry policy is exhausted, the results
that are still missing come back with status `infrastructure`.
"""

import hashlib
import os
import random
import re
import threading
import time
import uuid
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import closing
from dataclasses import replace

from dmc_optim.ces.client.contents import Digests, Parcel
from dmc_optim.ces.client.exchange import Exchange, Fault, Halt, MissingBlobs
from dmc_optim.ces.client.policy import RetryPolicy, Troubles
from dmc_optim.ces.client.pool import Endpoint, EndpointPool, NoEndpointError
from dmc_optim.ces.types import NO_ANSWER, Request, Result
from dmc_optim.errors import ServiceBusyError, ServiceError
from schemas.enums import Status

TOKEN_VARIABLE = "DMC_OPTIM_CES_TOKEN"

_REQUEST_ID = re.compile(r"[A-Za-z0-9._:\-]{1,100}")
_REQUESTS_PER_SLOT = 3  # nodes hand their engines two per slot; one more waits there while an answer travels
_MOST_THREADS = 512
_MISSES_UNTIL_INLINE = 3
_RESUME_AFTER_S = 0.02


class Client:
    """Executor on one or several service nodes. Thread-safe.

    url: base URLs, comma-separated (`http://a:8000,http://b:8000`) or as a list; `dns+http://name:8000` stands for
    every address the name resolves to. token: bearer token; None takes the environment variable DMC_OPTIM_CES_TOKEN.
    policy: how faults are met. inline_bytes: larger contents are uploaded once per node instead of sent along.
    wait_s: how long to wait at the start for a first node to answer.
    Raises ConfigError for a bad URL, ServiceRejectedError for a wrong token or another kind of server, ServiceError
    when no node answers.
    """

    def __init__(
        self,
        url: str | Iterable[str],
        token: str | None = None,
        policy: RetryPolicy | None = None,
        inline_bytes: int = 16 * 1024,
        wait_s: float = 10.0,
        clock: Callable[[], float] = time.monotonic,
        rng: random.Random | None = None,
    ) -> None:
        self._url = url if isinstance(url, str) else ",".join(url)
        self._policy = policy or RetryPolicy()
        self._clock = clock
        self._rng = rng or random.Random()
        self._inline_bytes = inline_bytes
        self._digests = Digests()
        self._pool = EndpointPool(self._url, self._policy, clock, self._rng)
        self._exchange = Exchange(token or os.environ.get(TOKEN_VARIABLE) or None, self._policy)
        self._halts: set[Halt] = set()
        self._lock = threading.Lock()
        self._closed = False
        try:
            self._find_nodes(wait_s)
        except BaseException:
            self._exchange.close()
            raise

    @property
    def parallelism(self) -> int:
        """Slots of all nodes that have answered so far, at least 1."""
        return max(1, sum(endpoint.slots for endpoint in self._pool.endpoints))

    def execute(self, request: Request) -> Iterator[Result]:
        """Results in test order as they arrive. Closing the iterator cancels the request at the node.

        Raises ServiceRejectedError when a service will never take the request (token, size, form).
        """
        halt = self._enter()
        try:
            yield from self._verdicts(request, halt)
        finally:
            self._leave(halt)

    def execute_many(self, requests: Iterable[Request]) -> Iterator[tuple[int, list[Result]]]:
        """(index of the request, its results), in the order in which requests finish; all slots are kept busy."""
        halt = self._enter()
        most = min(_MOST_THREADS, self.parallelism * _REQUESTS_PER_SLOT)
        threads = ThreadPoolExecutor(most, thread_name_prefix="ces-client")
        running: dict[Future[list[Result]], int] = {}
        source = enumerate(requests)
        try:
            while True:
                while len(running) < most and (following := next(source, None)) is not None:
                    index, request = following
                    running[threads.submit(self._collect, request, halt)] = index
                if not running:
                    return
                done, _ = wait(running, return_when=FIRST_COMPLETED)
                for future in done:
                    index = running.pop(future)
                    yield index, future.result()
        finally:
            halt.call()
            self._pool.wake()
            threads.shutdown(wait=True, cancel_futures=True)
            self._leave(halt)

    def close(self) -> None:
        """End everything that runs and close the connections."""
        with self._lock:
            self._closed = True
            halts = list(self._halts)
        for halt in halts:
            halt.call()
        self._pool.wake()
        self._exchange.close()

    def _enter(self) -> Halt:
        halt = Halt()
        with self._lock:
            if self._closed:
                raise ServiceError(f"the client of {self._url} is closed; open another")
            self._halts.add(halt)
        return halt

    def _leave(self, halt: Halt) -> None:
        with self._lock:
            self._halts.discard(halt)

    def _find_nodes(self, wait_s: float) -> None:
        """Learn the slots of every node; come back once one has answered."""
        deadline = self._clock() + wait_s
        while True:
            endpoints = self._pool.endpoints
            last: Exception = ServiceError("the name resolves to no address")
            with ThreadPoolExecutor(max(1, min(16, len(endpoints)))) as threads:
                for future in [threads.submit(self._exchange.info, endpoint) for endpoint in endpoints]:
                    try:
                        future.result()
                    except (Fault, ServiceBusyError, MissingBlobs) as error:
                        last = error
            if any(endpoint.slots for endpoint in endpoints):
                return
            if self._clock() >= deadline:
                raise ServiceError(
                    f"no execution service answers at {self._url} ({last}); start one with `dmc-optim ces serve`, "
                    "or check the address"
                ) from last
            time.sleep(min(0.3, max(0.0, deadline - self._clock())))
            self._pool.refresh()

    def _collect(self, request: Request, halt: Halt) -> list[Result]:
        return list(self._verdicts(request, halt))

    def _verdicts(self, request: Request, halt: Halt) -> Iterator[Result]:
        """Results in test order. From the first infrastructure fault on they are held back until the tests at fault
        have been asked again: a recovered verdict may end the request before the results that follow it."""
        request = replace(request, request_id=_usable_id(request.request_id))
        given = 0
        held: list[Result] = []
        with closing(self._answer(request, halt)) as answer:
            for result in answer:
                if held or result.status is Status.INFRASTRUCTURE:
                    held.append(result)
                else:
                    given += 1
                    yield result
        for attempt in range(1, self._policy.infrastructure + 1):
            again = [i for i, result in enumerate(held) if _worth_asking(result)]
            if not again:
                break
            tests = tuple(request.tests[given + i] for i in again)
            retry = replace(request, tests=tests, request_id=f"{request.request_id}.again{attempt}")
            with closing(self._answer(retry, halt)) as answer:
                for i, result in zip(again, answer, strict=False):
                    held[i] = replace(result, retries=held[i].retries + 1 + result.retries)
        for result in held:
            yield result
            if request.stop.ends_after(result.status):
                return

    def _answer(self, request: Request, halt: Halt) -> Generator[Result, None, None]:
        """The results of one request, whatever it takes; infrastructure for those that no endpoint gave."""
        if not request.tests:
            return
        parcel = Parcel(request, self._digests, self._inline_bytes)
        troubles = Troubles(self._policy, self._clock)
        position, misses, stopped = 0, 0, False
        prefer: Endpoint | None = None
        avoid: Endpoint | None = None
        while not troubles.hopeless and not halt.called:
            try:
                with self._pool.lease(troubles.deadline, prefer, avoid, halt) as endpoint:
                    prefer, avoid = None, endpoint
                    with closing(self._attempt(endpoint, parcel, position, misses, halt)) as results:
                        for result in results:
                            position += 1
                            prefer = endpoint  # it works: a stream that breaks now is resumed where it ran
                            troubles.progress()
                            stopped = request.stop.ends_after(result.status)
                            if troubles.total:
                                result = replace(result, retries=result.retries + troubles.total)
                            yield result
                    return
            except NoEndpointError:
                break
            except MissingBlobs as missing:
                misses += 1
                prefer = endpoint
                endpoint.known.forget(missing.hashes)
                if misses > _MISSES_UNTIL_INLINE:  # even a body that named no blob was said to miss some
                    troubles.fault(f"{endpoint.url} keeps missing contents that it was sent")
            except ServiceBusyError as busy:
                troubles.busy(str(busy))
                self._pool.refused(endpoint, busy.retry_after_s)
            except Fault as fault:
                if stopped or position == len(request.tests):  # only the last line was lost
                    return
                troubles.fault(str(fault))
                if prefer is None:
                    self._pool.failed(endpoint)
                halt.wait(_RESUME_AFTER_S if prefer else self._policy.backoff_s(troubles.in_a_row, self._rng))
        if halt.called:
            raise ServiceError(f"the client of {self._url} was closed while a request ran")
        for test in request.tests[position:]:
            detail = troubles.account()
            yield Result(test.id, Status.INFRASTRUCTURE, detail=detail, retries=troubles.total, marks=(NO_ANSWER,))

    def _attempt(
        self, endpoint: Endpoint, parcel: Parcel, position: int, misses: int, halt: Halt
    ) -> Generator[Result, None, None]:
        if endpoint.slots == 0:
            self._exchange.info(endpoint)
        inline = misses >= _MISSES_UNTIL_INLINE
        if not inline:
            self._exchange.upload(endpoint, parcel)
        body = parcel.inline_body if inline else parcel.body
        for result in self._exchange.results(endpoint, parcel, body, position, halt):
            self._pool.succeeded(endpoint)
            yield result


def _worth_asking(result: Result) -> bool:
    """Whether a service gave this infrastructure result itself; for one that none gave, retries are used up."""
    return result.status is Status.INFRASTRUCTURE and NO_ANSWER not in result.marks


def _usable_id(request_id: str) -> str:
    """The request id as a header value; a random one for none, so that two requests never meet by accident."""
    if not request_id:
        return uuid.uuid4().hex
    if _REQUEST_ID.fullmatch(request_id):
        return request_id
    return hashlib.sha256(request_id.encode("utf-8", "surrogatepass")).hexdigest()
