"""The endpoints of a client: which takes the next request, which are busy, ejected or gone."""

import random
import socket
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol
from urllib.parse import urlsplit

from dmc_optim.ces.client.policy import RetryPolicy
from dmc_optim.errors import ConfigError

_KNOWN_BLOBS = 200_000
_EJECTED_AT_MOST_S = 5.0
_RESOLVE_EVERY_S = 30.0


class NoEndpointError(Exception):
    """No endpoint became free before the deadline."""


class Stoppable(Protocol):
    """What tells a waiting thread that its caller has gone."""

    @property
    def called(self) -> bool:
        """Whether to stop waiting."""


class KnownBlobs:
    """Hashes that an endpoint is believed to hold. Bounded; thread-safe."""

    def __init__(self) -> None:
        self._hashes: OrderedDict[str, None] = OrderedDict()
        self._lock = threading.Lock()

    def unknown(self, hashes: list[str]) -> list[str]:
        """Those not known."""
        with self._lock:
            return [digest for digest in hashes if digest not in self._hashes]

    def add(self, hashes: list[str]) -> None:
        """Believe that these are there."""
        with self._lock:
            for digest in hashes:
                self._hashes[digest] = None
                self._hashes.move_to_end(digest)
            while len(self._hashes) > _KNOWN_BLOBS:
                self._hashes.popitem(last=False)

    def forget(self, hashes: list[str]) -> None:
        """Believe it no longer."""
        with self._lock:
            for digest in hashes:
                self._hashes.pop(digest, None)


@dataclass(slots=True, eq=False)
class Endpoint:
    """One service node as the client sees it. slots: 0 until it has said how many it has."""

    url: str
    host: str = ""  # value of the Host header where the URL holds a resolved address
    slots: int = 0
    in_flight: int = 0
    faults: int = 0
    free_at: float = 0.0
    known: KnownBlobs = field(default_factory=KnownBlobs)
    upload_lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def load(self) -> float:
        """Requests in flight per slot."""
        return self.in_flight / max(1, self.slots)


class EndpointPool:
    """Chooses the least loaded free endpoint. Thread-safe.

    urls: comma-separated base URLs; `dns+http://name:port` stands for every address the name resolves to, looked
    up again from time to time (a headless Kubernetes Service). Raises ConfigError for one that is none.
    """

    def __init__(self, urls: str, policy: RetryPolicy, clock: Callable[[], float], rng: random.Random) -> None:
        self._policy = policy
        self._clock = clock
        self._rng = rng
        self._changed = threading.Condition()
        self._turn = 0
        self._names = [url for url in parse_urls(urls) if url.startswith("dns+")]
        self._fixed = [Endpoint(url) for url in parse_urls(urls) if not url.startswith("dns+")]
        self._resolved: dict[str, Endpoint] = {}
        self._resolve_at = 0.0
        self.refresh()

    @property
    def endpoints(self) -> list[Endpoint]:
        """All of them, free or not."""
        return [*self._fixed, *self._resolved.values()]

    def refresh(self) -> None:
        """Look the names up again when it is time."""
        now = self._clock()
        if not self._names or now < self._resolve_at:
            return
        self._resolve_at = now + _RESOLVE_EVERY_S
        found: dict[str, Endpoint] = {}
        for name in self._names:
            found.update((endpoint.url, endpoint) for endpoint in _resolve(name))
        with self._changed:
            if found:  # a failed look-up says nothing about the nodes
                self._resolved = {url: self._resolved.get(url, endpoint) for url, endpoint in found.items()}
            self._changed.notify_all()

    @contextmanager
    def lease(
        self, deadline: float, prefer: Endpoint | None, avoid: Endpoint | None, halt: "Stoppable"
    ) -> Iterator[Endpoint]:
        """An endpoint for one attempt. Raises NoEndpointError when none is free before the deadline, or on a halt.

        prefer: take this one if it is free (a broken stream resumes where it ran). avoid: take it last.
        """
        endpoint = self._acquire(deadline, prefer, avoid, halt)
        try:
            yield endpoint
        finally:
            with self._changed:
                endpoint.in_flight -= 1
                self._changed.notify_all()

    def succeeded(self, endpoint: Endpoint) -> None:
        """It answered: whatever was held against it is over."""
        if endpoint.faults:
            with self._changed:
                endpoint.faults, endpoint.free_at = 0, 0.0
                self._changed.notify_all()

    def failed(self, endpoint: Endpoint) -> None:
        """It failed: ejected for a while that doubles with each failure in a row."""
        with self._changed:
            endpoint.faults += 1
            pause = min(_EJECTED_AT_MOST_S, self._policy.backoff_s(endpoint.faults, self._rng))
            endpoint.free_at = self._clock() + pause
            self._changed.notify_all()

    def refused(self, endpoint: Endpoint, retry_after_s: float) -> None:
        """It is full or stopping: not asked before it said, and up to a quarter later so that not all come at once."""
        with self._changed:
            endpoint.free_at = self._clock() + retry_after_s * (1.0 + 0.25 * self._rng.random())
            self._changed.notify_all()

    def wake(self) -> None:
        """Let every waiting thread look again."""
        with self._changed:
            self._changed.notify_all()

    def _acquire(self, deadline: float, prefer: Endpoint | None, avoid: Endpoint | None, halt: "Stoppable") -> Endpoint:
        self.refresh()
        with self._changed:
            while True:
                now = self._clock()
                endpoints = self.endpoints
                free = [endpoint for endpoint in endpoints if endpoint.free_at <= now]
                if free:
                    endpoint = prefer if prefer in free else self._choose(free, avoid)
                    assert endpoint is not None  # `free` is not empty
                    endpoint.in_flight += 1
                    if endpoint.faults:  # one tries whether it is back; the others wait for the outcome
                        endpoint.free_at = now + self._policy.connect_s
                    return endpoint
                soonest = min((endpoint.free_at for endpoint in endpoints), default=deadline)
                if halt.called or now >= deadline or soonest > deadline:
                    raise NoEndpointError
                self._changed.wait(max(0.001, min(soonest, deadline) - now))

    def _choose(self, free: list[Endpoint], avoid: Endpoint | None) -> Endpoint:
        self._turn += 1
        others = [endpoint for endpoint in free if endpoint is not avoid] or free
        rotated = [others[(self._turn + i) % len(others)] for i in range(len(others))]
        return min(rotated, key=lambda endpoint: endpoint.load)


def parse_urls(urls: str) -> list[str]:
    """The base URLs of a comma-separated list, without trailing slashes. Raises ConfigError."""
    found = []
    for url in (part.strip().rstrip("/") for part in urls.split(",")):
        if not url:
            continue
        try:
            parts = urlsplit(url.removeprefix("dns+"))
            usable = (
                parts.scheme in ("http", "https")
                and parts.hostname
                and parts.port != 0
                and not (parts.query or parts.username)
            )
        except ValueError:
            usable = False
        if not usable:
            raise ConfigError(
                f"{url!r} is no address of an execution service; give http://host:port, or several with commas"
            )
        found.append(url)
    if not found:
        raise ConfigError("no address of an execution service was given; give http://host:port")
    return found


def _resolve(name: str) -> list[Endpoint]:
    parts = urlsplit(name.removeprefix("dns+"))
    assert parts.hostname is not None  # checked by parse_urls
    port = parts.port or (443 if parts.scheme == "https" else 80)
    try:
        answers = socket.getaddrinfo(parts.hostname, port, type=socket.SOCK_STREAM)
    except OSError:
        return []
    addresses = sorted({str(answer[4][0]) for answer in answers})
    shown = [f"[{address}]" if ":" in address else address for address in addresses]
    return [Endpoint(f"{parts.scheme}://{address}:{port}{parts.path}", host=parts.netloc) for address in shown]
