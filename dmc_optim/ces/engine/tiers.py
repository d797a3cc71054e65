"""Isolation tiers, strongest first, and what this host can give.

full-v2  namespaces, seccomp, cgroup version 2 (memory, pids; CPU time of the tree)
full-v1  namespaces, seccomp, cgroup version 1 (memory, pids, cpuacct)
userns   namespaces and seccomp without a cgroup: memory by polling, processes by rlimit
rlimit   seccomp and rlimits only: no file system, process or network namespace of its own
"""

import os
import platform
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from dmc_optim.ces.engine.cgroup_parents import CgroupPlan, find_v1, find_v2
from dmc_optim.errors import ConfigError, IsolationError

ENVIRONMENT = "DMC_OPTIM_CES_TIER"
FULL, ANY = "full", "any"
_CAP_SYS_ADMIN, _CAP_SETUID = 21, 7
_ARCHITECTURES = ("x86_64", "aarch64")


class Tier(StrEnum):
    """How an execution is isolated; written into every result."""

    FULL_V2 = "full-v2"
    FULL_V1 = "full-v1"
    USERNS = "userns"
    RLIMIT = "rlimit"

    @property
    def namespaces(self) -> bool:
        """Whether programs have a root directory, processes and a network of their own."""
        return self is not Tier.RLIMIT

    @property
    def limits_by_cgroup(self) -> bool:
        """Whether the kernel limits the memory of a program's whole tree."""
        return self in (Tier.FULL_V2, Tier.FULL_V1)


@dataclass(frozen=True)
class HostFacts:
    """What decides about tiers, read once. v1 and v2: where cgroups can be made, or why they cannot.

    mapped: this process may map several ids into a user namespace, so that programs get an id of their own.
    userns: this process may make a user namespace.
    """

    euid: int
    mapped: bool
    userns: bool
    machine: str
    v1: CgroupPlan | str
    v2: CgroupPlan | str


@dataclass(frozen=True)
class TierReport:
    """Whether one tier is possible; if not, what is missing and what to change."""

    tier: Tier
    possible: bool
    missing: tuple[str, ...] = ()
    advice: tuple[str, ...] = ()


@dataclass(frozen=True)
class Plan:
    """The tier an engine will use: where its cgroups go, and whether ids are mapped by root."""

    tier: Tier
    mapped: bool
    cgroups: CgroupPlan = field(default_factory=CgroupPlan)


def read_facts(environment: Mapping[str, str] = os.environ) -> HostFacts:
    """Facts of this host and process. Prepares a delegated version 2 subtree if there is one."""
    status = Path("/proc/self/status").read_text()
    effective = next((int(line.split()[1], 16) for line in status.splitlines() if line.startswith("CapEff:")), 0)
    mapped = bool(effective >> _CAP_SYS_ADMIN & 1 and effective >> _CAP_SETUID & 1)
    return HostFacts(
        os.geteuid(), mapped, mapped or _userns_allowed(), platform.machine(), find_v1(), find_v2(environment)
    )


def _userns_allowed() -> bool:
    def number(path: str, default: int) -> int:
        try:
            return int(Path(path).read_text())
        except (OSError, ValueError):
            return default

    return (
        number("/proc/sys/user/max_user_namespaces", 0) > 0
        and number("/proc/sys/kernel/unprivileged_userns_clone", 1) > 0
        and number("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", 0) == 0
    )


def assess(facts: HostFacts) -> list[TierReport]:
    """Every tier, strongest first. Pure: what the facts say; only starting an engine proves it."""
    common: list[tuple[str, str]] = []
    if facts.machine not in _ARCHITECTURES:
        common.append((f"no seccomp filter for {facts.machine}", f"use one of {', '.join(_ARCHITECTURES)}"))
    spaces = list(common)
    if not facts.userns:
        spaces.append(
            (
                "user namespaces are switched off for this user",
                "run as root (or in a container with CAP_SYS_ADMIN), or set user.max_user_namespaces > 0, "
                "kernel.unprivileged_userns_clone = 1, kernel.apparmor_restrict_unprivileged_userns = 0",
            )
        )
    needs: dict[Tier, list[tuple[str, str]]] = {
        Tier.FULL_V2: spaces + ([] if isinstance(facts.v2, CgroupPlan) else [(facts.v2, _V2_ADVICE)]),
        Tier.FULL_V1: spaces + ([] if isinstance(facts.v1, CgroupPlan) else [(facts.v1, _V1_ADVICE)]),
        Tier.USERNS: spaces,
        Tier.RLIMIT: common,
    }
    return [
        TierReport(tier, not lacks, tuple(what for what, _ in lacks), tuple(change for _, change in lacks))
        for tier, lacks in needs.items()
    ]


_V2_ADVICE = (
    "delegate a cgroup v2 subtree with the memory and pids controllers (`systemd-run --user --scope -p Delegate=yes …`"
    ", or a container with its own writable cgroup), or name a prepared directory in DMC_OPTIM_CGROUP"
)
_V1_ADVICE = "mount the memory, pids and cpuacct hierarchies and make this process's directory in each writable for it"


def choose(wanted: str | None, facts: HostFacts) -> Plan:
    """The tier to run in: `full` (default) is the strongest with cgroups, `any` the strongest there is, or one by name.

    Raises ConfigError for an unknown name, IsolationError when the host cannot give it.
    """
    name = wanted or FULL
    reports = {report.tier: report for report in assess(facts)}
    if name not in (FULL, ANY, *reports):
        raise ConfigError(f"isolation tier {name!r} is unknown: use {FULL}, {ANY}, {', '.join(reports)}")
    accepted: Callable[[Tier], bool] = {
        FULL: lambda tier: tier.limits_by_cgroup,
        ANY: lambda tier: True,
    }.get(name, lambda tier: tier == name)
    for tier, report in reports.items():
        if accepted(tier) and report.possible:
            cgroups = {Tier.FULL_V1: facts.v1, Tier.FULL_V2: facts.v2}.get(tier)
            return Plan(tier, facts.mapped, cgroups if isinstance(cgroups, CgroupPlan) else CgroupPlan())
    reasons = [f"{tier}: {'; '.join(report.missing)}" for tier, report in reports.items() if accepted(tier)]
    possible = [str(tier) for tier, report in reports.items() if report.possible]
    raise IsolationError(
        f"this host cannot isolate as asked ({name}): {' | '.join(reasons)}. It can give "
        f"{', '.join(possible) or 'nothing'}; see `dmc-optim ces doctor`, or accept a weaker one with --tier"
    )
