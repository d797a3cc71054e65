"""Content-addressed store of programs and test data: memory over disk, both bounded, oldest out first.

A blob in use by an accepted request is pinned and never dropped. One that leaves memory is written to disk; one
that leaves the disk is gone, and its next user is told that it is missing.
"""

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from dmc_optim.ces.types import MIB

_STREAM_TO_DISK = MIB  # uploads above this never stand whole in memory


@dataclass(slots=True)
class _Blob:
    size: int
    data: bytes | None
    path: Path | None
    pins: int = 0


class StoreFullError(Exception):
    """Everything in the store is pinned; nothing can make room."""


class DigestMismatchError(Exception):
    """The uploaded bytes have another hash than the one they were announced with."""


class BlobStore:
    """Blobs by the lower-case hexadecimal SHA-256 of their bytes. Thread-safe.

    directory: where blobs spill (private to this store). memory_bytes, disk_bytes: bounds of the two levels; the
    disk bound is also that of everything held.
    """

    def __init__(self, directory: Path, memory_bytes: int, disk_bytes: int) -> None:
        self._directory = directory
        self._memory_bound = memory_bytes
        self._disk_bound = disk_bytes
        self._blobs: OrderedDict[str, _Blob] = OrderedDict()  # least recently used first
        self._resident: OrderedDict[str, None] = OrderedDict()  # those in memory, in the same order
        self._lock = threading.RLock()
        self._serial = 0
        self.held_bytes = 0
        self.memory_bytes = 0
        self.disk_bytes = 0
        self.hits = 0
        self.misses = 0
        self.evictions = 0

    def __len__(self) -> int:
        return len(self._blobs)

    def __contains__(self, digest: str) -> bool:
        with self._lock:
            if digest not in self._blobs:
                return False
            self._touch(digest)
            return True

    def pin(self, digests: Iterable[str]) -> list[str]:
        """Keep all of these from being dropped. Returns the missing ones; when there are any, nothing is pinned."""
        wanted = set(digests)
        with self._lock:
            missing = sorted(digest for digest in wanted if digest not in self._blobs)
            self.misses += len(missing)
            if not missing:
                self.hits += len(wanted)
                for digest in wanted:
                    self._blobs[digest].pins += 1
                    self._touch(digest)
            return missing

    def unpin(self, digests: Iterable[str]) -> None:
        """Undo one `pin` of each of these."""
        with self._lock:
            for digest in set(digests):
                self._blobs[digest].pins -= 1

    def get(self, digest: str) -> bytes:
        """The bytes of a pinned blob. KeyError when it is not here."""
        with self._lock:
            blob = self._blobs[digest]
            self._touch(digest)
            if blob.data is not None:
                return blob.data
            path = blob.path
        assert path is not None  # a blob is in memory, on disk, or both
        data = path.read_bytes()
        with self._lock:
            if blob.data is None and blob.size <= self._memory_bound and self._blobs.get(digest) is blob:
                self._keep_in_memory(digest, blob, data)
        return data

    def put(self, digest: str, data: bytes) -> None:
        """Store bytes whose hash the caller has checked or made. Raises StoreFullError."""
        with self._lock:
            if digest in self._blobs:
                return
            self._make_room(len(data))
            blob = self._blobs[digest] = _Blob(len(data), None, None)
            self.held_bytes += blob.size
            self._keep_in_memory(digest, blob, data)

    def upload(self, digest: str) -> "Upload":
        """Start taking in a blob piece by piece."""
        with self._lock:
            self._serial += 1
            path = self._directory / f"upload-{self._serial}"
        return Upload(digest, path, self._adopt)

    def _adopt(self, digest: str, size: int, data: bytes | None, path: Path | None) -> None:
        if data is not None:
            self.put(digest, data)
            return
        assert path is not None
        with self._lock:
            if digest in self._blobs:
                return
            self._make_room(size)
            self._blobs[digest] = _Blob(size, None, path.rename(self._directory / digest))
            self.held_bytes += size
            self.disk_bytes += size

    def _touch(self, digest: str) -> None:
        self._blobs.move_to_end(digest)
        if digest in self._resident:
            self._resident.move_to_end(digest)

    def _make_room(self, size: int) -> None:
        """Drop the oldest unpinned blobs until one of this size fits."""
        if self.held_bytes + size <= self._disk_bound:
            return
        for digest in list(self._blobs):
            if self._blobs[digest].pins == 0:
                self._drop(digest)
                if self.held_bytes + size <= self._disk_bound:
                    return
        raise StoreFullError

    def _drop(self, digest: str) -> None:
        blob = self._blobs.pop(digest)
        self.held_bytes -= blob.size
        self.evictions += 1
        if blob.data is not None:
            self.memory_bytes -= blob.size
            del self._resident[digest]
        if blob.path is not None:
            self.disk_bytes -= blob.size
            blob.path.unlink(missing_ok=True)

    def _keep_in_memory(self, digest: str, blob: _Blob, data: bytes) -> None:
        blob.data = data
        self._resident[digest] = None
        self.memory_bytes += blob.size
        while self.memory_bytes > self._memory_bound and self._resident:
            self._spill(next(iter(self._resident)))

    def _spill(self, digest: str) -> None:
        """Move a blob from memory to disk."""
        blob = self._blobs[digest]
        assert blob.data is not None
        if blob.path is None:
            blob.path = self._directory / digest
            blob.path.write_bytes(blob.data)
            self.disk_bytes += blob.size
        blob.data = None
        self.memory_bytes -= blob.size
        del self._resident[digest]


class Upload:
    """A blob on its way in; use as a context manager, `commit` inside it, and leaving without a commit drops it."""

    def __init__(self, digest: str, path: Path, adopt: Callable[[str, int, bytes | None, Path | None], None]) -> None:
        self._digest = digest
        self._path = path
        self._adopt = adopt
        self._hash = hashlib.sha256()
        self._parts: list[bytes] = []
        self._file: IO[bytes] | None = None
        self.size = 0

    def __enter__(self) -> "Upload":
        return self

    def __exit__(self, *exc: object) -> None:
        if self._file is not None:
            self._file.close()
            self._path.unlink(missing_ok=True)  # renamed by a commit, so this is a no-op then

    def write(self, part: bytes) -> None:
        """Take the next piece."""
        self._hash.update(part)
        self.size += len(part)
        if self._file is None and self.size > _STREAM_TO_DISK:
            self._file = self._path.open("wb")
            self._file.writelines(self._parts)
            self._parts = []
        if self._file is not None:
            self._file.write(part)
        else:
            self._parts.append(part)

    def commit(self) -> None:
        """Make the blob part of the store. Raises DigestMismatchError, StoreFullError."""
        if self._hash.hexdigest() != self._digest:
            raise DigestMismatchError(self._hash.hexdigest())
        if self._file is None:
            self._adopt(self._digest, self.size, b"".join(self._parts), None)
        else:
            self._file.close()
            self._adopt(self._digest, self.size, None, self._path)
