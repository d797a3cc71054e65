"""Accounting without a cgroup: the processes below the zygote, read from /proc.

Weaker than a cgroup: memory is polled (a program can overshoot between two looks; what it puts in files of its
scratch directory and what the kernel holds for it are not seen), and CPU time of a process that nobody waited for is
lost.
"""

import os
from contextlib import suppress
from pathlib import Path

from dmc_optim.ces.engine.procfs import descendants

POLL_S = 0.010
_PAGE = os.sysconf("SC_PAGE_SIZE")
_TICK_NS = 1_000_000_000 // os.sysconf("SC_CLK_TCK")


class ProcessTable:
    """Implements SlotCgroup by looking."""

    poll_s: float | None = POLL_S

    def __init__(self) -> None:
        self._idle = frozenset[int]()
        self._limit = 1 << 62
        self._peak = 0
        self._breach = False

    def join(self, pid: int) -> None:
        """Nothing to join: what descends from this process is the slot."""

    def watch(self, idle: frozenset[int]) -> None:
        """Which processes are no part of a run."""
        self._idle = idle

    def limit_memory(self, limit: int) -> None:
        """Resident bytes of all processes of a run together."""
        self._limit = limit

    def limit_processes(self, limit: int) -> None:
        """An rlimit does this."""

    def begin(self) -> None:
        """Forget the peak and a breach."""
        self._peak, self._breach = 0, False

    def memory_peak(self) -> int:
        """Highest use seen since the run began."""
        return self._peak

    def over_memory(self) -> bool:
        """Look now; whether the limit is or was exceeded.

        Pages that processes share are taken apart, which is slow, only where the tree exceeds the limit with them.
        """
        resident, own = {}, 0
        for pid in self._of_run():
            with suppress(OSError, IndexError, ValueError):
                fields = Path(f"/proc/{pid}/statm").read_text().split()
                resident[pid] = int(fields[1]) * _PAGE
                own += (int(fields[1]) - int(fields[2])) * _PAGE
        total = own
        if sum(resident.values()) > self._limit:
            total = sum(_proportional(pid, all_of_it) for pid, all_of_it in resident.items())
        self._peak = max(self._peak, total)
        self._breach = self._breach or total > self._limit
        return self._breach

    def oom_kills(self) -> int:
        """1 after a breach."""
        return int(self._breach)

    def cpu_ns(self) -> int:
        """CPU time of the run's living processes and of the dead that they waited for."""
        total = 0
        for pid in self._of_run():
            with suppress(OSError, IndexError, ValueError):
                total += int(Path(f"/proc/{pid}/schedstat").read_text().split()[0])
                fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
                total += (int(fields[13]) + int(fields[14])) * _TICK_NS
        return total

    def processes(self) -> list[int]:
        """Everything below this process."""
        return descendants(os.getpid())

    def remove(self) -> None:
        """Nothing to remove."""

    def _of_run(self) -> list[int]:
        return [pid for pid in self.processes() if pid not in self._idle]


def _proportional(pid: int, resident: int) -> int:
    """Bytes of a process without its files, shared pages divided among those that map them; all if it hides them."""
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except ProcessLookupError:
        return 0
    except OSError:
        return resident if Path(f"/proc/{pid}").exists() else 0
    fields = dict(line.split(":", 1) for line in text.splitlines()[1:])
    return sum(int(fields[name].split()[0]) for name in ("Pss_Anon", "Pss_Shmem")) << 10
