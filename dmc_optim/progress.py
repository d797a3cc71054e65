"""Progress of long work: a live line where there is a terminal, plain lines where there is none.

Workers report to the reporter of their own process (`current()`); a distributed runner has its own counters.
"""

import sys
import threading
import time
from collections.abc import Callable
from typing import Any, Protocol, TextIO


class Progress(Protocol):
    """Told what happens; shows it or not."""

    def start(self, stage: str, total: int) -> None:
        """A stage begins, with so many units."""

    def add(self, units: int) -> None:
        """More units were found."""

    def step(self, unit: str, seconds: float, executions: int = 0) -> None:
        """A unit is done: it took so long and so many executions."""

    def finish(self, note: str) -> None:
        """The stage is done."""

    def stop(self) -> None:
        """Nothing more is shown, whether the stage was done or not."""


class Silent:
    """Shows nothing."""

    def start(self, stage: str, total: int) -> None:
        """Ignored."""

    def add(self, units: int) -> None:
        """Ignored."""

    def step(self, unit: str, seconds: float, executions: int = 0) -> None:
        """Ignored."""

    def finish(self, note: str) -> None:
        """Ignored."""

    def stop(self) -> None:
        """Ignored."""


class Lines:
    """Plain lines at most every `interval_s` seconds, for logs. clock: seconds, monotonic."""

    def __init__(
        self, stream: TextIO | None = None, interval_s: float = 15.0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._stream = stream or sys.stderr
        self._interval, self._clock = interval_s, clock
        self._lock = threading.Lock()
        self._begin("", 0)

    def _begin(self, stage: str, total: int) -> None:
        self._stage, self._total, self._done, self._executions = stage, total, 0, 0
        self._started = self._shown = self._clock()
        self._slowest = ("", 0.0)

    def start(self, stage: str, total: int) -> None:
        """Remember when the stage began."""
        with self._lock:
            self._begin(stage, total)

    def add(self, units: int) -> None:
        """Raise the total."""
        with self._lock:
            self._total += units

    def step(self, unit: str, seconds: float, executions: int = 0) -> None:
        """Count; show when the last line is old enough."""
        with self._lock:
            self._done += 1
            self._executions += executions
            self._slowest = max(self._slowest, (unit, seconds), key=lambda item: item[1])
            if self._clock() - self._shown >= self._interval:
                self._shown = self._clock()
                self._show()

    def _show(self) -> None:
        print(self.line(), file=self._stream, flush=True)

    def line(self) -> str:
        """Stage, units done, rate, time left, slowest unit."""
        passed = max(self._clock() - self._started, 1e-9)
        left = (self._total - self._done) * passed / max(self._done, 1)
        rate = f"{self._executions / passed:.0f} executions/s, " if self._executions else ""
        slowest = f", slowest {self._slowest[0]} {self._slowest[1]:.1f} s" if self._slowest[0] else ""
        return f"{self._stage:<24} {self._done}/{self._total} units, {rate}about {left:.0f} s left{slowest}"

    def finish(self, note: str) -> None:
        """One line that says how long the stage took."""
        print(f"{self._stage:<24} {note} ({self._clock() - self._started:.1f} s)", file=self._stream, flush=True)

    def stop(self) -> None:
        """Lines need no end."""


class Live(Lines):
    """A bar that is redrawn in place (rich), and the closing line of every stage above it."""

    def __init__(self) -> None:
        from rich.console import Console

        super().__init__(interval_s=0.2)
        self._console = Console(file=sys.stderr)
        self._status: Any = None

    def start(self, stage: str, total: int) -> None:
        """Show the stage."""
        super().start(stage, total)
        self._status = self._console.status(self.line())
        self._status.start()

    def _show(self) -> None:
        if self._status is not None:
            self._status.update(self.line())

    def finish(self, note: str) -> None:
        """Replace the bar by the closing line."""
        self.stop()
        passed = self._clock() - self._started
        self._console.print(f"{self._stage:<24} {note} ({passed:.1f} s)", highlight=False, markup=False)

    def stop(self) -> None:
        """Take the bar away and give the terminal its cursor back."""
        if self._status is not None:
            self._status.stop()
            self._status = None


_current: Progress = Silent()


def current() -> Progress:
    """The reporter of this process."""
    return _current


def use(progress: Progress) -> None:
    """Make `progress` the reporter of this process."""
    global _current
    _current = progress


def for_terminal(quiet: bool = False) -> Progress:
    """Live on a terminal, lines elsewhere, nothing when quiet."""
    if quiet:
        return Silent()
    return Live() if sys.stderr.isatty() else Lines()
