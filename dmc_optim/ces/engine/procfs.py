"""Process trees from /proc."""

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path


def descendants(root: int) -> list[int]:
    """Process ids below root, parents before children."""
    children: dict[int, list[int]] = {}
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            try:
                parent = int(Path(entry.path, "stat").read_text().rpartition(")")[2].split()[1])
            except (OSError, IndexError, ValueError):
                continue
            children.setdefault(parent, []).append(int(entry.name))
    found: list[int] = []
    front = [root]
    while front:
        below = children.get(front.pop(), [])
        found += below
        front += below
    return found


def living() -> set[int]:
    """Every process id there is."""
    return {int(entry.name) for entry in os.scandir("/proc") if entry.name.isdigit()}


def threads_of(uid: int) -> int:
    """Threads that a user has on this host: what RLIMIT_NPROC counts."""
    total = 0
    for pid in living():
        try:
            status = Path(f"/proc/{pid}/status").read_text()
        except OSError:
            continue
        fields = dict(line.split(":", 1) for line in status.splitlines() if ":" in line)
        if int(fields.get("Uid", "-1").split()[0]) == uid:
            total += int(fields.get("Threads", "0"))
    return total


def longest_wait_s(pids: Iterable[int]) -> float:
    """Seconds that one of several processes was ready but did not run; the longest, because what processes of one
    program wait for each other is its own doing."""
    waited = 0
    for pid in pids:
        with suppress(OSError, ValueError, IndexError):
            waited = max(waited, int(Path(f"/proc/{pid}/schedstat").read_text().split()[1]))
    return waited / 1e9
