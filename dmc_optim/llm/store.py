"""An append-only store of answers that is a `recorded:` file at every instant.

One line an answer, written whole and at once; failures are never written here. A line cut off by a crash is
removed when the store is opened again. An answer is found by the key of its request, so a changed prompt,
sampling, model or revision asks again, and going back to an earlier one does not.
"""

import fcntl
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

from dmc_optim.errors import ConfigError, GenerationError, SourceError
from dmc_optim.llm.recorded import RowKey, parse_row, read_lines

SYNC_INTERVAL_S = 5.0


class CompletionStore:
    """Answers by request key. Use as a context manager; one process at a time holds it (a lock on the file).

    Raises ConfigError when the path cannot be appended to or another process holds it, SourceError for a file that
    this store did not write.
    """

    def __init__(self, path: str | Path, clock: Callable[[], float] = time.monotonic) -> None:
        if "://" in str(path):
            raise ConfigError(f"{path}: answers are appended to a local file; record them locally and copy the file")
        self.path = Path(path)
        self._clock = clock
        self._file: BinaryIO | None = None
        self._places: dict[str, tuple[int, int]] = {}  # request key -> offset, length
        self._current: dict[RowKey, str] = {}  # attempt -> key of the row that counts

    def __enter__(self) -> "CompletionStore":
        if self.path.exists() and not self.path.is_file():
            raise ConfigError(f"{self.path}: cannot be written (not a regular file); choose another place")
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._file = self.path.open("a+b", buffering=0)
        except OSError as error:
            raise ConfigError(f"{self.path}: cannot be written ({error.strerror}); choose another place") from error
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            self._file.close()
            raise ConfigError(f"{self.path}: another campaign is writing this file; wait for it or stop it") from error
        try:
            self._mend()
            self._index()
        except BaseException:
            self._file.close()
            raise
        self._synced = self._clock()
        return self

    def __exit__(self, *exc: object) -> None:
        if self._file is not None:
            os.fsync(self._file.fileno())
            self._file.close()
            self._file = None

    def __len__(self) -> int:
        return len(self._current)

    def _mend(self) -> None:
        """Cut off the last line when a crash left only a part of it."""
        assert self._file is not None
        size = end = self._file.seek(0, os.SEEK_END)
        step = 1 << 16
        while end > 0:
            begin = max(0, end - step)
            self._file.seek(begin)
            newline = self._file.read(end - begin).rfind(b"\n")
            if newline >= 0:
                end = begin + newline + 1
                break
            end = begin
        if end < size:
            self._file.truncate(end)

    def _index(self) -> None:
        for offset, number, line in read_lines(str(self.path)):
            key, row = parse_row(line, str(self.path), number)
            request_key = row.get("request_key")
            if not request_key:
                raise SourceError(
                    f"{self.path}:{number}: this row was not written by a campaign (no `request_key`);"
                    " give another file to write to"
                )
            if row.get("retracted"):
                self._current.pop(key, None)
                continue
            self._places[request_key] = (offset, len(line))
            self._current[key] = request_key
        self._end = self._file.seek(0, os.SEEK_END) if self._file else 0

    def settle(self, key: RowKey, request_key: str) -> bool:
        """Whether the answer to this request is in the store; makes it the attempt's current one if it is.

        If it is not, an answer to an earlier form of the request no longer stands for the attempt.
        """
        place = self._places.get(request_key)
        if place is None:
            if key in self._current:
                self._write_line(_line(_row(key, request_key) | {"retracted": True}))
                del self._current[key]
            return False
        if self._current.get(key) != request_key:
            assert self._file is not None
            self._append(key, request_key, os.pread(self._file.fileno(), place[1], place[0]))
        return True

    def add(self, key: RowKey, request_key: str, fields: dict[str, Any]) -> None:
        """Append one answer. fields: everything but the key's own."""
        self._append(key, request_key, _line(_row(key, request_key) | fields))

    def _append(self, key: RowKey, request_key: str, line: bytes) -> None:
        self._places[request_key] = (self._end, len(line))
        self._write_line(line)
        self._current[key] = request_key

    def _write_line(self, line: bytes) -> None:
        assert self._file is not None
        try:
            written = 0
            while written < len(line):  # a full disk may take a part; the rest then raises
                written += self._file.write(line[written:]) or 0
        except OSError as error:
            message = f"{self.path}: cannot be written ({error.strerror}); the answers so far are kept"
            raise GenerationError(message) from error
        self._end += len(line)
        if self._clock() - self._synced >= SYNC_INTERVAL_S:
            os.fsync(self._file.fileno())
            self._synced = self._clock()


def _row(key: RowKey, request_key: str) -> dict[str, Any]:
    who = {"problem_id": key.problem_id} if key.problem_id else {"name": key.name}
    return who | {"campaign": key.campaign, "attempt": key.attempt, "request_key": request_key}


def _line(row: dict[str, Any]) -> bytes:
    return json.dumps(row).encode() + b"\n"
