"""Isolation tiers, strongest first, and what this host can give.

full_v2  namespaces, seccomp, cgroup version 2 (memory, pids, cpu)
full_v1  namespaces, seccomp, cgroup version 1 (memory, pids, cpuacct)
userns   namespaces and seccomp without a cgroup: memory by polling, processes by rlimit
rlimit   seccomp and rlimits only: no own file system, no pid namespace
"""

import os
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from dmc_optim.errors import IsolationError


class Tier(StrEnum):
    """How an execution is isolated; written into every result."""

    FULL_V2 = "full-v2"
    FULL_V1 = "full-v1"
    USERNS = "userns"
    RLIMIT = "rlimit"


@dataclass(frozen=True)
class CgroupPlan:
    """Where slots may make their cgroups: version 1 parents by controller, or one version 2 parent."""

    version: int
    parents: dict[str, Path] = field(default_factory=dict)


V1_CONTROLLERS = ("memory", "pids", "cpuacct")


def own_v1_parents(mounts: str, membership: str) -> dict[str, Path]:
    """Directories of this process in the version 1 hierarchies that slots need.

    mounts: text of /proc/self/mounts; membership: text of /proc/self/cgroup.
    """
    roots: dict[str, Path] = {}
    for line in mounts.splitlines():
        _, target, kind, options, *_ = line.split()
        if kind == "cgroup":
            for controller in set(options.split(",")) & set(V1_CONTROLLERS):
                roots[controller] = Path(target)
    parents: dict[str, Path] = {}
    for line in membership.splitlines():
        _, controllers, path = line.split(":", 2)
        for controller in set(controllers.split(",")) & roots.keys():
            directory = roots[controller] / path.lstrip("/")
            parents[controller] = directory if directory.is_dir() else roots[controller]
    return parents


def find_v1() -> tuple[CgroupPlan | None, str]:
    """The version 1 plan, or why there is none."""
    parents = own_v1_parents(Path("/proc/self/mounts").read_text(), Path("/proc/self/cgroup").read_text())
    missing = [controller for controller in V1_CONTROLLERS if controller not in parents]
    if missing:
        return None, f"cgroup v1: controllers not mounted: {', '.join(missing)}"
    for controller, directory in parents.items():
        if not os.access(directory, os.W_OK):
            return None, f"cgroup v1: {directory} ({controller}) is not writable for uid {os.geteuid()}"
    return CgroupPlan(1, parents), ""


@dataclass(frozen=True)
class Plan:
    """The tier that an engine will use, and where its cgroups go."""

    tier: Tier
    parents: dict[str, Path]


def choose(wanted: Tier | str | None) -> Plan:
    """The strongest tier of this host, if it is at least as strong as the one wanted.

    Raises IsolationError naming what is missing, ConfigError for an unknown tier.
    """
    plan, why = find_v1()
    if plan is None:
        raise IsolationError(f"this host cannot isolate fully: {why}")
    return Plan(Tier.FULL_V1, plan.parents)
