"""Prometheus figures of a node: what ran, how it ended, who waited, what is held."""

from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import partial

from prometheus_client import CollectorRegistry, Counter, Gauge, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector

from dmc_optim.ces.health.windows import Execution, HealthMonitor
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


class Spread(Collector):
    """A histogram that is cheap to add to: one is added for every execution, and it is read a few times a minute."""

    def __init__(self, name: str, description: str, bounds: tuple[float, ...] = _SECONDS) -> None:
        self._name = name
        self._description = description
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0

    def add(self, value: float) -> None:
        """Count a value into the first bucket whose bound it does not exceed."""
        self._counts[bisect_left(self._bounds, value)] += 1
        self._sum += value

    def collect(self) -> Iterator[HistogramMetricFamily]:
        """The family that Prometheus reads, with cumulative counts."""
        total = 0
        buckets = []
        for bound, count in zip([*map(str, self._bounds), "+Inf"], self._counts, strict=True):
            total += count
            buckets.append((bound, float(total)))
        yield HistogramMetricFamily(self._name, self._description, buckets=buckets, sum_value=self._sum)


class Tally(Collector):
    """A counter by one label, cheap to add to."""

    def __init__(self, name: str, description: str, label: str, values: Iterable[str]) -> None:
        self._name = name
        self._description = description
        self._label = label
        self.counts = dict.fromkeys(values, 0)

    def collect(self) -> Iterator[CounterMetricFamily]:
        """The family that Prometheus reads."""
        family = CounterMetricFamily(self._name, self._description, labels=[self._label])
        for value, count in self.counts.items():
            family.add_metric([value], count)
        yield family


class Readings(Collector):
    """Gauges whose names depend on what there is to read, such as statistics of a probe that may not have run yet.

    read: name (without the ces_ prefix) → value, asked for at every scrape.
    """

    def __init__(self, description: str, read: Callable[[], dict[str, float]]) -> None:
        self._description = description
        self._read = read

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """One family a value."""
        for name, value in self._read().items():
            yield GaugeMetricFamily(f"ces_{name}", self._description, value=value)


class Metrics:
    """The figures of one node, in a registry of their own."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.registry = CollectorRegistry()
        registry = self.registry
        self._window = RateWindow(clock)
        self._monitor = HealthMonitor(clock)
        self.watch_readings("Windows of a minute in which fewer than 90% got a verdict (paper Table 29).", self._bursts)
        statuses = [status.value for status in Status]
        self._executions = Tally("ces_executions", "Executions that gave a result.", "status", statuses)
        self._requests = Counter("ces_requests", "Requests by how they ended.", ["outcome"], registry=registry)
        for outcome in ("finished", "cancelled", "failed", "replayed", "attached", "resumed"):
            self._requests.labels(outcome)
        self._refusals = Counter("ces_refusals", "Calls refused, by error code.", ["code"], registry=registry)
        self._duration = Spread("ces_duration_seconds", "Measured duration of executions.")
        self._wall = Spread("ces_wall_seconds", "Wall time of executions.")
        self._wait = Spread("ces_queue_wait_seconds", "Wait of requests before the engine.")
        for collector in (self._executions, self._duration, self._wall, self._wait):
            registry.register(collector)
        self._epoch = 0
        self.watch("ces_epoch", "Service-state epoch of the last result.", lambda: self._epoch)
        self._retries = Counter("ces_engine_retries", "Executions repeated by the engine.", registry=registry)
        self.uploads = Counter("ces_blob_uploads", "Blobs taken in.", registry=registry)
        self.uploaded_bytes = Counter("ces_blob_uploaded_bytes", "Bytes of blobs taken in.", registry=registry)
        self.downloads = Counter("ces_body_bytes", "Bytes of execution bodies taken in.", registry=registry)
        rate = Gauge("ces_window_rate", "Share of the last minute's executions.", ["kind"], registry=registry)
        for kind in ("infrastructure", "unknown", "timeout", "service_only"):
            rate.labels(kind).set_function(partial(self.rate, kind))

    def watch(self, name: str, description: str, value: Callable[[], float]) -> None:
        """Expose a figure that is read when asked for."""
        Gauge(name, description, registry=self.registry).set_function(value)

    def watch_readings(self, description: str, read: Callable[[], dict[str, float]]) -> None:
        """Expose several figures that are read together."""
        self.registry.register(Readings(description, read))

    def _bursts(self) -> dict[str, float]:
        gauges = self._monitor.gauges()
        return {name: gauges[name] for name in ("bursts", "in_burst")}

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
        self._executions.counts[result.status.value] += 1
        self._epoch = result.epoch
        if result.duration_s is not None:
            self._duration.add(result.duration_s)
        if result.wall_s is not None:
            self._wall.add(result.wall_s)
        if result.retries:
            self._retries.inc(result.retries)
        outcome = result.status.outcome
        self._window.add(
            "infrastructure" if outcome is None else "timeout" if outcome is Outcome.TIMEOUT else "verdict"
        )
        self._monitor.record(Execution(result.status))

    def lost(self, executions: int) -> None:
        """Count accepted executions that will give no result here."""
        for _ in range(executions):
            self._window.add("unknown")
            self._monitor.record(Execution(None))

    def waited(self, seconds: float) -> None:
        """Note how long a request waited in the queue."""
        self._wait.add(seconds)

    def request(self, outcome: str) -> None:
        """Count a request that ended, or a retry that found its job."""
        self._requests.labels(outcome).inc()

    def refused(self, code: str) -> None:
        """Count a refusal."""
        self._refusals.labels(code).inc()

    def text(self) -> bytes:
        """The exposition format."""
        return generate_latest(self.registry)
