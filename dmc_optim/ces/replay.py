"""What if the service had been worse? Known noise, and recorded or invented service states, on fixed executions (C.12).

Nothing is executed. `inject_noise` perturbs durations that the sandbox has returned. `replay` sends the executions of
fixed rollouts through a trace of service states, follows the fallback table where the state loses a result, and may
discard rollouts or quarantine windows. Both are functions of their arguments and a seed.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from enum import StrEnum
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dmc_optim.ces.fallback import Policy, decide
from dmc_optim.ces.health.windows import Window
from dmc_optim.errors import ConfigError, InvalidInputError
from schemas.enums import Category, RewardFamily, Status

Array = NDArray[np.float64]
Strings = NDArray[np.str_]
MIN_DURATION_S = 1e-4  # the executor's own floor


@dataclass(frozen=True, eq=False)
class Executions:
    """Executions of fixed rollouts, flat, N rows.

    rollout: (N,) integer. step: (N,) integer, when it was executed (a training step, a window). category: (N,)
    schemas.enums.Category values. status: (N,) schemas.enums.Status values. duration_s: (N,) seconds, NaN unmeasured.
    """

    rollout: NDArray[np.int64]
    step: NDArray[np.int64]
    category: Strings
    status: Strings
    duration_s: Array

    def __post_init__(self) -> None:
        shapes = {field.name: np.shape(getattr(self, field.name)) for field in fields(self)}
        if len(set(shapes.values())) != 1 or len(shapes["rollout"]) != 1:
            raise InvalidInputError(f"executions need vectors of one length, got {shapes}")

    def __len__(self) -> int:
        return len(self.rollout)


@dataclass(frozen=True, slots=True)
class Noise:
    """d′ = d·(1 + ε_mult) + ε_add, ε_mult ~ N(0, multiplicative²), ε_add ~ N(0, additive_s²) + U(low, high).

    uniform_s: (low, high) seconds added to every duration (C.12 suggests 5 to 50 ms). short_boost: how much larger
    ε_add is on short tests, factor 1 + short_boost·exp(−d / short_s).
    """

    multiplicative: float = 0.0
    additive_s: float = 0.0
    uniform_s: tuple[float, float] = (0.0, 0.0)
    short_boost: float = 0.0
    short_s: float = 0.1


def inject_noise(duration_s: Array, noise: Noise, seed: int) -> Array:
    """Perturbed durations, same shape, seconds, never below the executor's floor; NaN stays NaN.

    Raises InvalidInputError for negative scales or an empty uniform range.
    """
    low, high = noise.uniform_s
    if min(noise.multiplicative, noise.additive_s, noise.short_boost) < 0 or noise.short_s <= 0 or high < low:
        raise InvalidInputError(f"noise scales must not be negative and uniform_s must be (low, high): {noise}")
    rng = np.random.default_rng(seed)
    d = np.asarray(duration_s, dtype=np.float64)
    relative = rng.normal(0.0, 1.0, d.shape) * noise.multiplicative
    absolute = rng.normal(0.0, 1.0, d.shape) * noise.additive_s + rng.uniform(low, high, d.shape)
    boost = 1.0 + noise.short_boost * np.exp(-d / noise.short_s)
    return np.maximum(d * (1.0 + relative) + absolute * boost, MIN_DURATION_S)


def with_durations(executions: Executions, duration_s: Array, limit_s: float) -> Executions:
    """The executions with other durations, time-outs decided again (C.12).

    A success at or above limit_s becomes a timeout and a timeout has the limit as its duration. A recorded timeout
    stays one: how long it would have run is not known. Other statuses keep theirs.
    """
    over = (executions.status == Status.SUCCESS.value) & (duration_s >= limit_s)
    status = np.where(over, Status.TIMEOUT.value, executions.status)
    duration = np.where(status == Status.TIMEOUT.value, limit_s, duration_s)
    return Executions(executions.rollout, executions.step, executions.category, status, duration)


@dataclass(frozen=True, slots=True)
class ServiceState:
    """The service during one window.

    slope, offset_s: every duration d becomes slope·d + offset_s. noise_cv: relative noise on top. tail_share,
    tail_factor: so many executions take so many times longer. lost: share of results that stay inconclusive after all
    retries.
    """

    slope: float = 1.0
    offset_s: float = 0.0
    noise_cv: float = 0.0
    tail_share: float = 0.0
    tail_factor: float = 1.0
    lost: float = 0.0


HEALTHY = ServiceState()


class Handling(StrEnum):
    """What is done about lost results (paper C.6)."""

    FALLBACK = "fallback"  # the decision table, with a local run that gives the recorded verdict
    UNKNOWN = "unknown"  # no fallback: the pair stays without a verdict
    DISCARD = "discard"  # every rollout with a lost result is left out
    SKIP = "skip"  # the lost pair is left out, the rest of the rollout is scored


@dataclass(frozen=True, eq=False)
class Replayed:
    """The executions under the trace.

    known: (N,) whether the pair has a verdict. lost: (N,) whether its result was lost. kept: (N,) whether the pair
    enters a score: a rollout is left out as a whole, except under Handling.SKIP. service_only_by_step: step → share of
    pairs that the service resolved.
    """

    executions: Executions
    known: NDArray[np.bool_]
    lost: NDArray[np.bool_]
    kept: NDArray[np.bool_]
    service_only_by_step: dict[int, float]

    @property
    def kept_rollouts(self) -> NDArray[np.int64]:
        """Rollouts that are scored, ascending."""
        return np.unique(self.executions.rollout[self.kept])


def replay(
    executions: Executions,
    trace: Sequence[ServiceState],
    seed: int,
    handling: Handling = Handling.FALLBACK,
    policy: Policy | None = None,
    quarantine_below: float | None = None,
) -> Replayed:
    """Run fixed rollouts through a trace of service states.

    trace: state of each step in ascending order of the steps that occur; a shorter trace repeats its last state. The
    local run of `FALLBACK` is taken to give the recorded verdict. quarantine_below: steps whose service-only share
    falls under it are left out whole (C.6). Raises InvalidInputError for an empty trace or shares outside [0, 1].
    """
    policy = policy or Policy()
    states = _by_step(executions.step, trace)
    rng = np.random.default_rng(seed)
    duration = _durations(executions, states, rng)
    lost = rng.random(len(executions)) < states["lost"]
    result = _resolve_lost(with_durations(executions, duration, policy.limit_s), executions, lost, handling, policy)
    known = np.array([Status(status).outcome is not None for status in result.status], dtype=bool)
    kept = known.copy() if handling is Handling.SKIP else _whole_rollouts(executions.rollout, known)
    if handling is Handling.DISCARD:
        kept &= _whole_rollouts(executions.rollout, ~lost)
    share = {int(step): float(1 - lost[executions.step == step].mean()) for step in np.unique(executions.step)}
    if quarantine_below is not None:
        good = np.array([share[int(step)] >= quarantine_below for step in executions.step], dtype=bool)
        kept &= _whole_rollouts(executions.rollout, good)
    return Replayed(result, known, lost, kept, share)


def _durations(executions: Executions, states: dict[str, Array], rng: np.random.Generator) -> Array:
    n = len(executions)
    noise = 1.0 + states["noise_cv"] * rng.normal(0.0, 1.0, n)
    straggling = np.where(rng.random(n) < states["tail_share"], states["tail_factor"], 1.0)
    d = (states["slope"] * executions.duration_s + states["offset_s"]) * noise * straggling
    return np.maximum(d, MIN_DURATION_S)


def _resolve_lost(
    measured: Executions, recorded: Executions, lost: NDArray[np.bool_], handling: Handling, policy: Policy
) -> Executions:
    """Verdict and duration of lost pairs by the decision table; the reward family does not enter them."""
    status, duration = measured.status.astype(object), measured.duration_s.copy()
    recovers = handling is Handling.FALLBACK and policy.fallback
    table = Policy(policy.attempts, recovers, policy.limit_s)
    for i in np.flatnonzero(lost):
        decision = decide(
            Category(recorded.category[i]),
            None,
            None,
            policy.attempts,
            Status(recorded.status[i]) if recovers else None,
            RewardFamily.COLLAPSED,
            table,
        )
        status[i] = (decision.verdict or Status.INFRASTRUCTURE).value
        duration[i] = np.nan if decision.duration_s is None else decision.duration_s
    return Executions(measured.rollout, measured.step, measured.category, status.astype(str), duration)


def _by_step(step: NDArray[np.int64], trace: Sequence[ServiceState]) -> dict[str, Array]:
    """Name of each state field → its (N,) values."""
    if not trace:
        raise InvalidInputError("a service trace needs at least one state")
    for state in trace:
        if not (0 <= state.lost <= 1 and 0 <= state.tail_share <= 1 and state.noise_cv >= 0 and state.slope > 0):
            raise InvalidInputError(f"not a service state: {state}")
    position = np.minimum(np.unique(step, return_inverse=True)[1], len(trace) - 1)
    return {f.name: np.array([getattr(s, f.name) for s in trace])[position] for f in fields(ServiceState)}


def _whole_rollouts(rollout: NDArray[np.int64], good: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """(N,) True where no row of the same rollout is bad."""
    return np.asarray(~np.isin(rollout, rollout[~good]))


def trace_from_windows(windows: Sequence[Window]) -> list[ServiceState]:
    """A recorded series of health windows as a trace: what was not resolved by the service alone was lost.

    An empty window repeats the state before it.
    """
    trace: list[ServiceState] = []
    for window in windows:
        if window.n:
            trace.append(ServiceState(lost=1.0 - window.service_only / window.n))
        else:
            trace.append(trace[-1] if trace else HEALTHY)
    return trace


def burst_trace(
    steps: int, start: int, length: int, worst_lost: float, background_lost: float = 0.0
) -> list[ServiceState]:
    """A synthetic burst in the shape of Figure 28: down within a quarter of its length, back by its end, linearly.

    worst_lost: share lost at the worst step (paper's worst: 0.457). Raises InvalidInputError when it does not fit.
    """
    if start < 0 or length <= 0 or start + length > steps or not 0 <= background_lost <= worst_lost <= 1:
        raise InvalidInputError("a burst must lie inside the trace, with 0 ≤ background ≤ worst ≤ 1")
    bottom = max(1.0, length / 4)
    phase = np.arange(1, length + 1)
    depth = np.where(phase <= bottom, phase / bottom, (length + 1 - phase) / (length + 1 - bottom))
    lost = np.full(steps, background_lost)
    lost[start : start + length] = background_lost + (worst_lost - background_lost) * np.clip(depth, 0, 1)
    return [ServiceState(lost=float(share)) for share in lost]


def slowdown_trace(steps: int, start: int, state: ServiceState) -> list[ServiceState]:
    """A silent degradation: healthy until `start`, then `state` (verdicts keep coming, durations shift; Table 30)."""
    return [HEALTHY if step < start else state for step in range(steps)]


def write_trace(path: Path, trace: Sequence[ServiceState]) -> None:
    """One JSON object a line."""
    path.write_text("".join(json.dumps(asdict(state)) + "\n" for state in trace), encoding="utf-8")


def read_trace(path: Path) -> list[ServiceState]:
    """The reverse. Raises ConfigError with file and line."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: service trace not readable ({error})") from error
    trace = []
    for number, line in enumerate(lines, start=1):
        if line.strip():
            try:
                trace.append(ServiceState(**json.loads(line)))
            except (ValueError, TypeError) as error:
                raise ConfigError(f"{path}:{number}: not a service state ({error})") from error
    return trace
