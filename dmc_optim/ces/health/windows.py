"""Rates per window and bursts of degraded service (paper C.5, Table 29)."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from dmc_optim.errors import InvalidInputError
from schemas.enums import Status

BURST_THRESHOLD = 0.90  # paper Table 29: service-only share below which a window is degraded


@dataclass(frozen=True, slots=True)
class Execution:
    """How one execution was resolved.

    service: the service's last answer, None when it was no status at all (unknown). fell_back: a local run was
    launched for it. timed_out: its final verdict is a timeout, a converted local success included.
    """

    service: Status | None
    fell_back: bool = False
    timed_out: bool = False


@dataclass(frozen=True, slots=True)
class Window:
    """Counts of one window. key: its place in the series (a step, or a time divided by the width).

    The counts overlap: an execution that the service left unknown may also have fallen back and timed out.
    service_only: resolved by the service alone, with a verdict.
    """

    key: int
    n: int = 0
    service_only: int = 0
    fallback: int = 0
    infrastructure: int = 0
    unknown: int = 0
    timeout: int = 0

    def add(self, execution: Execution) -> "Window":
        """The window with one more execution."""
        service = execution.service
        verdict = service is not None and service is not Status.INFRASTRUCTURE
        return Window(
            self.key,
            self.n + 1,
            self.service_only + (verdict and not execution.fell_back),
            self.fallback + execution.fell_back,
            self.infrastructure + (service is Status.INFRASTRUCTURE),
            self.unknown + (service is None),
            self.timeout + (execution.timed_out or service is Status.TIMEOUT),
        )

    @property
    def rates(self) -> dict[str, float | None]:
        """Share of the executions, by name; None in an empty window: nothing was seen, which is not a rate of zero."""
        names = ("service_only", "fallback", "infrastructure", "unknown", "timeout")
        return {name: getattr(self, name) / self.n if self.n else None for name in names}


@dataclass(frozen=True, slots=True)
class Burst:
    """Contiguous windows below the threshold (a row of Table 29). Rates are shares."""

    first_key: int
    last_key: int
    windows: int
    executions: int
    service_only_min: float
    fallback_peak: float
    timeout_peak: float


def count_windows(executions: Iterable[tuple[int, Execution]]) -> list[Window]:
    """Windows of (key, execution) pairs, by ascending key; keys without executions are absent."""
    windows: dict[int, Window] = {}
    for key, execution in executions:
        windows[key] = windows.get(key, Window(key)).add(execution)
    return [windows[key] for key in sorted(windows)]


def find_bursts(windows: Sequence[Window], threshold: float = BURST_THRESHOLD, min_executions: int = 1) -> list[Burst]:
    """Maximal runs of neighbouring windows whose service-only share is below the threshold.

    Neighbours are neighbours in the sequence: windows with fewer than min_executions say nothing and are left out
    before. Raises InvalidInputError for a threshold outside (0, 1] or unsorted windows.
    """
    if not 0 < threshold <= 1:
        raise InvalidInputError(f"a burst threshold is a share in (0, 1], got {threshold}")
    keys = [window.key for window in windows]
    if keys != sorted(set(keys)):
        raise InvalidInputError("windows must have distinct keys in ascending order")
    bursts: list[Burst] = []
    current: list[Window] = []
    for window in (w for w in windows if w.n >= max(1, min_executions)):
        if window.service_only < threshold * window.n:
            current.append(window)
        elif current:
            bursts.append(_burst(current))
            current = []
    if current:
        bursts.append(_burst(current))
    return bursts


def _burst(windows: list[Window]) -> Burst:
    return Burst(
        windows[0].key,
        windows[-1].key,
        len(windows),
        sum(w.n for w in windows),
        min(w.service_only / w.n for w in windows),
        max(w.fallback / w.n for w in windows),
        max(w.timeout / w.n for w in windows),
    )


class HealthMonitor:
    """Counts executions into windows as they end. Thread-safe; memory bounded by `keep` windows.

    width_s: seconds of a window. clock: seconds, monotonic (time.monotonic, or a fake in tests).
    """

    def __init__(self, clock: Callable[[], float], width_s: float = 60.0, keep: int = 240) -> None:
        if width_s <= 0 or keep < 1:
            raise InvalidInputError(f"a monitor needs width_s > 0 and keep ≥ 1, got {width_s} and {keep}")
        self._clock, self._width_s, self._keep = clock, width_s, keep
        self._windows: OrderedDict[int, Window] = OrderedDict()
        self._lock = threading.Lock()

    def record(self, execution: Execution) -> None:
        """Count one finished execution in the present window."""
        key = int(self._clock() // self._width_s)
        with self._lock:
            self._windows[key] = self._windows.get(key, Window(key)).add(execution)
            while len(self._windows) > self._keep:
                self._windows.popitem(last=False)

    def windows(self) -> list[Window]:
        """The kept windows, oldest first."""
        with self._lock:
            return sorted(self._windows.values(), key=lambda w: w.key)

    def gauges(self) -> dict[str, float]:
        """Values for a metrics endpoint: see `health_gauges`."""
        return health_gauges(self.windows(), int(self._clock() // self._width_s))


def health_gauges(windows: Sequence[Window], now_key: int | None = None) -> dict[str, float]:
    """Gauge name → value, from windows in ascending order.

    Rates are those of the last window that is over (the one before now_key, when given, else the last) and are absent
    when that window saw nothing. bursts counts those in the kept history; in_burst is 1 when that window is part of
    one.
    """
    over = [w for w in windows if now_key is None or w.key < now_key]
    bursts = find_bursts(over)
    last = over[-1] if over and (now_key is None or over[-1].key == now_key - 1) else None
    gauges = {"bursts": float(len(bursts))}
    if last is not None:
        gauges |= {f"{name}_rate": rate for name, rate in last.rates.items() if rate is not None}
        gauges["window_executions"] = float(last.n)
    in_burst = last is not None and bool(bursts) and bursts[-1].last_key == last.key
    gauges["in_burst"] = float(in_burst)
    return gauges
