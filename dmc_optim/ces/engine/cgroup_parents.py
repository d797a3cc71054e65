"""Where slots may make their cgroups: this process's own directories of version 1, a delegated subtree of version 2."""

import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from dmc_optim.ces.engine.cgroups import PREFIX

V1_CONTROLLERS = ("memory", "pids", "cpuacct")
V2_CONTROLLERS = ("memory", "pids")
V2_VARIABLE = "DMC_OPTIM_CGROUP"
_HOST_LEAF = PREFIX + "host"


@dataclass(frozen=True)
class CgroupPlan:
    """version 1: parents by controller; version 2: one parent, under ""; version 0: no cgroups."""

    version: int = 0
    parents: dict[str, Path] = field(default_factory=dict)


def own_v1_directories(mounts: str, membership: str) -> dict[str, Path]:
    """This process's directories in the version 1 hierarchies that slots need.

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


def find_v1() -> CgroupPlan | str:
    """The version 1 plan, or why there is none."""
    parents = own_v1_directories(Path("/proc/self/mounts").read_text(), Path("/proc/self/cgroup").read_text())
    missing = [controller for controller in V1_CONTROLLERS if controller not in parents]
    if missing:
        return f"cgroup v1: not mounted: {', '.join(missing)}"
    for controller, directory in parents.items():
        if not os.access(directory, os.W_OK):
            return f"cgroup v1: {directory} ({controller}) is not writable for uid {os.geteuid()}"
    return CgroupPlan(1, parents)


def own_v2_directory(mounts: str, membership: str) -> Path | None:
    """This process's directory in the version 2 hierarchy; None where that is not mounted."""
    root = next((Path(line.split()[1]) for line in mounts.splitlines() if line.split()[2] == "cgroup2"), None)
    path = next((line.split(":", 2)[2] for line in membership.splitlines() if line.startswith("0::")), None)
    if root is None or path is None:
        return None
    directory = root / path.lstrip("/")
    return directory if directory.is_dir() else root


def find_v2(environment: Mapping[str, str] = os.environ) -> CgroupPlan | str:
    """The version 2 plan, with the controllers enabled for children; or why there is none."""
    named = environment.get(V2_VARIABLE)
    if named:
        return prepare_v2(Path(named), evacuate=False)
    own = own_v2_directory(Path("/proc/self/mounts").read_text(), Path("/proc/self/cgroup").read_text())
    if own is None:
        return "cgroup v2: not mounted"
    if own.name == _HOST_LEAF:  # an earlier engine of this process moved it there
        own = own.parent
    return prepare_v2(own, evacuate=True)


def prepare_v2(directory: Path, evacuate: bool) -> CgroupPlan | str:
    """Enable the controllers for children of a delegated directory; the plan, or why it cannot be.

    evacuate: move the processes in it (this one among them) into a child first, because a cgroup with processes
    cannot have controlled children.
    """
    try:
        offered = (directory / "cgroup.controllers").read_text().split()
    except OSError as error:
        return f"cgroup v2: {directory} is not a readable cgroup ({error.strerror})"
    missing = [controller for controller in V2_CONTROLLERS if controller not in offered]
    if missing:
        return f"cgroup v2: {directory} does not offer {' and '.join(missing)}"
    if not os.access(directory, os.W_OK) or not os.access(directory / "cgroup.subtree_control", os.W_OK):
        return f"cgroup v2: {directory} is not delegated to uid {os.geteuid()}"
    control = directory / "cgroup.subtree_control"
    try:
        if not set(V2_CONTROLLERS) <= set(control.read_text().split()):
            if evacuate:
                _evacuate(directory)
            control.write_text(" ".join(f"+{controller}" for controller in V2_CONTROLLERS))
    except OSError as error:
        return f"cgroup v2: {directory} refuses controllers for children ({error.strerror})"
    return CgroupPlan(2, {"": directory})


def _evacuate(directory: Path) -> None:
    leaf = directory / _HOST_LEAF
    leaf.mkdir(exist_ok=True)
    for pid in (directory / "cgroup.procs").read_text().split():
        with suppress(ProcessLookupError):
            (leaf / "cgroup.procs").write_text(pid)


def sweep(plan: CgroupPlan, alive: "set[int]") -> int:
    """Remove the empty cgroups that engines of dead processes left; returns how many.

    alive: process ids that exist. A directory's name carries the id of the process that made it.
    """
    removed = 0
    for parent in plan.parents.values():
        for directory in parent.glob(f"{PREFIX}[0-9]*"):
            owner = directory.name[len(PREFIX) :].split("-")[0]
            if owner.isdigit() and int(owner) not in alive:
                with suppress(OSError):
                    directory.rmdir()
                    removed += 1
    return removed
