"""Pure rules: clocks, verdicts, re-runs. No process is started."""

import itertools
import math
import os
import signal
import statistics
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dmc_optim.ces import Clock, Limits, Status
from dmc_optim.ces.engine import bounds, clocks
from dmc_optim.ces.engine.clocks import Baseline, Timing
from dmc_optim.ces.engine.judgement import Attempt, another_needed, settled
from dmc_optim.ces.engine.protocol import Measured
from dmc_optim.ces.engine.sandbox import Run
from dmc_optim.ces.engine.verdict import Outcome, before_comparison
from dmc_optim.errors import ConfigError

LIMITS = Limits(time_s=10.0)
NOTHING = Baseline()


def attempt(
    cpu: float, wall: float | None = None, status: Status = Status.SUCCESS, killed: str = "", **timing: float
) -> Attempt:
    """A run of so many seconds."""
    clocked = Timing(cpu, cpu if wall is None else wall, **timing)
    run = Run(Outcome(killed_for=killed, output_limit=1), clocked, 0, 0)
    return Attempt(
        run, Measured(0, status, duration_s=clocks.on_clock(clocked, Clock.CPU, NOTHING), cpu_s=cpu, wall_s=wall)
    )


def test_the_baseline_is_subtracted_and_a_duration_is_never_below_a_tenth_of_a_millisecond() -> None:
    baseline = Baseline(cpu_s=0.001, wall_s=0.002)
    timing = Timing(cpu_s=0.0315, wall_s=0.04)
    assert clocks.on_clock(timing, Clock.CPU, baseline) == pytest.approx(0.0305)
    assert clocks.on_clock(timing, Clock.WALL, baseline) == pytest.approx(0.038)
    assert clocks.on_clock(Timing(0.0009, 0.001), Clock.CPU, baseline) == 1e-4


@pytest.mark.parametrize(
    ("cpu", "wall", "waited", "steal", "blocked"),
    [
        (0.100, 0.175, 0.0, None, False),  # exactly 50 ms + 25%
        (0.100, 0.176, 0.0, None, True),
        (0.000, 0.051, 0.0, None, True),
        (0.100, 0.300, 0.2, None, False),  # ready to run, but the core was taken
        (0.100, 0.300, 0.0, 0.2, False),  # taken by the hypervisor
        (0.100, 0.300, 0.1, None, True),
        (5.000, 5.500, 0.0, None, False),
    ],
)
def test_blocked_means_50_ms_and_a_quarter_more_wall_than_cpu(
    cpu: float, wall: float, waited: float, steal: float | None, blocked: bool
) -> None:
    assert Timing(cpu, wall, waited, steal).blocked() is blocked


def test_suspicions() -> None:
    assert clocks.suspicions(Timing(1.0, 1.0), LIMITS, NOTHING) == ()
    assert clocks.suspicions(Timing(9.5, 9.5), LIMITS, NOTHING) == ("near_limit",)
    assert clocks.suspicions(Timing(9.49, 9.5), LIMITS, NOTHING) == ()
    assert clocks.suspicions(Timing(10.5, 10.5), LIMITS, NOTHING) == ("near_limit",)
    assert clocks.suspicions(Timing(1.0, 3.0), LIMITS, NOTHING) == ("blocked",)
    assert clocks.suspicions(Timing(1.0, 2.0, steal_s=0.9), LIMITS, NOTHING) == ("steal",)


@given(st.lists(st.floats(0.001, 9.0), min_size=1, max_size=3))
def test_the_median_run_stands_for_all(cpus: list[float]) -> None:
    index, duration, marks = clocks.settled([Timing(cpu, cpu) for cpu in cpus], Clock.CPU, NOTHING)
    assert duration == cpus[index] == sorted(cpus)[(len(cpus) - 1) // 2]
    assert marks == ()


def test_a_sleeper_is_not_fast_but_one_disturbed_run_does_not_make_a_sleeper() -> None:
    sleeper = [Timing(0.01, 1.0), Timing(0.01, 1.1)]
    assert clocks.settled(sleeper, Clock.CPU, NOTHING) == (0, 1.0, ("wall_clock",))
    assert clocks.settled(sleeper[:1], Clock.CPU, NOTHING)[2] == ()
    disturbed = [Timing(0.01, 1.0), Timing(0.012, 0.012), Timing(0.011, 0.011)]
    assert clocks.settled(disturbed, Clock.CPU, NOTHING) == (2, 0.011, ())


def test_runs_are_repeated_only_when_it_can_change_something() -> None:
    def again(*attempts: Attempt, repetitions: int = 1) -> bool:
        return another_needed(list(attempts), repetitions, LIMITS, NOTHING)

    assert not again(attempt(1.0))
    assert again(attempt(0.1, 2.0))  # blocked?
    assert not again(attempt(0.1, 2.0), attempt(0.1, 2.0))  # blocked again: a sleeper
    assert again(attempt(0.1, 2.0), attempt(0.1, 0.1))  # it was the host: median of three
    assert not again(attempt(0.1, 2.0), attempt(0.1, 0.1), attempt(0.1, 0.1))
    assert again(attempt(9.8))
    assert not again(attempt(0.1, 2.0, Status.WRONG_ANSWER))
    assert not again(attempt(10.0, status=Status.TIMEOUT, killed="cpu limit"))
    assert not again(attempt(0.1, 15.0, Status.TIMEOUT, "wall limit"))
    assert again(attempt(6.0, 15.0, Status.TIMEOUT, "wall limit", waited_s=8.0))  # the host starved it
    assert again(attempt(1.0), attempt(1.0), repetitions=3)
    assert not again(attempt(1.0), attempt(1.0), attempt(1.0), repetitions=3)
    assert not again(attempt(1.0), attempt(1.0, status=Status.RUNTIME_EXCEPTION), repetitions=3)


def test_a_run_killed_by_a_stranger_is_run_again_and_a_suicide_stays_one() -> None:
    def killed() -> Attempt:
        run = Run(Outcome(exit_status=signal.SIGKILL, output_limit=1), Timing(0.1, 0.1), 0, 0)
        return Attempt(run, Measured(0, Status.RUNTIME_EXCEPTION, "signal 9 (SIGKILL)"))

    assert another_needed([killed()], 1, LIMITS, NOTHING)
    assert not another_needed([killed(), killed()], 1, LIMITS, NOTHING)
    assert settled([killed(), killed()], 1, LIMITS, NOTHING).status == Status.RUNTIME_EXCEPTION
    rerun = [killed(), attempt(0.2)]
    assert not another_needed(rerun, 1, LIMITS, NOTHING)
    found = settled(rerun, 1, LIMITS, NOTHING)
    assert (found.status, found.duration_s, found.marks) == (Status.SUCCESS, 0.2, ("rerun",))


def test_repetitions_give_mean_sample_deviation_and_count() -> None:
    cpus = [0.3, 0.1, 0.2, 0.5]
    result = settled([attempt(cpu) for cpu in cpus], 4, LIMITS, NOTHING)
    assert result.duration_s == pytest.approx(statistics.mean(cpus))
    assert result.duration_std_s == pytest.approx(statistics.stdev(cpus))
    assert result.repetitions == 4


def test_a_time_out_lasts_at_least_the_limit_and_reruns_are_marked() -> None:
    assert settled([attempt(0.1, 15.0, Status.TIMEOUT, "wall limit")], 1, LIMITS, NOTHING).duration_s == 10.0
    marked = settled([attempt(9.9), attempt(9.7), attempt(9.8)], 1, LIMITS, NOTHING)
    assert (marked.duration_s, marked.marks) == (9.8, ("rerun", "near_limit"))


def test_the_order_of_classification() -> None:
    """Each fact outranks those after it, whatever else is true."""
    facts: list[tuple[dict[str, object], Status]] = [
        ({"lost": "gone"}, Status.INFRASTRUCTURE),
        ({"oom_kills": 1}, Status.OUT_OF_MEMORY),
        ({"killed_for": "wall limit"}, Status.TIMEOUT),
        ({"output_bytes": 11}, Status.OUTPUT_LIMIT),
        ({"compile_error": "SyntaxError"}, Status.SYNTAX_ERROR),
        ({"memory_error": True, "exit_status": 1 << 8}, Status.OUT_OF_MEMORY),
        ({"exit_status": 3 << 8}, Status.RUNTIME_EXCEPTION),
    ]
    for size in range(1, len(facts) + 1):
        for chosen in itertools.combinations(facts, size):
            merged = {key: value for fact, _ in reversed(chosen) for key, value in fact.items()}
            found = before_comparison(Outcome(**{"output_limit": 10, **merged}))  # type: ignore[arg-type]
            assert found is not None
            assert found[0] is chosen[0][1], merged
    assert before_comparison(Outcome(output_limit=10, output_bytes=10)) is None


@pytest.mark.parametrize(
    ("status", "detail"),
    [
        (signal.SIGSEGV, "signal 11 (SIGSEGV)"),
        (signal.SIGKILL, "signal 9 (SIGKILL)"),  # killed, but not for memory: the counter did not move
        (137 << 8, "exit 137"),
        (1 << 8, "exit 1: ValueError: x"),
    ],
)
def test_exit_statuses_are_runtime_exceptions_with_a_reason(status: int, detail: str) -> None:
    stderr = b"Traceback\nValueError: x\n" if status == 1 << 8 else b""
    found = before_comparison(Outcome(exit_status=int(status), output_limit=1, stderr_tail=stderr))
    assert found == (Status.RUNTIME_EXCEPTION, detail)


def test_a_memory_error_counts_only_beside_a_failure() -> None:
    assert before_comparison(Outcome(memory_error=True, output_limit=1)) is None
    killed = Outcome(memory_error=True, exit_status=signal.SIGKILL, output_limit=1)
    assert before_comparison(killed) == (Status.RUNTIME_EXCEPTION, "signal 9 (SIGKILL)")
    assert os.WIFSIGNALED(signal.SIGKILL)


@pytest.mark.parametrize(
    ("name", "values"),
    {
        "time_s": (math.nan, math.inf, 0.0, -1.0, 1e9),
        "wall_factor": (0.5, math.nan),
        "memory_bytes": (0, -5, 1 << 62),
        "output_bytes": (-1, 1 << 62),
        "stderr_bytes": (-1,),
        "tmp_bytes": (-1, 1 << 62),
        "processes": (0, 1 << 40),
    }.items(),
)
def test_limits_that_cannot_be_kept_are_refused(name: str, values: tuple[float, ...]) -> None:
    bounds.check(Limits())
    for value in values:
        with pytest.raises(ConfigError, match=f"limit {name}"):
            bounds.check(replace(Limits(), **{name: value}))  # type: ignore[arg-type]
