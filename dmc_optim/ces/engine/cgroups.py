"""One cgroup a slot: memory and process limits, OOM kills, CPU time of the whole tree; version 1 and version 2.

A slot's processes are put into its cgroup once and stay (moving a process waits for an RCU grace period), so
counters are read before and after a run. Files that are read for every run stay open.
"""

import contextlib
import os
from pathlib import Path
from typing import Protocol

PREFIX = "dmc-optim-"
_LIMIT_STEP = 1 << 20  # a limit that moved less is left as it is


class SlotCgroup(Protocol):
    """Limits and counters of a slot's processes. Sizes in bytes, times in nanoseconds.

    poll_s: how often `over_memory` must be asked during a run; None where the kernel itself enforces the limit.
    """

    poll_s: float | None

    def join(self, pid: int) -> None:
        """Put a process (and all it will fork) into the cgroup."""

    def watch(self, idle: frozenset[int]) -> None:
        """Which processes are no part of a run; the zygote is always among them."""

    def limit_memory(self, limit: int) -> None:
        """Memory of all processes together, on top of what they use now."""

    def limit_processes(self, limit: int) -> None:
        """Processes and threads."""

    def begin(self) -> None:
        """A run begins: what the counters say from now on is its own."""

    def cpu_ns(self) -> int:
        """CPU time since the run began."""

    def oom_kills(self) -> int:
        """Processes killed for memory since the run began."""

    def memory_peak(self) -> int:
        """Highest use since the run began, above what was used when the limit was set."""

    def over_memory(self) -> bool:
        """Whether the run exceeds the limit and must be killed for it (only where poll_s is set)."""

    def processes(self) -> list[int]:
        """Who is in the cgroup now."""

    def remove(self) -> None:
        """Delete the cgroup, which must be empty of processes."""


class _Files:
    """Descriptors of cgroup files, opened once; reads restart at the beginning."""

    def __init__(self) -> None:
        self._open: dict[Path, int] = {}

    def read(self, path: Path) -> bytes:
        fd = self._open.get(path)
        if fd is None:
            fd = self._open[path] = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        return os.pread(fd, 4096, 0)

    def write(self, path: Path, value: int | str) -> None:
        fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.write(fd, str(value).encode())
        finally:
            os.close(fd)

    def close(self) -> None:
        for fd in self._open.values():
            os.close(fd)
        self._open.clear()


def _counter(text: bytes, name: bytes) -> int:
    for line in text.splitlines():
        key, _, value = line.partition(b" ")
        if key == name:
            return int(value)
    return 0


class _Cgroup:
    """What both versions share: counters since the run began, and a limit that is written only when it moves."""

    poll_s: float | None = None

    def __init__(self) -> None:
        self._files = _Files()
        self._oom_seen = self._cpu_seen = self._base = self._limit = self._processes = 0

    def watch(self, idle: frozenset[int]) -> None:
        """Of no interest: counters are read before and after a run."""

    def limit_memory(self, limit: int) -> None:
        """Memory (and swap) of all processes together, on top of what they use now."""
        self._base = self._memory_now()
        wanted = self._base + limit
        if abs(wanted - self._limit) > _LIMIT_STEP:
            self._write_limit(wanted)
            self._limit = wanted

    def limit_processes(self, limit: int) -> None:
        """Processes and threads."""
        if limit != self._processes:
            self._write_processes(limit)
            self._processes = limit

    def begin(self) -> None:
        """A run begins."""
        self._reset_peak()
        self._cpu_seen = self._cpu_total()

    def cpu_ns(self) -> int:
        """CPU time since the run began."""
        return self._cpu_total() - self._cpu_seen

    def oom_kills(self) -> int:
        """Kills since the last time they were asked for."""
        earlier, self._oom_seen = self._oom_seen, self._oom_total()
        return self._oom_seen - earlier

    def memory_peak(self) -> int:
        """Highest use since the run began, above the base."""
        return max(self._peak_total() - self._base, 0)

    def over_memory(self) -> bool:
        """Never: the kernel enforces the limit."""
        return False

    def _memory_now(self) -> int:
        raise NotImplementedError

    def _write_processes(self, limit: int) -> None:
        raise NotImplementedError

    def _write_limit(self, limit: int) -> None:
        raise NotImplementedError

    def _reset_peak(self) -> None:
        raise NotImplementedError

    def _peak_total(self) -> int:
        raise NotImplementedError

    def _oom_total(self) -> int:
        raise NotImplementedError

    def _cpu_total(self) -> int:
        raise NotImplementedError


class CgroupV1(_Cgroup):
    """The slot's directories in the memory, pids and cpuacct hierarchies.

    parents: controller → directory under which `name` is made.
    """

    def __init__(self, parents: dict[str, Path], name: str) -> None:
        super().__init__()
        self._directories = {controller: parent / name for controller, parent in parents.items()}
        for directory in self._directories.values():
            directory.mkdir(exist_ok=True)
        memory = self._directories["memory"]
        self._max, self._memsw = memory / "memory.limit_in_bytes", memory / "memory.memsw.limit_in_bytes"
        self._usage, self._peak = memory / "memory.usage_in_bytes", memory / "memory.max_usage_in_bytes"
        self._oom = memory / "memory.oom_control"
        self._cpu = self._directories["cpuacct"] / "cpuacct.usage"
        self._pids = self._directories["pids"] / "pids.max"
        self._peak_writer = os.open(self._peak, os.O_WRONLY | os.O_CLOEXEC)
        self._oom_seen = self._oom_total()

    def join(self, pid: int) -> None:
        """Put a process into all three hierarchies."""
        for directory in self._directories.values():
            self._files.write(directory / "cgroup.procs", pid)

    def _write_processes(self, limit: int) -> None:
        self._files.write(self._pids, limit)

    def processes(self) -> list[int]:
        """cgroup.procs of the memory hierarchy."""
        return [int(pid) for pid in (self._directories["memory"] / "cgroup.procs").read_text().split()]

    def remove(self) -> None:
        """Delete the three directories."""
        self._files.close()
        with contextlib.suppress(OSError):
            os.close(self._peak_writer)
        for directory in self._directories.values():
            with contextlib.suppress(OSError):
                directory.rmdir()

    def _write_limit(self, limit: int) -> None:
        both = [self._max, self._memsw] if self._memsw.exists() else [self._max]
        # memory + swap may never be below memory, so the order of writes depends on the direction
        if len(both) == 2 and limit > int(self._files.read(self._memsw)):
            both.reverse()
        for path in both:
            self._files.write(path, limit)

    def _memory_now(self) -> int:
        return int(self._files.read(self._usage))

    def _reset_peak(self) -> None:
        os.pwrite(self._peak_writer, b"0", 0)

    def _peak_total(self) -> int:
        return int(self._files.read(self._peak))

    def _oom_total(self) -> int:
        return _counter(self._files.read(self._oom), b"oom_kill")

    def _cpu_total(self) -> int:
        return int(self._files.read(self._cpu))


class CgroupV2(_Cgroup):
    """The slot's directory in a delegated subtree whose memory and pids controllers are enabled."""

    def __init__(self, parent: Path, name: str) -> None:
        super().__init__()
        self._directory = parent / name
        self._directory.mkdir(exist_ok=True)
        try:
            self._peak_fd = os.open(self._directory / "memory.peak", os.O_RDWR | os.O_CLOEXEC)
        except OSError:  # before Linux 6.12 the peak cannot be reset, before 5.19 there is none
            self._peak_fd = -1
        self._oom_seen = self._oom_total()

    def join(self, pid: int) -> None:
        """Put a process into the cgroup."""
        self._files.write(self._directory / "cgroup.procs", pid)

    def _write_processes(self, limit: int) -> None:
        self._files.write(self._directory / "pids.max", limit)

    def processes(self) -> list[int]:
        """cgroup.procs."""
        return [int(pid) for pid in (self._directory / "cgroup.procs").read_text().split()]

    def remove(self) -> None:
        """Delete the directory."""
        self._files.close()
        if self._peak_fd >= 0:
            os.close(self._peak_fd)
        with contextlib.suppress(OSError):
            self._directory.rmdir()

    def _write_limit(self, limit: int) -> None:
        self._files.write(self._directory / "memory.max", limit)
        with contextlib.suppress(OSError):  # no such file where the kernel has no swap accounting
            self._files.write(self._directory / "memory.swap.max", 0)

    def _memory_now(self) -> int:
        return int(self._files.read(self._directory / "memory.current"))

    def _reset_peak(self) -> None:
        if self._peak_fd >= 0:
            os.pwrite(self._peak_fd, b"0", 0)

    def _peak_total(self) -> int:
        if self._peak_fd >= 0:
            return int(os.pread(self._peak_fd, 64, 0))
        return self._memory_now()

    def _oom_total(self) -> int:
        return _counter(self._files.read(self._directory / "memory.events"), b"oom_kill")

    def _cpu_total(self) -> int:
        return _counter(self._files.read(self._directory / "cpu.stat"), b"usage_usec") * 1000
