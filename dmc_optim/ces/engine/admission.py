"""How many slots a host can hold: one slot is one core and the memory of one execution."""

import os
from pathlib import Path

from dmc_optim.ces.types import Limits
from dmc_optim.errors import ConfigError

_RESERVE_BYTES = 512 << 20  # for the caller, the supervisors and the zygotes


def available_memory(meminfo: str, cgroup_limits: tuple[int, ...] = ()) -> int:
    """Bytes that may be used, from the text of /proc/meminfo and limits of enclosing cgroups."""
    for line in meminfo.splitlines():
        if line.startswith("MemAvailable:"):
            return min(int(line.split()[1]) * 1024, *cgroup_limits) if cgroup_limits else int(line.split()[1]) * 1024
    return 0


def most_slots(cores: int, memory_bytes: int, per_slot: int) -> int:
    """Slots that cores and memory allow, at least 1 when there is memory for one."""
    return min(cores, max(memory_bytes - _RESERVE_BYTES, 0) // per_slot)


def cores_for(slots: int | None) -> list[int]:
    """The core of each slot. Raises ConfigError when the host cannot hold that many."""
    cores = sorted(os.sched_getaffinity(0))
    memory = available_memory(Path("/proc/meminfo").read_text())
    possible = most_slots(len(cores), memory, Limits().memory_bytes)
    if slots is None:
        slots = max(possible, 1)
    if slots < 1:
        raise ConfigError(f"slots must be at least 1, not {slots}")
    if slots > max(possible, 1):
        raise ConfigError(
            f"{slots} slots need {slots} cores and {slots} GiB of memory; this host has {len(cores)} cores and "
            f"{memory / (1 << 30):.1f} GiB available: ask for at most {max(possible, 1)}"
        )
    return cores[:slots]
