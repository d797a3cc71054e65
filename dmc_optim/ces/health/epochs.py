"""Service-state epochs: the stored baseline, and when a new epoch begins (paper C.11, C.12).

Durations measured in one epoch are comparable; between epochs they need a calibration. The state is one JSON file that
a probe reads, extends and replaces; everything that decides is `observe`, a pure function of state and reading.
"""

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from dmc_optim.ces.health.sentinel import SuiteReading
from dmc_optim.ces.health.shifts import Rule, ShiftReport, detect
from dmc_optim.errors import ArtifactError, InvalidInputError

STATE_VERSION = 1
MAX_BASELINE = 20  # readings; then the baseline is frozen, so that a slow drift cannot become its own baseline


@dataclass(frozen=True)
class EpochChange:
    """An epoch that began. reason: first · suite · identity · slope · offset_s · tail (several joined by +)."""

    epoch: int
    opened_at: str
    reason: str
    detail: str = ""


@dataclass(frozen=True)
class EpochState:
    """Everything remembered about one service.

    baseline: readings of the present epoch (snippet → seconds). suspect: the readings that looked shifted and await
    confirmation. suite, identity: digest of the sentinels and what ran them.
    """

    epoch: int = 0
    suite: str = ""
    identity: str = ""
    baseline: tuple[dict[str, list[float]], ...] = ()
    suspect: tuple[dict[str, list[float]], ...] = ()
    history: tuple[EpochChange, ...] = ()
    last_probe_at: str = ""
    last_shift: dict[str, Any] = field(default_factory=dict)


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


class EpochFile:
    """The state of one service in one JSON file. A missing file is epoch 0 without a baseline."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self) -> EpochState:
        """Raises ArtifactError for a file that is not such a state."""
        try:
            data = json.loads(self.path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return EpochState()
        except (OSError, ValueError) as error:
            raise ArtifactError(f"{self.path}: not readable as service state ({error}); move it away") from error
        try:
            return _state_from(data)
        except (KeyError, TypeError, ValueError) as error:
            raise ArtifactError(f"{self.path}: not a service-state file ({error}); move it away") from error

    def update(self, change: Callable[[EpochState], Observation]) -> Observation:
        """Read, change and replace under a lock, so that two probes cannot lose each other's reading."""
        import fcntl

        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            lock = self.path.with_suffix(".lock").open("w")
        except OSError as error:
            raise ArtifactError(f"{self.path}: cannot be written ({error.strerror}); choose another --state") from error
        with lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            observation = change(self.read())
            self._write(observation.state)
        return observation

    def _write(self, state: EpochState) -> None:
        temporary = self.path.with_suffix(f".{os.getpid()}.tmp")
        text = json.dumps({"version": STATE_VERSION, **asdict(state)}, indent=1)
        temporary.write_text(text + "\n", encoding="utf-8")
        temporary.replace(self.path)


def current_epoch(path: Path | None = None, env: Mapping[str, str] | None = None) -> int:
    """The epoch that results measured now belong to; 0 before any probe. path: default_state_path() when None."""
    return EpochFile(path or default_state_path("embedded", env)).read().epoch


def default_state_path(service: str, env: Mapping[str, str] | None = None) -> Path:
    """Where the state of a service is kept: below $DMC_OPTIM_STATE, else the XDG state directory.

    service: `embedded` or a URL; its punctuation becomes dashes.
    """
    env = os.environ if env is None else env
    home = Path(env.get("XDG_STATE_HOME") or Path(env.get("HOME") or "/var/lib") / ".local" / "state")
    folder = Path(env["DMC_OPTIM_STATE"]) if env.get("DMC_OPTIM_STATE") else home / "dmc-optim"
    name = "-".join(part for part in "".join(c if c.isalnum() or c == "." else " " for c in service).split())
    return folder / f"ces-{name}.json"


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


def _state_from(data: dict[str, Any]) -> EpochState:
    version = data.pop("version")
    if version != STATE_VERSION:
        raise ValueError(f"version {version}, this program reads {STATE_VERSION}")
    data["history"] = tuple(EpochChange(**change) for change in data["history"])
    data["baseline"], data["suspect"] = tuple(data["baseline"]), tuple(data["suspect"])
    return EpochState(**data)
