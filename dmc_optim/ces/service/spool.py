"""The directory where a node puts what does not fit its memory, and takes away what a killed node left."""

import fcntl
import os
import shutil
import tempfile
from pathlib import Path

from dmc_optim.errors import ConfigError

_PREFIX = "dmc-optim-ces-"


class SpoolDir:
    """A private directory, locked while its node lives; directories whose node is gone are removed at start.

    parent: where to make it; None is the system's temporary directory. Raises ConfigError when it cannot.
    """

    def __init__(self, parent: Path | None = None) -> None:
        root = parent if parent is not None else Path(tempfile.gettempdir())
        try:
            root.mkdir(parents=True, exist_ok=True)
            _remove_abandoned(root)
            self.path = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=root))
            self._lock = _try_lock(self.path)
        except OSError as error:
            raise ConfigError(f"cannot use {root} as the spool directory ({error.strerror}); name another") from error

    def close(self) -> None:
        """Remove the directory and all in it."""
        shutil.rmtree(self.path, ignore_errors=True)
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def _try_lock(directory: Path) -> int | None:
    """An open descriptor that holds the directory's lock; None while another process holds it."""
    descriptor = os.open(directory / "lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return descriptor


def _remove_abandoned(root: Path) -> None:
    for directory in root.glob(_PREFIX + "*"):
        if not (directory / "lock").is_file():  # just being made, or not ours
            continue
        try:
            lock = _try_lock(directory)
        except OSError:
            continue
        if lock is not None:
            shutil.rmtree(directory, ignore_errors=True)
            os.close(lock)
