"""Durations from clocks: baseline, blocked time, suspicion, median of three (design of CES 2.3). Pure rules."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from dmc_optim.ces.types import Clock, Limits

MINIMUM_DURATION_S = 1e-4
BLOCKED_SLACK_S = 0.050
BLOCKED_SHARE = 0.25
NEAR_LIMIT_SHARE = 0.05
STEAL_SHARE = 0.10
RERUNS = 2  # after a suspicious run, so that three are compared


@dataclass(frozen=True)
class Baseline:
    """What an empty program costs on this node, in seconds; part of no duration."""

    cpu_s: float = 0.0
    wall_s: float = 0.0


@dataclass(frozen=True)
class Timing:
    """Clocks of one run, in seconds, as the kernel and the parent saw them; nothing subtracted.

    waited_s: time the program was ready to run but another process had the core.
    steal_s: time the hypervisor gave the core to somebody else; None when not measured.
    """

    cpu_s: float
    wall_s: float
    waited_s: float = 0.0
    steal_s: float | None = None

    def own_cpu_s(self, baseline: Baseline) -> float:
        """CPU time without the empty run's."""
        return max(self.cpu_s - baseline.cpu_s, 0.0)

    def own_wall_s(self, baseline: Baseline) -> float:
        """Wall time without the empty run's."""
        return max(self.wall_s - baseline.wall_s, 0.0)

    def blocked(self) -> bool:
        """Whether the program slept or waited: wall exceeds CPU by more than 50 ms + 25%.

        Time spent ready to run, or stolen, is the host's doing and does not count as blocked.
        """
        gap = self.wall_s - self.cpu_s - self.waited_s - (self.steal_s or 0.0)
        return gap > BLOCKED_SLACK_S + BLOCKED_SHARE * self.cpu_s


def on_clock(timing: Timing, clock: Clock, baseline: Baseline) -> float:
    """The run's own time on a clock, at least 0.1 ms."""
    own = timing.own_cpu_s(baseline) if clock is Clock.CPU else timing.own_wall_s(baseline)
    return max(own, MINIMUM_DURATION_S)


def suspicions(timing: Timing, limits: Limits, baseline: Baseline) -> tuple[str, ...]:
    """Why a run must be repeated: `blocked`, `steal`, `near_limit`; empty when it need not."""
    reasons = []
    if timing.blocked():
        reasons.append("blocked")
    if timing.steal_s is not None and timing.steal_s > max(STEAL_SHARE * timing.wall_s, BLOCKED_SLACK_S):
        reasons.append("steal")
    if abs(on_clock(timing, limits.clock, baseline) - limits.time_s) <= NEAR_LIMIT_SHARE * limits.time_s:
        reasons.append("near_limit")
    return tuple(reasons)


def disturbed(timing: Timing) -> bool:
    """Whether the host took more than a tenth of the run's wall time: the limit may have hit an innocent run."""
    return timing.waited_s + (timing.steal_s or 0.0) > STEAL_SHARE * timing.wall_s


def settled(timings: Sequence[Timing], clock: Clock, baseline: Baseline) -> tuple[int, float, tuple[str, ...]]:
    """The run that stands for several, its duration and marks.

    The median duration on the clock decides; when every run was blocked, the median wall time does (a sleeper
    is not fast), marked `wall_clock`.
    """
    marks: tuple[str, ...] = ()
    if clock is Clock.CPU and len(timings) > 1 and all(timing.blocked() for timing in timings):
        clock, marks = Clock.WALL, ("wall_clock",)
    durations = [on_clock(timing, clock, baseline) for timing in timings]
    index = durations.index(statistics.median_low(durations))
    return index, durations[index], marks
