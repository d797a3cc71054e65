"""How a client tries again: bounds, back-off, and the account of one request's troubles."""

import random
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Bounds of a client's patience. Times in seconds.

    attempts: faults in a row, without one new result between them, after which a request is given up.
    base_s, cap_s: back-off after fault n is min(cap_s, base_s · 2ⁿ⁻¹), of which a random half to whole is waited.
    faulty_s: give a request up this long after its last result when faults stand in the way.
    busy_s: the same when services only refuse for load (429, or 503 while they start or stop).
    infrastructure: how often a test is asked again whose result is an infrastructure fault of the service's own.
    connect_s, read_s, write_s: time-outs of the sockets; services send a beat every few seconds, so read_s
    without a byte means that the other side is gone.
    """

    attempts: int = 12
    base_s: float = 0.1
    cap_s: float = 10.0
    faulty_s: float = 120.0
    busy_s: float = 900.0
    infrastructure: int = 2
    connect_s: float = 3.0
    read_s: float = 20.0
    write_s: float = 60.0

    def backoff_s(self, faults: int, rng: random.Random) -> float:
        """The wait after so many faults in a row."""
        whole = min(self.cap_s, self.base_s * 2.0 ** max(0, min(faults, 60) - 1))
        return whole * (0.5 + 0.5 * rng.random())


class Troubles:
    """What has gone wrong with one request since its last result.

    clock: seconds, monotonic.
    """

    def __init__(self, policy: RetryPolicy, clock: Callable[[], float]) -> None:
        self._policy = policy
        self._clock = clock
        self._since = clock()
        self.in_a_row = 0
        self.total = 0
        self.last = ""

    def progress(self) -> None:
        """A result came."""
        self._since = self._clock()
        self.in_a_row = 0

    def fault(self, words: str) -> None:
        """An attempt failed."""
        self.in_a_row += 1
        self.total += 1
        self.last = words

    def busy(self, words: str) -> None:
        """A service refused for load; that is no fault."""
        self.last = words

    @property
    def deadline(self) -> float:
        """The clock's reading at which the request is given up."""
        return self._since + (self._policy.faulty_s if self.in_a_row else self._policy.busy_s)

    @property
    def hopeless(self) -> bool:
        """Whether to give up now."""
        return self.in_a_row >= self._policy.attempts or self._clock() >= self.deadline

    def account(self) -> str:
        """Why the request was given up, in a few words."""
        waited = self._clock() - self._since
        return f"no answer in {waited:.0f} s and {self.total} failed attempt(s); last: {self.last or 'none tried'}"
