"""Texts in sealed memory files: read-only, seekable, shared by descriptor, gone with the last descriptor."""

import fcntl
import os
import threading
from collections import OrderedDict
from collections.abc import Iterable
from contextlib import suppress

INLINE_BYTES = 1 << 16  # a shorter text travels in the message itself
_SEALS = fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE


def sealed(text: bytes) -> int:
    """A descriptor, at offset 0, of a memory file that nobody can change."""
    fd = os.memfd_create("text", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    view = memoryview(text)
    while view:
        view = view[os.write(fd, view) :]
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, _SEALS)
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


def reopened(fd: int) -> int:
    """A second description of the same file, read-only, with an offset of its own."""
    return os.open(f"/proc/self/fd/{fd}", os.O_RDONLY | os.O_CLOEXEC)


def read_all(fd: int) -> bytes:
    """The whole text behind a descriptor, whatever its offset."""
    size = os.fstat(fd).st_size
    parts = []
    offset = 0
    while offset < size:
        part = os.pread(fd, size - offset, offset)
        if not part:
            break
        parts.append(part)
        offset += len(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def close_all(fds: Iterable[int]) -> None:
    """Close descriptors, whether or not they are open."""
    for fd in fds:
        with suppress(OSError):
            os.close(fd)


class BlobCache:
    """Sealed files by content, least recently used dropped first, so that a big input is copied once. Thread-safe."""

    def __init__(self, capacity_bytes: int) -> None:
        self._capacity = capacity_bytes
        self._used = 0
        self._files: OrderedDict[bytes, int] = OrderedDict()
        self._lock = threading.Lock()

    def descriptor(self, text: bytes) -> int:
        """A descriptor of the text that the caller closes."""
        with self._lock:
            fd = self._files.get(text)
            if fd is None:
                fd = self._files[text] = sealed(text)
                self._used += len(text)
            self._files.move_to_end(text)
            own = os.dup(fd)
            while self._used > self._capacity and len(self._files) > 1:
                dropped, old = self._files.popitem(last=False)
                self._used -= len(dropped)
                os.close(old)
            return own

    def close(self) -> None:
        """Forget everything."""
        with self._lock:
            for fd in self._files.values():
                os.close(fd)
            self._files.clear()
            self._used = 0
