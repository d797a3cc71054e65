"""Time the hypervisor took from a core, from /proc/stat. Read at most every 50 ms: the file is slow to produce."""

import os
import time

_STALE_S = 0.050
_STEAL_FIELD = 8


class StealMeter:
    """Steal of one core, in seconds, around runs."""

    def __init__(self, core: int | None) -> None:
        self._line = f"cpu{core}".encode() if core is not None else b"cpu"
        self._tick_s = 1.0 / os.sysconf("SC_CLK_TCK")
        self._fd = os.open("/proc/stat", os.O_RDONLY | os.O_CLOEXEC)
        self._value = self._read()
        self._read_at = time.monotonic()

    def before(self) -> None:
        """Call before a run."""
        if time.monotonic() - self._read_at > _STALE_S:
            self._refresh()

    def after(self, wall_s: float) -> float | None:
        """Steal since the last reading; None for a run too short to tell."""
        if wall_s < _STALE_S:
            return None
        earlier = self._value
        self._refresh()
        return max(self._value - earlier, 0.0)

    def _refresh(self) -> None:
        self._value = self._read()
        self._read_at = time.monotonic()

    def _read(self) -> float:
        text = os.pread(self._fd, 1 << 14, 0)
        for line in text.splitlines():
            fields = line.split()
            if fields and fields[0] == self._line:
                return int(fields[_STEAL_FIELD]) * self._tick_s
        return 0.0
