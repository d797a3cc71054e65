"""The stored state of a service's speed: its epoch, its sentinel baseline, its history, in one JSON file.

Light to import: an engine reads its epoch from here when it starts.
"""

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeVar

from dmc_optim.errors import ArtifactError

STATE_VERSION = 1


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


class _Stateful(Protocol):
    @property
    def state(self) -> EpochState: ...


Changed = TypeVar("Changed", bound=_Stateful)


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

    def update(self, change: Callable[[EpochState], Changed]) -> Changed:
        """Read, change, replace by the result's `state`, under a lock: two probes cannot lose each other's reading."""
        import fcntl

        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            lock = self.path.with_suffix(".lock").open("w")
        except OSError as error:
            raise ArtifactError(f"{self.path}: cannot be written ({error.strerror}); choose another --state") from error
        with lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            changed = change(self.read())
            self._write(changed.state)
        return changed

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


def _state_from(data: dict[str, Any]) -> EpochState:
    version = data.pop("version")
    if version != STATE_VERSION:
        raise ValueError(f"version {version}, this program reads {STATE_VERSION}")
    data["history"] = tuple(EpochChange(**change) for change in data["history"])
    data["baseline"], data["suspect"] = tuple(data["baseline"]), tuple(data["suspect"])
    return EpochState(**data)
