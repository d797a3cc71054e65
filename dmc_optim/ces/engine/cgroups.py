"""One cgroup a slot: memory and process limits, OOM kills, CPU time of the whole tree; version 1 and version 2.

A slot's processes are put into its cgroup once and stay (moving a process waits for an RCU grace period), so
counters are read before and after a run. Files that are read for every run stay open.
"""

import contextlib
import os
from pathlib import Path
from typing import Protocol

PREFIX = "dmc-optim-"


class SlotCgroup(Protocol):
    """What a supervisor needs of the cgroup of its slot. Sizes in bytes, times in nanoseconds."""

    def join(self, pid: int) -> None:
        """Put a process (and all it will fork) into the cgroup."""

    def limit_memory(self, limit: int) -> None: ...

    def limit_processes(self, limit: int) -> None: ...

    def memory_now(self) -> int: ...

    def reset_peak(self) -> None: ...

    def memory_peak(self) -> int:
        """Highest use since reset_peak."""

    def oom_kills(self) -> int:
        """Processes killed for memory since the cgroup was made."""

    def cpu_ns(self) -> int:
        """CPU time of everything that ever ran in the cgroup."""

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


class CgroupV1:
    """The slot's directories in the memory, pids and cpuacct hierarchies.

    parents: controller → directory under which `name` is made. Missing files of optional controllers are errors
    at construction, not at the first run.
    """

    def __init__(self, parents: dict[str, Path], name: str) -> None:
        self._directories = {controller: parent / name for controller, parent in parents.items()}
        for directory in self._directories.values():
            directory.mkdir(exist_ok=True)
        memory = self._directories["memory"]
        self._limit, self._memsw = memory / "memory.limit_in_bytes", memory / "memory.memsw.limit_in_bytes"
        self._usage, self._peak = memory / "memory.usage_in_bytes", memory / "memory.max_usage_in_bytes"
        self._oom = memory / "memory.oom_control"
        self._cpu = self._directories["cpuacct"] / "cpuacct.usage"
        self._pids = self._directories["pids"] / "pids.max"
        self._files = _Files()
        self._peak_writer = os.open(self._peak, os.O_WRONLY | os.O_CLOEXEC)

    def join(self, pid: int) -> None:
        """Put a process into all three hierarchies."""
        for directory in self._directories.values():
            self._files.write(directory / "cgroup.procs", pid)

    def limit_memory(self, limit: int) -> None:
        """Memory, and memory + swap where swap is counted."""
        both = [self._limit, self._memsw] if self._memsw.exists() else [self._limit]
        # the sum may never be below the part, so the order of writes depends on the direction
        if len(both) == 2 and limit > int(self._files.read(self._memsw)):
            both.reverse()
        for path in both:
            self._files.write(path, limit)

    def limit_processes(self, limit: int) -> None:
        """Processes and threads."""
        self._files.write(self._pids, limit)

    def memory_now(self) -> int:
        """Bytes charged now."""
        return int(self._files.read(self._usage))

    def reset_peak(self) -> None:
        """The peak becomes the present use."""
        os.pwrite(self._peak_writer, b"0", 0)

    def memory_peak(self) -> int:
        """Highest use since reset_peak."""
        return int(self._files.read(self._peak))

    def oom_kills(self) -> int:
        """Counter `oom_kill`."""
        return _counter(self._files.read(self._oom), b"oom_kill")

    def cpu_ns(self) -> int:
        """cpuacct.usage."""
        return int(self._files.read(self._cpu))

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


class CgroupV2:
    """The slot's directory in a delegated subtree whose memory, pids and cpu controllers are enabled."""

    def __init__(self, parent: Path, name: str) -> None:
        self._directory = parent / name
        self._directory.mkdir(exist_ok=True)
        self._files = _Files()
        self._peak = self._directory / "memory.peak"
        try:
            self._peak_fd = os.open(self._peak, os.O_RDWR | os.O_CLOEXEC)
        except OSError:  # before Linux 6.12 the peak cannot be reset, before 5.19 there is none
            self._peak_fd = -1
        self._files.read(self._directory / "memory.current")

    def join(self, pid: int) -> None:
        """Put a process into the cgroup."""
        self._files.write(self._directory / "cgroup.procs", pid)

    def limit_memory(self, limit: int) -> None:
        """Memory, without swap."""
        self._files.write(self._directory / "memory.max", limit)
        with contextlib.suppress(FileNotFoundError):
            self._files.write(self._directory / "memory.swap.max", 0)

    def limit_processes(self, limit: int) -> None:
        """Processes and threads."""
        self._files.write(self._directory / "pids.max", limit)

    def memory_now(self) -> int:
        """Bytes charged now."""
        return int(self._files.read(self._directory / "memory.current"))

    def reset_peak(self) -> None:
        """The peak of this descriptor becomes the present use, where the kernel can do it."""
        if self._peak_fd >= 0:
            os.pwrite(self._peak_fd, b"0", 0)

    def memory_peak(self) -> int:
        """Highest use since reset_peak; the present use where the kernel keeps no resettable peak."""
        if self._peak_fd >= 0:
            return int(os.pread(self._peak_fd, 64, 0))
        return self.memory_now()

    def oom_kills(self) -> int:
        """Counter `oom_kill` of memory.events."""
        return _counter(self._files.read(self._directory / "memory.events"), b"oom_kill")

    def cpu_ns(self) -> int:
        """usage_usec of cpu.stat."""
        return _counter(self._files.read(self._directory / "cpu.stat"), b"usage_usec") * 1000

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
