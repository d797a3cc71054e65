"""From runs to one measured result: status, comparison, whether to run again, which run stands for all."""

import os
import signal
import statistics
from dataclasses import dataclass, replace

from dmc_optim.ces.comparators import Comparator
from dmc_optim.ces.engine import clocks
from dmc_optim.ces.engine.clocks import Baseline
from dmc_optim.ces.engine.protocol import Measured
from dmc_optim.ces.engine.sandbox import Run
from dmc_optim.ces.engine.verdict import before_comparison
from dmc_optim.ces.types import Limits
from schemas.enums import Status

_TIMED = (Status.SUCCESS, Status.TIMEOUT)


@dataclass(frozen=True)
class Attempt:
    """One run and what came of it."""

    run: Run
    measured: Measured


def judged(
    position: int,
    run: Run,
    expected: bytes | None,
    compare: Comparator,
    limits: Limits,
    baseline: Baseline,
    return_output: bool,
) -> Measured:
    """Status, detail, clocks and memory of one run."""
    timing, outcome = run.timing, run.outcome
    if clocks.on_clock(timing, limits.clock, baseline) >= limits.time_s:
        outcome = replace(outcome, over_time=f"{limits.clock} limit")
    verdict = before_comparison(outcome)
    if verdict is None:
        difference = None if expected is None else compare(run.output, expected)
        verdict = (Status.SUCCESS, "") if difference is None else (Status.WRONG_ANSWER, difference)
    return Measured(
        position,
        *verdict,
        duration_s=clocks.on_clock(timing, limits.clock, baseline),
        cpu_s=timing.own_cpu_s(baseline),
        wall_s=timing.own_wall_s(baseline),
        peak_memory_bytes=run.peak_memory_bytes,
        output=run.output if return_output else None,
        output_truncated=outcome.output_bytes > limits.output_bytes,
        stderr_tail=outcome.stderr_tail,
        context_switches=run.context_switches,
        steal_s=timing.steal_s,
    )


def killed_from_outside(attempt: Attempt) -> bool:
    """Whether a run ended by a SIGKILL that nobody here sent: a program's own, or the host's (its OOM killer, say).

    Which of the two, a second run tells: a program that kills itself does it again.
    """
    status = attempt.run.outcome.exit_status
    unexplained = attempt.measured.status is Status.RUNTIME_EXCEPTION
    return unexplained and os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL


def another_needed(attempts: list[Attempt], repetitions: int, limits: Limits, baseline: Baseline) -> bool:
    """Whether the test must run again: repetitions asked for, or a suspicious measurement."""
    last = attempts[-1]
    if killed_from_outside(last):
        return sum(map(killed_from_outside, attempts)) == 1
    if last.measured.status not in _TIMED:
        return False
    attempts = [attempt for attempt in attempts if not killed_from_outside(attempt)]
    if len(attempts) < repetitions:
        return True
    if len(attempts) > clocks.RERUNS or repetitions > 1:
        return False
    killed_for = last.run.outcome.killed_for
    if killed_for:  # its clock was at the limit; only a wall limit can hit the innocent
        return killed_for == "wall limit" and clocks.disturbed(last.run.timing)
    if len(attempts) == 1:
        return bool(clocks.suspicions(last.run.timing, limits, baseline))
    return not all(attempt.run.timing.blocked() for attempt in attempts)


def settled(attempts: list[Attempt], repetitions: int, limits: Limits, baseline: Baseline) -> Measured:
    """One result for all runs of a test: the last where it is no success or time-out, else the median run."""
    last = attempts[-1].measured
    if last.status not in _TIMED:
        return last
    reruns = len(attempts) > 1
    attempts = [attempt for attempt in attempts if not killed_from_outside(attempt)]
    index, duration, marks = clocks.settled([attempt.run.timing for attempt in attempts], limits.clock, baseline)
    chosen = attempts[index].measured
    if repetitions > 1:
        return _averaged(attempts, chosen, marks)
    if reruns:
        marks += ("rerun", *clocks.suspicions(attempts[0].run.timing, limits, baseline))
    if chosen.status is Status.TIMEOUT:
        duration = max(duration, limits.time_s)
    return chosen._replace(duration_s=duration, marks=marks)


def _averaged(attempts: list[Attempt], chosen: Measured, marks: tuple[str, ...]) -> Measured:
    """Mean and sample standard deviation over repetitions; the median run gives the rest."""
    durations = [attempt.measured.duration_s or 0.0 for attempt in attempts]
    if "wall_clock" in marks:
        durations = [max(attempt.measured.wall_s or 0.0, clocks.MINIMUM_DURATION_S) for attempt in attempts]
    return chosen._replace(
        duration_s=statistics.fmean(durations),
        duration_std_s=statistics.stdev(durations) if len(durations) > 1 else 0.0,
        repetitions=len(attempts),
        marks=marks,
    )
