"""The result lines of one request, kept for the clients that follow and replay it.

Short lines stay in memory; long ones, and all lines beyond a bound, go to a file that is opened only to add or
read, so thousands of finished requests hold no descriptor.
"""

from pathlib import Path

_LINE_IN_MEMORY = 16 * 1024
_TOTAL_IN_MEMORY = 512 * 1024


class Journal:
    """An append-only list of byte lines. Not thread-safe.

    path: the file used once lines leave memory.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lines: list[bytes | tuple[int, int]] = []
        self._in_memory = 0
        self._on_disk = 0
        self.closed = False

    def __len__(self) -> int:
        return len(self._lines)

    @property
    def size(self) -> int:
        """Bytes held, in memory and on disk."""
        return self._in_memory + self._on_disk

    def append(self, line: bytes) -> None:
        """Add a line."""
        if len(line) <= _LINE_IN_MEMORY and self._in_memory + len(line) <= _TOTAL_IN_MEMORY:
            self._lines.append(line)
            self._in_memory += len(line)
            return
        with self._path.open("ab") as file:
            file.write(line)
        self._lines.append((self._on_disk, len(line)))
        self._on_disk += len(line)

    def read(self, start: int, most_bytes: int) -> tuple[bytes, int]:
        """Lines from `start` on, joined: at least one when there is one, then as many as fit in most_bytes.

        Returns the bytes and the position after the last line in them.
        """
        parts: list[bytes] = []
        total = 0
        position = start
        while position < len(self._lines):
            entry = self._lines[position]
            length = len(entry) if isinstance(entry, bytes) else entry[1]
            if parts and total + length > most_bytes:
                break
            parts.append(entry if isinstance(entry, bytes) else self._from_disk(*entry))
            total += length
            position += 1
        return b"".join(parts), position

    def _from_disk(self, offset: int, length: int) -> bytes:
        with self._path.open("rb") as file:
            file.seek(offset)
            return file.read(length)

    def close(self) -> None:
        """Forget every line and remove the file."""
        self.closed = True
        if self._on_disk:
            self._path.unlink(missing_ok=True)
        self._lines = []
        self._in_memory = self._on_disk = 0
