"""Blobs, journals, the ledger and the rate window: bounds hold, and nothing in use is lost."""

import asyncio
import hashlib
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dmc_optim.ces.service.blobs import BlobStore, DigestMismatchError, StoreFullError
from dmc_optim.ces.service.journal import Journal
from dmc_optim.ces.service.ledger import Job, JobState, Ledger
from dmc_optim.ces.service.metrics import Metrics, RateWindow
from dmc_optim.ces.service.spool import SpoolDir
from dmc_optim.ces.types import Result
from schemas.enums import Status


class HandClock:
    """A clock that moves when told."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def _put(store: BlobStore, data: bytes) -> str:
    digest = hashlib.sha256(data).hexdigest()
    with store.upload(digest) as upload:
        upload.write(data[: len(data) // 2])
        upload.write(data[len(data) // 2 :])
        upload.commit()
    return digest


def test_blobs_leave_memory_for_disk_and_come_back(tmp_path: Path) -> None:
    store = BlobStore(tmp_path, memory_bytes=100, disk_bytes=1000)
    digests = [_put(store, bytes([i]) * 60) for i in range(5)]
    assert store.memory_bytes <= 100
    assert store.disk_bytes > 0
    assert not store.pin(digests)
    for i, digest in enumerate(digests):
        assert store.get(digest) == bytes([i]) * 60
        assert store.memory_bytes <= 100


def test_the_oldest_unpinned_blob_goes_first(tmp_path: Path) -> None:
    store = BlobStore(tmp_path, memory_bytes=50, disk_bytes=200)
    first, second, third = (_put(store, bytes([i]) * 60) for i in range(3))
    assert not store.pin([first])
    fourth = _put(store, b"d" * 60)
    assert [digest in store for digest in (first, second, third, fourth)] == [True, False, True, True]
    assert store.evictions == 1
    assert store.held_bytes == 180
    assert store.get(first) == b"\0" * 60


def test_a_store_of_pinned_blobs_takes_no_more(tmp_path: Path) -> None:
    store = BlobStore(tmp_path, memory_bytes=50, disk_bytes=100)
    digest = _put(store, b"a" * 80)
    assert not store.pin([digest])
    with pytest.raises(StoreFullError):
        _put(store, b"b" * 80)
    store.unpin([digest])
    other = _put(store, b"b" * 80)
    assert digest not in store and other in store
    assert len(list(tmp_path.iterdir())) <= 1


def test_pinning_is_all_or_nothing(tmp_path: Path) -> None:
    store = BlobStore(tmp_path, memory_bytes=50, disk_bytes=100)
    digest = _put(store, b"a" * 80)
    assert store.pin([digest, "0" * 64]) == ["0" * 64]
    other = _put(store, b"b" * 80)  # nothing was pinned, so the first one makes room
    assert digest not in store and other in store


def test_large_uploads_stream_to_disk(tmp_path: Path) -> None:
    store = BlobStore(tmp_path, memory_bytes=1 << 20, disk_bytes=1 << 30)
    data = os.urandom(3 << 20)
    digest = _put(store, data)
    assert store.memory_bytes == 0 and store.disk_bytes == len(data)
    assert not store.pin([digest])
    assert store.get(digest) == data
    assert store.memory_bytes == 0  # larger than all of the memory level


@pytest.mark.parametrize("size", [10, 3 << 20])
def test_uploads_that_fail_leave_nothing(tmp_path: Path, size: int) -> None:
    store = BlobStore(tmp_path, memory_bytes=1 << 20, disk_bytes=1 << 30)
    with pytest.raises(DigestMismatchError), store.upload("0" * 64) as upload:
        upload.write(b"x" * size)
        upload.commit()
    with store.upload("0" * 64) as upload:
        upload.write(b"x" * size)  # the client leaves before the end
    assert len(store) == 0 and list(tmp_path.iterdir()) == []


@given(st.lists(st.sampled_from([0, 1, 100, 16_385, 40_000]).map(lambda n: b"x" * n + b"\n"), max_size=25))
def test_journals_give_back_every_line(tmp_path_factory: pytest.TempPathFactory, lines: list[bytes]) -> None:
    path = tmp_path_factory.mktemp("journal") / "lines"
    journal = Journal(path)
    for line in lines:
        journal.append(line)
    assert len(journal) == len(lines)
    assert journal.size == sum(map(len, lines))
    joined, position = b"", 0
    while position < len(lines):
        part, after = journal.read(position, 50_000)
        assert after > position
        assert len(part) <= 50_000 or after == position + 1
        joined, position = joined + part, after
    assert joined == b"".join(lines)
    journal.close()
    assert not path.exists()


def test_journals_keep_memory_bounded(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "lines")
    for _ in range(3000):
        journal.append(b"y" * 1000)
    assert (tmp_path / "lines").stat().st_size > 2_000_000
    assert journal.read(2999, 10) == (b"y" * 1000, 3000)


def _job(tmp_path: Path, serial: int, lines: int = 1, base: int = 0) -> Job:
    job = Job(f"id{serial}", serial, "print", None, Journal(tmp_path / f"j{serial}"), base)
    for _ in range(lines):
        job.journal.append(b"x" * 100)
    return job


def _settle(ledger: Ledger, job: Job) -> None:
    job.state = JobState.FINISHED
    ledger.settle(job)


@pytest.mark.parametrize(
    ("entries", "size", "ttl", "left"),
    [(3, 1 << 20, 99.0, 3), (99, 2 * 1124, 99.0, 2), (99, 1 << 20, 4.5, 5), (99, 1 << 20, 99.0, 10)],
)
def test_finished_jobs_are_forgotten_by_number_size_and_age(
    tmp_path: Path, entries: int, size: int, ttl: float, left: int
) -> None:
    clock = HandClock()
    ledger = Ledger(entries, size, ttl, clock)
    running = _job(tmp_path, 99)
    ledger.add(running)
    for serial in range(10):
        job = _job(tmp_path, serial)
        ledger.add(job)
        _settle(ledger, job)
        clock.now += 1.0
    clock.now -= 1.0
    known = [serial for serial in range(10) if ledger.get(f"id{serial}")]
    assert known == list(range(10 - left, 10))
    assert ledger.get("id99") is running
    assert ledger.size_bytes == left * 1124


def test_a_forgotten_job_stays_readable_while_followed(tmp_path: Path) -> None:
    ledger = Ledger(0, 1 << 20, 99.0, HandClock())
    job = _job(tmp_path, 1)
    ledger.add(job)
    event = asyncio.Event()
    job.followers.add(event)
    _settle(ledger, job)
    assert ledger.get("id1") is None
    assert job.journal.read(0, 1000)[1] == 1
    job.followers.discard(event)
    ledger.release(job)
    assert job.journal.closed


def test_which_starts_a_job_serves(tmp_path: Path) -> None:
    job = _job(tmp_path, 1, lines=3, base=2)
    assert [job.serves(start) for start in (1, 2, 5, 6)] == [False, True, True, True]
    job.state = JobState.FINISHED
    assert [job.serves(start) for start in (1, 2, 5, 6)] == [False, True, True, False]


def test_rates_are_those_of_the_window() -> None:
    clock = HandClock()
    window = RateWindow(clock, window_s=10.0)
    assert window.share("timeout") == 0.0
    for _ in range(3):
        window.add("verdict")
    window.add("timeout")
    assert window.share("timeout") == 0.25
    clock.now = 8.0
    window.add("infrastructure")
    assert window.share("timeout") == 0.2
    clock.now = 15.0
    assert window.share("timeout") == 0.0
    assert window.share("infrastructure") == 1.0


def test_minutes_without_verdicts_are_a_burst() -> None:
    clock = HandClock()
    metrics = Metrics(clock)

    def burst() -> tuple[float, float]:
        text = metrics.text().decode()
        values = [re.search(rf"^ces_{name} (\S+)$", text, re.MULTILINE) for name in ("bursts", "in_burst")]
        return tuple(float(value.group(1)) for value in values if value)  # type: ignore[return-value]

    good, bad = (Result("t", status) for status in (Status.SUCCESS, Status.INFRASTRUCTURE))
    for clock.now, results in ((30.0, [good] * 10), (90.0, [good] * 8 + [bad]), (150.0, [good])):
        for result in results:
            metrics.observe(result)
        if clock.now == 90.0:
            metrics.lost(1)
            assert burst() == (0.0, 0.0)  # its minute is not over
    assert burst() == (1.0, 1.0)
    clock.now = 210.0
    assert burst() == (1.0, 0.0)


def test_a_killed_node_leaves_no_spool_behind_the_next_start(tmp_path: Path) -> None:
    script = (
        "import os, sys, signal; from pathlib import Path; from dmc_optim.ces.service.spool import SpoolDir; "
        "spool = SpoolDir(Path(sys.argv[1])); (spool.path / 'blob').write_bytes(b'x'); "
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    subprocess.run([sys.executable, "-c", script, str(tmp_path)], cwd=Path(__file__).resolve().parents[2], check=False)
    living = SpoolDir(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [living.path.name]
    second = SpoolDir(tmp_path)  # a living node's directory is left alone
    assert living.path.exists()
    second.close()
    living.close()
    assert list(tmp_path.iterdir()) == []
