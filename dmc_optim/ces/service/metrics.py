"""Prometheus figures of a node: what ran, how it ended, who waited, what is held."""

from collections import deque
from collections.abc import Callable
from functools import partial

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from dmc_optim.ces.types import Result
from schemas.enums import Outcome, Status

_SECONDS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 60.0)
WINDOW_S = 60.0
_BUCKET_S = 1.0


class RateWindow:
    """Shares of kinds among the executions of the last minute.

    clock: seconds, monotonic.
    """

    def __init__(self, clock: Callable[[], float], window_s: float = WINDOW_S) -> None:
        self._clock = clock
        self._window_s = window_s
        self._buckets: deque[tuple[float, dict[str, int]]] = deque()

    def add(self, kind: str) -> None:
        """Count one execution of this kind, now."""
        now = self._clock()
        if not self._buckets or now - self._buckets[-1][0] >= _BUCKET_S:
            self._buckets.append((now, {}))
            self._expire(now)
        counts = self._buckets[-1][1]
        counts[kind] = counts.get(kind, 0) + 1

    def share(self, kind: str) -> float:
        """Executions of this kind over all in the window; 0 when there were none."""
        self._expire(self._clock())
        total = sum(sum(counts.values()) for _, counts in self._buckets)
        return sum(counts.get(kind, 0) for _, counts in self._buckets) / total if total else 0.0

    def _expire(self, now: float) -> None:
        while self._buckets and now - self._buckets[0][0] > self._window_s:
            self._buckets.popleft()


class Metrics:
    """The figures of one node, in a registry of their own."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.registry = CollectorRegistry()
        registry = self.registry
        self._window = RateWindow(clock)
        self._executions = Counter("ces_executions", "Executions that gave a result.", ["status"], registry=registry)
        for status in Status:
            self._executions.labels(status.value)
        self._requests = Counter("ces_requests", "Requests by how they ended.", ["outcome"], registry=registry)
        for outcome in ("finished", "cancelled", "failed", "replayed", "attached", "resumed"):
            self._requests.labels(outcome)
        self._refusals = Counter("ces_refusals", "Calls refused, by error code.", ["code"], registry=registry)
        self._duration = Histogram(
            "ces_duration_seconds", "Measured duration of executions.", buckets=_SECONDS, registry=registry
        )
        self._wall = Histogram("ces_wall_seconds", "Wall time of executions.", buckets=_SECONDS, registry=registry)
        self._wait = Histogram(
            "ces_queue_wait_seconds", "Wait of requests before the engine.", buckets=_SECONDS, registry=registry
        )
        self._retries = Counter("ces_engine_retries", "Executions repeated by the engine.", registry=registry)
        self._epoch = Gauge("ces_epoch", "Service-state epoch of the last result.", registry=registry)
        self.uploads = Counter("ces_blob_uploads", "Blobs taken in.", registry=registry)
        self.uploaded_bytes = Counter("ces_blob_uploaded_bytes", "Bytes of blobs taken in.", registry=registry)
        self.downloads = Counter("ces_body_bytes", "Bytes of execution bodies taken in.", registry=registry)
        rate = Gauge("ces_window_rate", "Share of the last minute's executions.", ["kind"], registry=registry)
        for kind in ("infrastructure", "unknown", "timeout", "service_only"):
            rate.labels(kind).set_function(partial(self.rate, kind))

    def watch(self, name: str, description: str, value: Callable[[], float]) -> None:
        """Expose a figure that is read when asked for."""
        Gauge(name, description, registry=self.registry).set_function(value)

    def describe(self, facts: dict[str, str]) -> None:
        """Expose what this node is, as labels of a constant 1."""
        Gauge("ces_node_info", "What this node is.", list(facts), registry=self.registry).labels(**facts).set(1)

    def rate(self, kind: str) -> float:
        """A share of the last minute: infrastructure, unknown (accepted, and no result came), timeout, service_only
        (a verdict of this service, hence 1 − infrastructure − unknown)."""
        if kind == "service_only":
            return 1.0 - self._window.share("infrastructure") - self._window.share("unknown")
        return self._window.share(kind)

    def observe(self, result: Result) -> None:
        """Count one result."""
        self._executions.labels(result.status.value).inc()
        self._epoch.set(result.epoch)
        if result.duration_s is not None:
            self._duration.observe(result.duration_s)
        if result.wall_s is not None:
            self._wall.observe(result.wall_s)
        if result.retries:
            self._retries.inc(result.retries)
        outcome = result.status.outcome
        self._window.add(
            "infrastructure" if outcome is None else "timeout" if outcome is Outcome.TIMEOUT else "verdict"
        )

    def lost(self, executions: int) -> None:
        """Count accepted executions that will give no result here."""
        for _ in range(executions):
            self._window.add("unknown")

    def waited(self, seconds: float) -> None:
        """Note how long a request waited in the queue."""
        self._wait.observe(seconds)

    def request(self, outcome: str) -> None:
        """Count a request that ended, or a retry that found its job."""
        self._requests.labels(outcome).inc()

    def refused(self, code: str) -> None:
        """Count a refusal."""
        self._refusals.labels(code).inc()

    def text(self) -> bytes:
        """The exposition format."""
        return generate_latest(self.registry)
