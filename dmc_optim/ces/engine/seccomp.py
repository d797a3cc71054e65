"""The system calls no program of ours needs, and the BPF program that refuses them (EPERM, or ENOSYS).

A deny list: a solution may use anything CPython's standard library or numpy needs. Refused are namespaces and
mounts, tracing, kernel attack surface (bpf, io_uring, perf, keyrings, userfaultfd, modules), what would outlive
the run (System V and POSIX message IPC: their objects have no process that dies; extended attributes, leases and
other settings of the standard streams, which the next run inherits), the clock and the scheduler, and sockets of
families other than unix and inet (vsock is not covered by a network namespace).
"""

import errno
import platform
import struct

_ALLOW, _KILL_PROCESS, _ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
_LD, _JEQ, _JSET, _JGE, _RET = 0x20, 0x15, 0x45, 0x35, 0x06  # BPF_LD|W|ABS, JMP|JEQ|K, JMP|JSET|K, JMP|JGE|K, RET|K
_OFF_NR, _OFF_ARCH, _OFF_ARG0, _OFF_ARG1 = 0, 4, 16, 24

_ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_X32_BIT = 0x40000000
_NAMESPACE_FLAGS = 0x7E020000  # every CLONE_NEW* that clone knows
_UNIX, _INET, _INET6 = 1, 2, 10

# name: (x86_64, aarch64); None where the architecture lacks the call
_DENIED: dict[str, tuple[int | None, int | None]] = {
    "unshare": (272, 97),
    "setns": (308, 268),
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "process_madvise": (440, 440),
    "pidfd_getfd": (438, 438),
    "kcmp": (312, 272),
    "bpf": (321, 280),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "keyctl": (250, 219),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "seccomp": (317, 277),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "reboot": (169, 142),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "syslog": (103, 116),
    "acct": (163, 89),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "sched_setaffinity": (203, 122),
    "sched_setscheduler": (144, 119),
    "sched_setparam": (142, 118),
    "sched_setattr": (314, 274),
    "setpriority": (141, 140),
    "ioprio_set": (251, 30),
    "mbind": (237, 235),
    "set_mempolicy": (238, 237),
    "migrate_pages": (256, 238),
    "move_pages": (279, 239),
    "settimeofday": (164, 170),
    "clock_settime": (227, 112),
    "clock_adjtime": (305, 266),
    "adjtimex": (159, 171),
    "sethostname": (170, 161),
    "setdomainname": (171, 162),
    "personality": (135, 92),
    "modify_ldt": (154, None),
    "iopl": (172, None),
    "ioperm": (173, None),
    "vhangup": (153, 58),
    "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265),
    "fanotify_init": (300, 262),
    "memfd_secret": (447, 447),
    "shmget": (29, 194),
    "shmat": (30, 196),
    "shmctl": (31, 195),
    "semget": (64, 190),
    "semop": (65, 193),
    "semctl": (66, 191),
    "semtimedop": (220, 192),
    "msgget": (68, 186),
    "msgsnd": (69, 189),
    "msgrcv": (70, 188),
    "msgctl": (71, 187),
    "mq_open": (240, 180),
    "mq_unlink": (241, 181),
    "setxattr": (188, 5),
    "lsetxattr": (189, 6),
    "fsetxattr": (190, 7),
    "removexattr": (197, 14),
    "lremovexattr": (198, 15),
    "fremovexattr": (199, 16),
    "setxattrat": (463, 463),
    "removexattrat": (466, 466),
}
_CLONE = {"x86_64": 56, "aarch64": 220}
_CLONE3 = 435
_SOCKET = {"x86_64": 41, "aarch64": 198}
_SOCKETPAIR = {"x86_64": 53, "aarch64": 199}
_DATAGRAM_BIT = 2  # set in SOCK_DGRAM and SOCK_RAW, not in SOCK_STREAM and SOCK_SEQPACKET
_MEMFD_CREATE = {"x86_64": 319, "aarch64": 279}
_FCNTL = {"x86_64": 72, "aarch64": 25}
_LASTING = (37, 38, 1024, 1026, 1031, 1036, 1038)
# fcntl: F_OFD_SETLK, F_OFD_SETLKW, F_SETLEASE, F_NOTIFY, F_SETPIPE_SZ, F_SET_RW_HINT, F_SET_FILE_RW_HINT


def denied_names() -> list[str]:
    """The refused calls, for the documentation and `ces doctor`."""
    return sorted(_DENIED)


def deny_list(machine: str = "", inet: bool = True, memory_files: bool = True) -> bytes:
    """The filter as packed sock_filter records. Raises KeyError for an architecture it does not know.

    inet: whether sockets may be made, that is, whether a network namespace already leads nowhere; otherwise only
    connected pairs, which reach nobody else. memory_files: whether what memfd_create makes is counted.
    """
    machine = machine or platform.machine()
    column = {"x86_64": 0, "aarch64": 1}[machine]
    refuse, absent = _ERRNO | errno.EPERM, _ERRNO | errno.ENOSYS
    program = [
        (_LD, 0, 0, _OFF_ARCH),
        (_JEQ, 1, 0, _ARCH[machine]),
        (_RET, 0, 0, _KILL_PROCESS),
        (_LD, 0, 0, _OFF_NR),
    ]
    if machine == "x86_64":
        program += [(_JGE, 0, 1, _X32_BIT), (_RET, 0, 0, absent)]
    for number in (pair[column] for pair in _DENIED.values()):
        if number is not None:
            program += [(_JEQ, 0, 1, number), (_RET, 0, 0, refuse)]
    # glibc falls back to clone, whose flags a filter can read
    program += [(_JEQ, 0, 1, _CLONE3), (_RET, 0, 0, absent)]
    program += [
        (_JEQ, 0, 4, _CLONE[machine]),
        (_LD, 0, 0, _OFF_ARG0),
        (_JSET, 0, 1, _NAMESPACE_FLAGS),
        (_RET, 0, 0, refuse),
        (_RET, 0, 0, _ALLOW),
    ]
    if not memory_files:
        program += [(_JEQ, 0, 1, _MEMFD_CREATE[machine]), (_RET, 0, 0, absent)]
    program += _sockets(machine) if inet else _connected_pairs(machine)
    program += [(_JEQ, 0, len(_LASTING) + 3, _FCNTL[machine]), (_LD, 0, 0, _OFF_ARG1)]
    program += [(_JEQ, len(_LASTING) - index, 0, command) for index, command in enumerate(_LASTING)]
    program += [(_RET, 0, 0, _ALLOW), (_RET, 0, 0, refuse)]
    program += [(_RET, 0, 0, _ALLOW)]
    return b"".join(struct.pack("=HBBI", *record) for record in program)


_Records = list[tuple[int, int, int, int]]


def _sockets(machine: str) -> _Records:
    """Sockets and pairs of the families that a network namespace covers."""
    allowed, program = (_UNIX, _INET, _INET6), []
    for call in (_SOCKET[machine], _SOCKETPAIR[machine]):
        families = len(allowed)
        program += [(_JEQ, 0, families + 3, call), (_LD, 0, 0, _OFF_ARG0)]
        program += [(_JEQ, families - index, 0, family) for index, family in enumerate(allowed)]
        program += [(_RET, 0, 0, _ERRNO | errno.EAFNOSUPPORT), (_RET, 0, 0, _ALLOW)]
    return program


def _connected_pairs(machine: str) -> _Records:
    """Unix pairs of a type that cannot be addressed elsewhere: stream and sequenced packets, not datagrams."""
    refuse = (_RET, 0, 0, _ERRNO | errno.EAFNOSUPPORT)
    return [
        (_JEQ, 0, 1, _SOCKET[machine]),
        refuse,
        (_JEQ, 0, 6, _SOCKETPAIR[machine]),
        (_LD, 0, 0, _OFF_ARG0),
        (_JEQ, 0, 2, _UNIX),
        (_LD, 0, 0, _OFF_ARG1),
        (_JSET, 0, 1, _DATAGRAM_BIT),
        refuse,
        (_RET, 0, 0, _ALLOW),
    ]


GUARD_MARK = 0x7A7A7A7A
_SIGNALLING = {  # name: (x86_64, aarch64); the first argument is a process
    "kill": (62, 129),
    "tkill": (200, 130),
    "tgkill": (234, 131),
    "rt_sigqueueinfo": (129, 138),
    "rt_tgsigqueueinfo": (297, 240),
    "pidfd_open": (434, 434),
}
_PIDFD_SEND_SIGNAL = 424  # takes a directory of /proc too
_MODES = {  # of the standard streams, which the next run inherits, where the program owns them
    "x86_64": (90, 91, 268, 452, 92, 93, 94, 260),
    "aarch64": (52, 53, 452, 54, 55),
}
_PRLIMIT = {"x86_64": 302, "aarch64": 261}
_F_SETOWN, _F_SETSIG, _F_SETOWN_EX = 8, 10, 15
_EVERYBODY, _INIT = 0xFFFFFFFF, 1


def guard(others: bool, machine: str = "", shared_uid: bool = False) -> bytes:
    """A second filter where processes of others are in reach: whom a program may signal.

    GUARD_MARK stands for a pid that is filled in when it is known. others: the mark is the template's pid, which
    (with the init and everybody at once) may not be signalled; otherwise the mark is the program's own pid,
    which alone (with its own group, 0) may be. shared_uid: the engine runs under the program's uid, so that changes
    of modes and owners must have no effect.
    """
    machine = machine or platform.machine()
    column = {"x86_64": 0, "aarch64": 1}[machine]
    refuse = (_RET, 0, 0, _ERRNO | errno.EPERM)
    allow = (_RET, 0, 0, _ALLOW)
    program = [(_LD, 0, 0, _OFF_NR)]
    program += [(_JEQ, 0, 1, _PIDFD_SEND_SIGNAL), refuse]
    for number in _MODES[machine] if shared_uid else ():
        program += [(_JEQ, 0, 1, number), (_RET, 0, 0, _ERRNO | 0)]  # done, it seems: what copies files goes on
    for pair in _SIGNALLING.values():
        if others:
            checks = [(_JEQ, 3, 0, GUARD_MARK), (_JEQ, 2, 0, _EVERYBODY), (_JEQ, 1, 0, _INIT), allow, refuse]
        else:
            checks = [(_JEQ, 1, 0, GUARD_MARK), (_JEQ, 0, 1, 0), allow, refuse]
        program += [(_JEQ, 0, len(checks) + 1, pair[column]), (_LD, 0, 0, _OFF_ARG0), *checks]
    owners = [(_JEQ, 3, 0, _F_SETOWN), (_JEQ, 2, 0, _F_SETSIG), (_JEQ, 1, 0, _F_SETOWN_EX), allow, refuse]
    program += [(_JEQ, 0, len(owners) + 1, _FCNTL[machine]), (_LD, 0, 0, _OFF_ARG1), *owners]
    program += [(_JEQ, 0, 4, _PRLIMIT[machine]), (_LD, 0, 0, _OFF_ARG0), (_JEQ, 0, 1, 0), allow, refuse, allow]
    return b"".join(struct.pack("=HBBI", *record) for record in program)
