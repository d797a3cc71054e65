"""Which tier a host can give, as a pure decision; the seccomp filters, run by an interpreter of BPF."""

import errno
import struct
from pathlib import Path

import pytest

from dmc_optim.ces.engine import seccomp
from dmc_optim.ces.engine.cgroup_parents import CgroupPlan
from dmc_optim.ces.engine.tiers import HostFacts, Tier, assess, choose
from dmc_optim.errors import ConfigError, IsolationError

V1 = CgroupPlan(1, {"memory": Path("/m"), "pids": Path("/p"), "cpuacct": Path("/c")})
V2 = CgroupPlan(2, {"": Path("/u")})


def facts(
    v1: CgroupPlan | str = "v1 is missing",
    v2: CgroupPlan | str = "v2 is missing",
    userns: bool = True,
    machine: str = "x86_64",
) -> HostFacts:
    return HostFacts(euid=1000, mapped=False, userns=userns, machine=machine, v1=v1, v2=v2)


@pytest.mark.parametrize(
    ("host", "possible"),
    [
        (facts(V1, V2), {"full-v2", "full-v1", "userns", "rlimit"}),
        (facts(V1), {"full-v1", "userns", "rlimit"}),
        (facts(v2=V2), {"full-v2", "userns", "rlimit"}),
        (facts(), {"userns", "rlimit"}),
        (facts(V1, V2, userns=False), {"rlimit"}),
        (facts(V1, V2, machine="riscv64"), set()),
    ],
)
def test_what_a_host_can_give(host: HostFacts, possible: set[str]) -> None:
    assert {str(report.tier) for report in assess(host) if report.possible} == possible
    for report in assess(host):
        assert report.possible == (not report.missing)
        assert len(report.advice) == len(report.missing)


def test_the_strongest_tier_of_the_class_asked_for_is_taken() -> None:
    assert choose(None, facts(V1, V2)).tier is Tier.FULL_V2
    assert choose("full", facts(V1)).tier is Tier.FULL_V1
    assert choose("any", facts()).tier is Tier.USERNS
    assert choose("rlimit", facts(V1, V2)).tier is Tier.RLIMIT
    assert choose("full-v1", facts(V1, V2)).cgroups == V1
    assert choose("userns", facts(V1, V2)).cgroups.version == 0


def test_a_weaker_tier_is_refused_unless_asked_for() -> None:
    with pytest.raises(IsolationError, match=r"v2 is missing.*v1 is missing.*It can give userns, rlimit.*doctor"):
        choose(None, facts())
    with pytest.raises(IsolationError, match="full-v2"):
        choose("full-v2", facts(V1))
    with pytest.raises(ConfigError, match="unknown"):
        choose("docker", facts())


def evaluate(program: bytes, number: int, arguments: tuple[int, ...] = (), arch: int = 0xC000003E) -> int:
    """Run a classic BPF program over seccomp_data; returns the action."""
    data = struct.pack("=IIQ6Q", number, arch, 0, *(tuple(a & 0xFFFFFFFFFFFFFFFF for a in arguments) + (0,) * 6)[:6])
    records = list(struct.iter_unpack("=HBBI", program))
    accumulator = at = 0
    while True:
        code, jump_true, jump_false, k = records[at]
        at += 1
        if code == 0x20:
            (accumulator,) = struct.unpack_from("=I", data, k)
        elif code == 0x06:
            return int(k)
        else:
            holds = {0x15: accumulator == k, 0x35: accumulator >= k, 0x45: bool(accumulator & k)}[code]
            at += jump_true if holds else jump_false


ALLOW, KILL = 0x7FFF0000, 0x80000000


def refusal(number: int) -> int:
    return 0x00050000 | number


def test_every_denied_call_is_refused_and_ordinary_ones_are_not() -> None:
    program = seccomp.deny_list("x86_64")
    for name, (number, _) in seccomp._DENIED.items():
        assert number is None or evaluate(program, number) == refusal(errno.EPERM), name
    denied = {pair[0] for pair in seccomp._DENIED.values()}
    for number in set(range(460)) - denied - {41, 53, 56, 435}:
        assert evaluate(program, number) == ALLOW, number


def test_clone_is_judged_by_its_flags_and_clone3_is_absent() -> None:
    program = seccomp.deny_list("x86_64")
    assert evaluate(program, 56, (0x01200011,)) == ALLOW  # fork
    assert evaluate(program, 56, (0x003D0F00,)) == ALLOW  # a thread
    for flag in (0x00020000, 0x02000000, 0x04000000, 0x08000000, 0x10000000, 0x20000000, 0x40000000):
        assert evaluate(program, 56, (flag | 17,)) == refusal(errno.EPERM)
    assert evaluate(program, 435) == refusal(errno.ENOSYS)


def test_socket_families() -> None:
    program = seccomp.deny_list("x86_64")
    for call in (41, 53):
        allowed = {family for family in range(50) if evaluate(program, call, (family, 1, 0)) == ALLOW}
        assert allowed == {1, 2, 10}
        assert evaluate(program, call, (40, 1, 0)) == refusal(errno.EAFNOSUPPORT)  # vsock


def test_without_a_network_namespace_only_connected_pairs_are_left() -> None:
    program = seccomp.deny_list("x86_64", inet=False)
    assert {evaluate(program, 41, (family, 1, 0)) for family in range(50)} == {refusal(errno.EAFNOSUPPORT)}
    flags = 0o2000000 | 0o4000  # SOCK_CLOEXEC, SOCK_NONBLOCK
    for kind, allowed in {1: True, 5: True, 2: False, 3: False}.items():
        found = {evaluate(program, 53, (1, kind | extra, 0)) == ALLOW for extra in (0, flags)}
        assert found == {allowed}
    assert evaluate(program, 53, (2, 1, 0)) == refusal(errno.EAFNOSUPPORT)


def test_settings_that_would_outlive_the_run_are_refused() -> None:
    program = seccomp.deny_list("x86_64")
    for command in (37, 38, 1024, 1026, 1031, 1036, 1038):  # locks of a description, leases, pipe sizes, hints
        assert evaluate(program, 72, (0, command, 0)) == refusal(errno.EPERM)
    for command in (0, 1, 2, 3, 4, 5, 6, 7, 1030, 1032):
        assert evaluate(program, 72, (0, command, 0)) == ALLOW


def test_memory_files_are_absent_where_nothing_counts_them() -> None:
    assert evaluate(seccomp.deny_list("x86_64"), 319) == ALLOW
    assert evaluate(seccomp.deny_list("x86_64", memory_files=False), 319) == refusal(errno.ENOSYS)
    assert evaluate(seccomp.deny_list("x86_64", inet=False, memory_files=False), 0) == ALLOW


def test_another_architecture_is_killed_and_x32_is_absent() -> None:
    program = seccomp.deny_list("x86_64")
    assert evaluate(program, 1, arch=0x40000003) == KILL
    assert evaluate(program, 0x40000000 | 101) == refusal(errno.ENOSYS)
    arm = seccomp.deny_list("aarch64")
    assert evaluate(arm, 97, arch=0xC00000B7) == refusal(errno.EPERM)  # unshare
    assert evaluate(arm, 63, arch=0xC00000B7) == ALLOW  # read
    with pytest.raises(KeyError):
        seccomp.deny_list("riscv64")


def test_the_guard_protects_the_template() -> None:
    template = 77
    program = seccomp.guard(others=True, machine="x86_64").replace(
        struct.pack("=I", seccomp.GUARD_MARK), struct.pack("=I", template)
    )
    for call in (62, 200, 234, 129, 297, 434):
        for target in (template, 1, -1):
            assert evaluate(program, call, (target, 9)) == refusal(errno.EPERM)
        for target in (0, 78, -78):
            assert evaluate(program, call, (target, 9)) == ALLOW
    assert evaluate(program, 72, (0, 8, template)) == refusal(errno.EPERM)  # F_SETOWN
    assert evaluate(program, 72, (0, 4, 0)) == ALLOW
    assert evaluate(program, 302, (template, 7)) == refusal(errno.EPERM)  # prlimit of another
    assert evaluate(program, 302, (0, 7)) == ALLOW


def test_without_a_pid_namespace_a_program_signals_only_itself() -> None:
    own = 4321
    program = seccomp.guard(others=False, machine="x86_64").replace(
        struct.pack("=I", seccomp.GUARD_MARK), struct.pack("=I", own)
    )
    assert evaluate(program, 62, (own, 9)) == ALLOW
    assert evaluate(program, 62, (0, 9)) == ALLOW
    for target in (1, -1, own + 1):
        assert evaluate(program, 62, (target, 9)) == refusal(errno.EPERM)
    assert evaluate(program, 424, (5, 9)) == refusal(errno.EPERM)  # pidfd_send_signal
    assert evaluate(program, 91, (0, 0)) == ALLOW


def test_modes_of_the_engines_files_stay_where_programs_have_its_uid() -> None:
    for others in (True, False):
        program = seccomp.guard(others, "x86_64", shared_uid=True)
        for call in (90, 91, 92, 93, 94, 260, 268, 452):
            assert evaluate(program, call, (0, 0)) == refusal(0)  # seems done
        assert evaluate(program, 0, (0, 0)) == ALLOW
