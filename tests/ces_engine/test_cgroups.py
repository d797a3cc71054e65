"""cgroup handling against a stand-in tree: plain directories with the kernel's file names. What a host at hand
cannot give (version 2, delegation) is tested only here."""

import os
from pathlib import Path

import pytest

from dmc_optim.ces.engine import admission
from dmc_optim.ces.engine.cgroup_parents import (
    CgroupPlan,
    find_v2,
    own_v1_directories,
    own_v2_directory,
    prepare_v2,
    sweep,
)
from dmc_optim.ces.engine.cgroups import CgroupV1, CgroupV2

GIB = 1 << 30


@pytest.fixture
def v1(tmp_path: Path) -> tuple[CgroupV1, dict[str, Path]]:
    directories = {}
    for controller in ("memory", "pids", "cpuacct"):
        directories[controller] = tmp_path / controller / "dmc-optim-1-0"
        directories[controller].mkdir(parents=True)
        (directories[controller] / "cgroup.procs").write_text("")
    memory = directories["memory"]
    for name, text in {
        "memory.limit_in_bytes": "9223372036854771712",
        "memory.memsw.limit_in_bytes": "9223372036854771712",
        "memory.usage_in_bytes": "1000",
        "memory.max_usage_in_bytes": "5000",
        "memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n",
    }.items():
        (memory / name).write_text(text)
    (directories["pids"] / "pids.max").write_text("max")
    (directories["cpuacct"] / "cpuacct.usage").write_text("7000000")
    parents = {controller: directory.parent for controller, directory in directories.items()}
    return CgroupV1(parents, "dmc-optim-1-0"), directories


@pytest.fixture
def v2(tmp_path: Path) -> tuple[CgroupV2, Path]:
    directory = tmp_path / "dmc-optim-1-0"
    directory.mkdir()
    for name, text in {
        "memory.current": "1000",
        "memory.peak": "5000",
        "memory.max": "max",
        "memory.swap.max": "max",
        "memory.events": "low 0\nhigh 0\nmax 12\noom 4\noom_kill 3\noom_group_kill 0\n",
        "cpu.stat": "usage_usec 7000\nuser_usec 5000\nsystem_usec 2000\n",
        "pids.max": "max",
        "cgroup.procs": "",
    }.items():
        (directory / name).write_text(text)
    return CgroupV2(tmp_path, "dmc-optim-1-0"), directory


def test_v1_limits_and_counters(v1: tuple[CgroupV1, dict[str, Path]]) -> None:
    cgroup, directories = v1
    memory = directories["memory"]
    cgroup.limit_memory(GIB)
    assert int((memory / "memory.limit_in_bytes").read_text().split("\n")[0][:10]) == GIB + 1000
    cgroup.limit_processes(64)
    assert (directories["pids"] / "pids.max").read_text().startswith("64")
    cgroup.begin()
    assert (memory / "memory.max_usage_in_bytes").read_text()[0] == "0"
    (directories["cpuacct"] / "cpuacct.usage").write_text("9000000")
    assert cgroup.cpu_ns() == 2_000_000
    assert cgroup.oom_kills() == 0
    (memory / "memory.oom_control").write_text("oom_kill_disable 0\nunder_oom 0\noom_kill 5\n")
    assert (cgroup.oom_kills(), cgroup.oom_kills()) == (2, 0)
    (memory / "memory.max_usage_in_bytes").write_text("401000")
    assert cgroup.memory_peak() == 400_000
    for directory in directories.values():
        assert (directory / "cgroup.procs").read_text() == ""
    cgroup.join(4242)
    assert {(directory / "cgroup.procs").read_text() for directory in directories.values()} == {"4242"}
    assert cgroup.processes() == [4242]


def test_v2_limits_and_counters(v2: tuple[CgroupV2, Path]) -> None:
    cgroup, directory = v2
    cgroup.limit_memory(GIB)
    assert (directory / "memory.max").read_text().startswith(str(GIB + 1000))
    assert (directory / "memory.swap.max").read_text().startswith("0")
    cgroup.limit_processes(64)
    assert (directory / "pids.max").read_text().startswith("64")
    cgroup.begin()
    (directory / "cpu.stat").write_text("usage_usec 9000\nuser_usec 1\n")
    assert cgroup.cpu_ns() == 2_000_000
    assert cgroup.oom_kills() == 0
    (directory / "memory.events").write_text("low 0\noom_kill 4\n")
    assert (cgroup.oom_kills(), cgroup.oom_kills()) == (1, 0)
    (directory / "memory.peak").write_text("401000")
    assert cgroup.memory_peak() == 400_000
    cgroup.join(4242)
    assert cgroup.processes() == [4242]


def test_v2_without_a_peak_file_reports_the_present_use(tmp_path: Path) -> None:
    directory = tmp_path / "slot"
    directory.mkdir()
    (directory / "memory.current").write_text("70000")
    (directory / "memory.events").write_text("oom_kill 0\n")
    (directory / "memory.max").write_text("max")
    (directory / "cpu.stat").write_text("usage_usec 0\n")
    cgroup = CgroupV2(tmp_path, "slot")
    cgroup.begin()
    assert cgroup.memory_peak() == 70_000


def test_a_limit_that_hardly_moves_is_not_written_again(v2: tuple[CgroupV2, Path]) -> None:
    cgroup, directory = v2
    cgroup.limit_memory(GIB)
    (directory / "memory.max").write_text("untouched")
    (directory / "memory.current").write_text("90000")
    cgroup.limit_memory(GIB)
    assert (directory / "memory.max").read_text() == "untouched"
    cgroup.limit_memory(2 * GIB)
    assert (directory / "memory.max").read_text() != "untouched"


def delegated(tmp_path: Path, controllers: str = "cpu memory pids", enabled: str = "") -> Path:
    (tmp_path / "cgroup.controllers").write_text(controllers)
    (tmp_path / "cgroup.subtree_control").write_text(enabled)
    (tmp_path / "cgroup.procs").write_text("")
    return tmp_path


def test_a_delegated_subtree_gets_its_controllers_enabled(tmp_path: Path) -> None:
    assert prepare_v2(delegated(tmp_path), evacuate=False) == CgroupPlan(2, {"": tmp_path})
    assert (tmp_path / "cgroup.subtree_control").read_text() == "+memory +pids"
    assert find_v2({"DMC_OPTIM_CGROUP": str(tmp_path)}) == CgroupPlan(2, {"": tmp_path})


def test_processes_move_into_a_leaf_first_because_inner_cgroups_may_hold_none(tmp_path: Path) -> None:
    root = delegated(tmp_path)
    (root / "cgroup.procs").write_text("11\n12\n")
    (root / "dmc-optim-host").mkdir()
    (root / "dmc-optim-host" / "cgroup.procs").write_text("")
    assert isinstance(prepare_v2(root, evacuate=True), CgroupPlan)
    assert (
        root / "dmc-optim-host" / "cgroup.procs"
    ).read_text() == "12"  # the kernel appends; a plain file is rewritten


def test_an_enabled_subtree_is_left_as_it_is(tmp_path: Path) -> None:
    root = delegated(tmp_path, enabled="memory pids")
    assert isinstance(prepare_v2(root, evacuate=True), CgroupPlan)
    assert (root / "cgroup.subtree_control").read_text() == "memory pids"
    assert not (root / "dmc-optim-host").exists()


@pytest.mark.parametrize(
    ("controllers", "reason"), [("", "does not offer memory and pids"), ("cpu memory", "does not offer pids")]
)
def test_missing_controllers_are_named(tmp_path: Path, controllers: str, reason: str) -> None:
    assert reason in str(prepare_v2(delegated(tmp_path, controllers), evacuate=False))


def test_what_is_no_cgroup_is_refused_with_the_reason(tmp_path: Path) -> None:
    assert "not a readable cgroup" in str(prepare_v2(tmp_path / "none", evacuate=False))
    if os.geteuid() != 0:
        root = delegated(tmp_path)
        (root / "cgroup.subtree_control").chmod(0o444)
        assert "not delegated" in str(prepare_v2(root, evacuate=False))


def test_own_directories_are_read_from_mounts_and_membership(tmp_path: Path) -> None:
    (tmp_path / "memory/a/b").mkdir(parents=True)
    (tmp_path / "unified/u").mkdir(parents=True)
    mounts = (
        f"cgroup {tmp_path}/memory cgroup rw,memory 0 0\n"
        f"cgroup {tmp_path}/cpu cgroup rw,cpu,cpuacct 0 0\n"
        f"cgroup2 {tmp_path}/unified cgroup2 rw 0 0\n"
        "tmpfs /tmp tmpfs rw 0 0\n"
    )
    membership = "4:memory:/a/b\n3:cpu,cpuacct:/gone\n0::/u\n"
    assert own_v1_directories(mounts, membership) == {
        "memory": tmp_path / "memory/a/b",
        "cpuacct": tmp_path / "cpu",  # a path from outside this cgroup namespace: the mount's own root
    }
    assert own_v2_directory(mounts, membership) == tmp_path / "unified/u"
    assert own_v2_directory("tmpfs /tmp tmpfs rw 0 0\n", membership) is None


def test_only_what_dead_engines_left_is_swept(tmp_path: Path) -> None:
    for name in ("dmc-optim-11-0-0", "dmc-optim-22-0-0", "dmc-optim-host", "other"):
        (tmp_path / name).mkdir()
    assert sweep(CgroupPlan(2, {"": tmp_path}), alive={22}) == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["dmc-optim-22-0-0", "dmc-optim-host", "other"]


def test_slots_are_bounded_by_cores_and_by_memory_of_the_host_and_of_enclosing_cgroups(tmp_path: Path) -> None:
    assert admission.most_slots(8, 4 * GIB, GIB) == 3
    assert admission.most_slots(2, 64 * GIB, GIB) == 2
    assert admission.most_slots(8, GIB // 4, GIB) == 0
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    (inner / "memory.max").write_text("max\n")
    (tmp_path / "a" / "memory.max").write_text(str(3 * GIB))
    for directory in (inner, tmp_path / "a"):
        (directory / "memory.current").write_text(str(GIB))
    rooms = admission.headrooms(inner, ("memory.max", "memory.current"), tmp_path)
    assert rooms == [2 * GIB]
    assert admission.available_memory("MemFree: 1 kB\nMemAvailable: 8388608 kB\n", rooms) == 2 * GIB
    assert admission.available_memory("MemAvailable: 1048576 kB\n", rooms) == GIB


def test_cores_are_leased_to_one_engine_at_a_time() -> None:
    cores = [3001, 3002, 3003]
    first = admission.CoreLease(2, cores)
    second = admission.CoreLease(2, cores)
    assert (first.cores, first.shared) == ([3001, 3002], frozenset())
    assert second.cores[0] == 3003
    assert second.shared == {3001}
    first.release()
    third = admission.CoreLease(2, cores)
    assert (third.cores, third.shared) == ([3001, 3002], frozenset())
    second.release()
    third.release()
