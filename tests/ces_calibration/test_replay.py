"""Noise and service states on fixed executions."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dmc_optim.ces.fallback import Policy
from dmc_optim.ces.health.windows import Window
from dmc_optim.ces.replay import (
    HEALTHY,
    MIN_DURATION_S,
    Executions,
    Handling,
    Noise,
    ServiceState,
    burst_trace,
    inject_noise,
    read_trace,
    replay,
    slowdown_trace,
    trace_from_windows,
    with_durations,
    write_trace,
)
from dmc_optim.errors import ConfigError, InvalidInputError


def rollouts(n=40, tests=10, steps=4, duration=0.5):
    """n rollouts of one correctness test and tests − 1 optimization tests, all successful."""
    rollout = np.repeat(np.arange(n), tests)
    category = np.tile(["correctness", *["optimization"] * (tests - 1)], n)
    return Executions(rollout, rollout % steps, category, np.full(n * tests, "success"), np.full(n * tests, duration))


def test_noise_has_the_planted_size_and_is_seeded():
    d = np.full(200_000, 0.5)
    additive = inject_noise(d, Noise(additive_s=0.02), 1) - d
    assert additive.std() == pytest.approx(0.02, rel=0.02)
    assert additive.mean() == pytest.approx(0, abs=2e-4)
    relative = inject_noise(d, Noise(multiplicative=0.1), 1) / d
    assert relative.std() == pytest.approx(0.1, rel=0.02)
    uniform = inject_noise(d, Noise(uniform_s=(0.005, 0.05)), 1) - d
    assert (uniform.min(), uniform.max()) == pytest.approx((0.005, 0.05), abs=1e-4)
    assert np.array_equal(inject_noise(d, Noise(0.1, 0.1), 7), inject_noise(d, Noise(0.1, 0.1), 7))
    assert not np.array_equal(inject_noise(d, Noise(0.1, 0.1), 7), inject_noise(d, Noise(0.1, 0.1), 8))


def test_short_tests_can_be_hit_harder():
    noise = Noise(additive_s=0.01, short_boost=4, short_s=0.1)
    short, long = np.full(50_000, 0.001), np.full(50_000, 5.0)
    assert (inject_noise(long, noise, 0) - long).std() == pytest.approx(0.01, rel=0.03)
    boosted = inject_noise(np.full(50_000, 1.0), Noise(additive_s=0.01, short_boost=4, short_s=1e9), 0)
    assert boosted.std() == pytest.approx(0.05, rel=0.03)
    assert inject_noise(short, noise, 0).min() == MIN_DURATION_S


def test_no_noise_changes_nothing_and_missing_stays_missing():
    d = np.array([[0.1, np.nan], [2.0, 9.0]])
    assert np.array_equal(inject_noise(d, Noise(), 0), d, equal_nan=True)
    assert np.isnan(inject_noise(d, Noise(0.5, 0.5), 0)[0, 1])


@pytest.mark.parametrize(
    "noise", [Noise(multiplicative=-1), Noise(additive_s=-1), Noise(uniform_s=(0.2, 0.1)), Noise(short_s=0)]
)
def test_bad_noise_is_refused(noise):
    with pytest.raises(InvalidInputError):
        inject_noise(np.ones(3), noise, 0)


def test_timeouts_are_decided_again():
    executions = Executions(
        np.zeros(5, int),
        np.zeros(5, int),
        np.full(5, "optimization"),
        np.array(["success", "success", "timeout", "wrong_answer", "success"]),
        np.array([1.0, 1.9, 2.0, 1.0, 1.0]),
    )
    changed = with_durations(executions, np.array([1.5, 2.0, 0.5, 3.0, np.nan]), 2.0)
    assert changed.status.tolist() == ["success", "timeout", "timeout", "wrong_answer", "success"]
    assert changed.duration_s[:4].tolist() == [1.5, 2.0, 2.0, 3.0]
    assert np.isnan(changed.duration_s[4])


def test_a_healthy_trace_changes_nothing():
    executions = rollouts()
    seen = replay(executions, [HEALTHY], 0)
    assert np.array_equal(seen.executions.duration_s, executions.duration_s)
    assert seen.kept.all() and seen.known.all() and not seen.lost.any()
    assert set(seen.service_only_by_step.values()) == {1.0}


def test_slope_offset_and_tail_act_step_by_step():
    trace = [
        HEALTHY,
        ServiceState(slope=2, offset_s=0.1),
        ServiceState(tail_share=1, tail_factor=3),
        ServiceState(slope=30),
    ]
    seen = replay(rollouts(), trace, 0).executions
    means = [seen.duration_s[seen.step == step].mean() for step in range(4)]
    assert means == pytest.approx([0.5, 1.1, 1.5, 10.0])
    assert set(seen.status[seen.step == 3]) == {"timeout"}


def test_a_short_trace_repeats_its_last_state():
    seen = replay(rollouts(), [HEALTHY, ServiceState(slope=2)], 0).executions
    assert [seen.duration_s[seen.step == s][0] for s in range(4)] == [0.5, 1.0, 1.0, 1.0]


def test_lost_results_follow_the_decision_table():
    seen = replay(rollouts(), [ServiceState(lost=1.0)], 0, policy=Policy(limit_s=4.0))
    optimization = seen.executions.category == "optimization"
    assert set(seen.executions.status[optimization]) == {"timeout"}
    assert set(seen.executions.duration_s[optimization]) == {4.0}
    assert set(seen.executions.status[~optimization]) == {"success"}
    assert np.isnan(seen.executions.duration_s[~optimization]).all()
    assert seen.kept.all()


def test_a_failure_recovered_locally_stays_a_failure():
    executions = rollouts(n=1, tests=2, steps=1)
    wrong = Executions(
        executions.rollout, executions.step, executions.category, np.array(["wrong_answer"] * 2), executions.duration_s
    )
    seen = replay(wrong, [ServiceState(lost=1.0)], 0)
    assert seen.executions.status.tolist() == ["wrong_answer"] * 2
    assert np.isnan(seen.executions.duration_s).all()


def test_discard_unknown_and_skip_leave_out_what_they_say():
    executions, trace = rollouts(n=400, tests=10), [ServiceState(lost=0.05)]
    lost_rollouts = np.unique(executions.rollout[replay(executions, trace, 3).lost])
    for handling in (Handling.DISCARD, Handling.UNKNOWN):
        seen = replay(executions, trace, 3, handling)
        assert set(range(400)) - set(seen.kept_rollouts) == set(lost_rollouts)
    skipped = replay(executions, trace, 3, Handling.SKIP)
    assert np.array_equal(skipped.kept, ~skipped.lost)
    # 1 − 0.95¹⁰ = 40.1%: Eq. 7 at n = 10
    assert len(lost_rollouts) / 400 == pytest.approx(1 - 0.95**10, abs=0.07)


def test_quarantine_leaves_out_degraded_steps_and_whole_rollouts():
    executions = rollouts(n=400)
    trace = [HEALTHY, ServiceState(lost=0.45), HEALTHY, ServiceState(lost=0.02)]
    seen = replay(executions, trace, 0, quarantine_below=0.9)
    assert not seen.kept[executions.step == 1].any()
    assert seen.kept[executions.step != 1].all()
    assert seen.service_only_by_step[1] == pytest.approx(0.55, abs=0.05)


@given(st.integers(0, 2**31), st.sampled_from(list(Handling)))
def test_replay_is_a_function_of_its_seed(seed, handling):
    executions, trace = rollouts(n=10), [ServiceState(1.1, 0.01, 0.1, 0.1, 3, 0.2)]
    one, two = (replay(executions, trace, seed, handling) for _ in range(2))
    assert np.array_equal(one.executions.duration_s, two.executions.duration_s, equal_nan=True)
    assert np.array_equal(one.kept, two.kept)


@pytest.mark.parametrize("trace", [[], [ServiceState(lost=1.2)], [ServiceState(slope=0)], [ServiceState(noise_cv=-1)]])
def test_impossible_traces_are_refused(trace):
    with pytest.raises(InvalidInputError):
        replay(rollouts(n=2), trace, 0)


def test_recorded_windows_become_a_trace():
    trace = trace_from_windows([Window(0), Window(1, 100, 98), Window(2), Window(3, 1000, 543)])
    assert [state.lost for state in trace] == pytest.approx([0, 0.02, 0.02, 0.457])


def test_bursts_and_slowdowns_have_the_shape_they_say():
    trace = burst_trace(20, 5, 8, worst_lost=0.457, background_lost=0.02)
    lost = [state.lost for state in trace]
    assert lost[:5] == [0.02] * 5
    assert lost[13:] == [0.02] * 7
    assert max(lost) == pytest.approx(0.457)
    assert lost.index(max(lost)) == 6
    assert lost[6:13] == sorted(lost[6:13], reverse=True)
    assert slowdown_trace(3, 1, ServiceState(slope=1.5)) == [HEALTHY, ServiceState(slope=1.5), ServiceState(slope=1.5)]
    for bad in ((20, 15, 8, 0.4, 0.0), (20, -1, 8, 0.4, 0.0), (20, 0, 0, 0.4, 0.0), (20, 0, 5, 0.1, 0.4)):
        with pytest.raises(InvalidInputError):
            burst_trace(*bad)


def test_traces_survive_their_file(tmp_path):
    trace = burst_trace(6, 1, 3, 0.4)
    path = tmp_path / "trace.jsonl"
    write_trace(path, trace)
    assert read_trace(path) == trace
    path.write_text('{"slope": 1}\n{"speed": 2}\n')
    with pytest.raises(ConfigError, match=r"trace.jsonl:2: not a service state"):
        read_trace(path)
    with pytest.raises(ConfigError, match="not readable"):
        read_trace(tmp_path / "none")


def test_executions_are_vectors_of_one_length():
    with pytest.raises(InvalidInputError, match="one length"):
        Executions(np.zeros(2, int), np.zeros(2, int), np.full(2, "correctness"), np.full(3, "success"), np.ones(2))
