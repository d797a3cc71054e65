"""One request on its way through the slots: which tests are taken, which results are in, in what order they leave."""

import threading
import time
from collections.abc import Callable

from dmc_optim.ces.types import Request, Result, StopRule

_FIRST_CHUNK = 2
_MAX_CHUNK = 64
_MAX_CHUNK_BYTES = 4 << 20


class Job:
    """Thread-safe state of one request. Slots take tests and deliver results; the caller reads them in test order.

    changed: called, without the lock, whenever a caller may have something new to read.
    """

    def __init__(self, request: Request, serial: int, changed: Callable[["Job"], None]) -> None:
        self.request = request
        self.serial = serial
        self.submitted_at = time.monotonic()
        self.workers = 0
        self._changed = changed
        self._condition = threading.Condition()
        self._next = 0
        self._returned: list[int] = []
        self._end = len(request.tests)
        self._results: dict[int, Result] = {}
        self._read = 0
        self.cancelled = False

    @property
    def spreadable(self) -> bool:
        """Whether several slots may work on it at once."""
        return self.request.stop is StopRule.ALL

    @property
    def wants_worker(self) -> bool:
        """Whether a further slot could do something for it."""
        with self._condition:
            if self.cancelled or (self.workers and not self.spreadable):
                return False
            return bool(self._returned) or self._next < self._end

    @property
    def finished(self) -> bool:
        """Whether every result there will be has been delivered."""
        with self._condition:
            return self._finished()

    def take(self, previous: int, slots: int) -> list[int]:
        """Positions of the next tests for a slot whose last chunk had `previous` tests; empty when there are none."""
        with self._condition:
            if self.cancelled:
                return []
            if self._returned:
                taken, self._returned = sorted(self._returned), []
                return taken
            left = self._end - self._next
            size = min(left, _MAX_CHUNK, previous * 2 if previous else _FIRST_CHUNK)
            if self.spreadable and slots > 1:
                size = min(size, max(1, left // (2 * slots)))
            taken, used = [], 0
            while len(taken) < size and (not taken or used < _MAX_CHUNK_BYTES):
                test = self.request.tests[self._next]
                used += len(test.input) + len(test.expected or b"")
                taken.append(self._next)
                self._next += 1
            return taken

    def give_back(self, positions: list[int]) -> None:
        """Tests that were taken but not run."""
        with self._condition:
            self._returned.extend(position for position in positions if position not in self._results)

    def deliver(self, position: int, result: Result) -> None:
        """One result; the first one for a test counts."""
        with self._condition:
            if position in self._results or position >= self._end:
                return
            self._results[position] = result
            if self.request.stop.ends_after(result.status):
                self._end = position + 1
                self._results = {at: kept for at, kept in self._results.items() if at < self._end}
            self._condition.notify_all()
        self._changed(self)

    def has(self, position: int) -> bool:
        """Whether the result of a test is in."""
        with self._condition:
            return position in self._results

    def unfinished(self) -> list[int]:
        """Tests without a result, taken by a slot or not; those not yet taken are taken now."""
        with self._condition:
            self._next = self._end
            self._returned.clear()
            return [position for position in range(self._end) if position not in self._results]

    def cancel(self) -> None:
        """No more results are wanted."""
        with self._condition:
            self.cancelled = True
            self._condition.notify_all()
        self._changed(self)

    def next_result(self) -> Result | None:
        """Wait for the next result in test order; None after the last."""
        with self._condition:
            while True:
                if self._read in self._results:
                    result = self._results[self._read]
                    self._read += 1
                    return result
                if self._read >= self._end or self.cancelled:
                    return None
                self._condition.wait()

    def all_results(self) -> list[Result]:
        """What has been delivered, in test order."""
        with self._condition:
            return [self._results[position] for position in sorted(self._results) if position < self._end]

    def _finished(self) -> bool:
        return self.cancelled or len(self._results) >= self._end
