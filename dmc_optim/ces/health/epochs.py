"""Service-state epochs: when a new one begins (paper C.11, C.12).

Durations measured in one epoch are comparable; between epochs they need a calibration. Everything that
decides is `observe`, a pure function of state and reading; `state.EpochFile` keeps the state on disk.
"""

from dataclasses import asdict, dataclass, replace
from typing import Any

from dmc_optim.ces.health.sentinel import SuiteReading
from dmc_optim.ces.health.shifts import Rule, ShiftReport, detect
from dmc_optim.ces.health.state import EpochChange, EpochState
from dmc_optim.errors import InvalidInputError

MAX_BASELINE = 20  # readings; then the baseline is frozen, so that a slow drift cannot become its own baseline


@dataclass(frozen=True)
class Observation:
    """What one reading did. verdict: learning · steady · suspect · new_epoch · incomplete."""

    state: EpochState
    verdict: str
    report: ShiftReport | None = None


def observe(
    state: EpochState, reading: SuiteReading, suite: str, now: str, rule: Rule | None = None, confirmations: int = 2
) -> Observation:
    """Take one reading into account.

    The first readings of an epoch are its baseline. A shifted reading is kept aside; `confirmations` of them in a row
    open the next epoch, with themselves as its first baseline, and a steady reading in between forgets them. Another
    suite or another identity (engine, interpreter, tier) opens an epoch at once: a sandbox upgrade asks for a new
    calibration (C.11). An incomplete reading changes nothing. now: ISO time. Pure.
    """
    rule = rule or Rule()
    if confirmations < 1:
        raise InvalidInputError(f"at least 1 reading must confirm a shift, got {confirmations}")
    state = replace(state, last_probe_at=now)
    if not reading.complete:
        return Observation(state, "incomplete")
    timings = dict(reading.timings)
    for reason, old, new in (("suite", state.suite, suite), ("identity", state.identity, reading.identity)):
        if old and old != new:
            opened = _open(state, now, reason, f"{old} → {new}", (timings,))
            return Observation(replace(opened, suite=suite, identity=reading.identity), "new_epoch")
    if not state.history:
        first = EpochChange(state.epoch, now, "first")
        state = replace(state, suite=suite, identity=reading.identity, history=(first,))
    report = detect(state.baseline, timings, rule)
    if report is not None and report.shifted:
        return _suspect(state, timings, report, now, confirmations)
    baseline = state.baseline if len(state.baseline) >= MAX_BASELINE else (*state.baseline, timings)
    verdict = "learning" if len(baseline) < rule.min_readings else "steady"
    return Observation(replace(state, baseline=baseline, suspect=(), last_shift=_plain(report)), verdict, report)


def epoch_gauges(state: EpochState) -> dict[str, float]:
    """Gauge name → value for a metrics endpoint: the epoch, and the last reading's statistics where there are some."""
    gauges = {
        "epoch": float(state.epoch),
        "sentinel_baseline_readings": float(len(state.baseline)),
        "sentinel_suspect_readings": float(len(state.suspect)),
    }
    for name, move in state.last_shift.items():
        gauges[f"sentinel_{name}"] = float(move["value"])
    return gauges


def _open(
    state: EpochState, now: str, reason: str, detail: str, baseline: tuple[dict[str, list[float]], ...]
) -> EpochState:
    change = EpochChange(state.epoch + 1, now, reason, detail)
    return replace(state, epoch=change.epoch, baseline=baseline, suspect=(), history=(*state.history, change))


def _suspect(
    state: EpochState, timings: dict[str, list[float]], report: ShiftReport, now: str, confirmations: int
) -> Observation:
    suspect = (*state.suspect, timings)
    state = replace(state, last_shift=_plain(report))
    if len(suspect) < confirmations:
        return Observation(replace(state, suspect=suspect), "suspect", report)
    moves = {name: getattr(report, name) for name in report.shifted}
    detail = ", ".join(f"{name} {move.expected:.4g} → {move.value:.4g}" for name, move in moves.items())
    return Observation(_open(state, now, "+".join(moves), detail, suspect), "new_epoch", report)


def _plain(report: ShiftReport | None) -> dict[str, Any]:
    return {} if report is None else asdict(report)
