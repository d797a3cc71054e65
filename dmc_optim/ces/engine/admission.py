"""How many slots a host can hold: one slot is one core and the memory of one execution."""

import os
import socket
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from dmc_optim.ces.engine.cgroup_parents import own_v1_directories, own_v2_directory
from dmc_optim.ces.types import Limits
from dmc_optim.errors import ConfigError

_RESERVE_BYTES = 512 << 20  # for the caller, the supervisors and the zygotes


def available_memory(meminfo: str, headrooms: Iterable[int] = ()) -> int:
    """Bytes that may be used, from the text of /proc/meminfo and the headroom of enclosing cgroups."""
    available = next((int(line.split()[1]) for line in meminfo.splitlines() if line.startswith("MemAvailable:")), 0)
    return min([available * 1024, *headrooms])


def headrooms(directory: Path, names: tuple[str, str], top: Path) -> list[int]:
    """Limit minus use of a cgroup and of those around it, up to `top`; names: files with limit and use."""
    found = []
    while directory.is_relative_to(top):
        with suppress(OSError, ValueError):  # no file at the top, `max` where there is no limit
            found.append(int((directory / names[0]).read_text()) - int((directory / names[1]).read_text()))
        directory = directory.parent
    return found


def most_slots(cores: int, memory_bytes: int, per_slot: int) -> int:
    """Slots that cores and memory allow."""
    return min(cores, max(memory_bytes - _RESERVE_BYTES, 0) // per_slot)


def possible_slots() -> int:
    """Slots that this host can hold now; 1 even where memory is short, because limits are not reservations."""
    return max(most_slots(len(os.sched_getaffinity(0)), _memory(), Limits().memory_bytes), 1)


def slots_for(wanted: int | None) -> int:
    """How many slots to make. Raises ConfigError when the host cannot hold as many as wanted."""
    possible = possible_slots()
    count = possible if wanted is None else wanted
    if count < 1:
        raise ConfigError(f"slots must be at least 1, not {count}")
    if count > possible:
        cores, memory = len(os.sched_getaffinity(0)), _memory() / (1 << 30)
        raise ConfigError(
            f"{count} slots need {count} cores and {count} GiB of memory; this host has {cores} cores and "
            f"{memory:.1f} GiB available: ask for at most {possible}"
        )
    return count


def _memory() -> int:
    mounts, membership = Path("/proc/self/mounts").read_text(), Path("/proc/self/cgroup").read_text()
    rooms: list[int] = []
    v1 = own_v1_directories(mounts, membership).get("memory")
    if v1 is not None:
        rooms += headrooms(v1, ("memory.limit_in_bytes", "memory.usage_in_bytes"), Path("/sys/fs/cgroup"))
    v2 = own_v2_directory(mounts, membership)
    if v2 is not None:
        rooms += headrooms(v2, ("memory.max", "memory.current"), Path("/sys/fs/cgroup"))
    return available_memory(Path("/proc/meminfo").read_text(), rooms)


class CoreLease:
    """Cores for the slots of one engine, preferring those that no other engine of this host holds.

    A core is held by an abstract socket of its name, which the kernel frees with this process. Where every core
    is held, cores are shared, and `shared` names them.
    """

    def __init__(self, count: int, cores: Iterable[int]) -> None:
        self._held: dict[int, socket.socket] = {}
        candidates = sorted(cores)
        self.cores: list[int] = []
        for core in candidates:
            if len(self.cores) < count and self._take(core):
                self.cores.append(core)
        others = [core for core in candidates if core not in self.cores]
        self.shared = frozenset(others[: count - len(self.cores)])
        self.cores += sorted(self.shared)

    def _take(self, core: int) -> bool:
        holder = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            holder.bind(f"\0dmc-optim-core-{core}")
        except OSError:
            holder.close()
            return False
        self._held[core] = holder
        return True

    def release(self) -> None:
        """Give the cores back."""
        for holder in self._held.values():
            holder.close()
        self._held.clear()
