"""Landlock: an unprivileged process gives up all files but some, for itself and what it starts. Linux 5.13 or later."""

import ctypes
import os
import struct
from collections.abc import Iterable

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_VERSION_FLAG, _PATH_BENEATH = 1, 1

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1, 2, 4, 8
_SIGNALS_AND_ABSTRACT_SOCKETS = 3
_ALL_V1, _REFER, _TRUNCATE, _IOCTL_DEV = (1 << 13) - 1, 1 << 13, 1 << 14, 1 << 15
_FILE_RIGHTS = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEV
READ, LIST = _EXECUTE | _READ_FILE | _READ_DIR, _READ_DIR

_libc = ctypes.CDLL(None, use_errno=True)


def version() -> int:
    """Landlock ABI of this kernel; 0 where there is none."""
    return max(_libc.syscall(ctypes.c_long(_CREATE_RULESET), None, ctypes.c_size_t(0), ctypes.c_uint(_VERSION_FLAG)), 0)


def restrict(readable: Iterable[str], writable: Iterable[str], listable: Iterable[str] = ()) -> None:
    """From now on only `readable` can be read and executed, `writable` changed. Needs no_new_privs.

    listable: directories in which names, of their subdirectories too, can be seen.

    From Linux 6.12 on, processes and abstract sockets outside cannot be reached either.

    Paths that do not exist are left out. Raises OSError.
    """
    abi = version()
    handled = _ALL_V1 | (_REFER if abi >= 2 else 0) | (_TRUNCATE if abi >= 3 else 0) | (_IOCTL_DEV if abi >= 5 else 0)
    attributes = struct.pack("=Q", handled)
    if abi >= 6:
        attributes = struct.pack("=QQQ", handled, 0, _SIGNALS_AND_ABSTRACT_SOCKETS)
    ruleset = _call(_CREATE_RULESET, attributes, ctypes.c_size_t(len(attributes)), ctypes.c_uint(0))
    try:
        for path in readable:
            _allow(ruleset, path, READ)
        for path in listable:
            _allow(ruleset, path, LIST)
        for path in writable:
            _allow(ruleset, path, handled & ~_EXECUTE)
        _call(_RESTRICT_SELF, ctypes.c_int(ruleset), ctypes.c_uint(0))
    finally:
        os.close(ruleset)


def _allow(ruleset: int, path: str, rights: int) -> None:
    try:
        fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        if not os.path.isdir(path):
            rights &= _FILE_RIGHTS
        beneath = struct.pack("=Qi", rights, fd)
        _call(_ADD_RULE, ctypes.c_int(ruleset), ctypes.c_int(_PATH_BENEATH), beneath, ctypes.c_uint(0))
    finally:
        os.close(fd)


def _call(number: int, *arguments: object) -> int:
    result: int = _libc.syscall(ctypes.c_long(number), *arguments)
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"landlock: {os.strerror(code)}")
    return result
