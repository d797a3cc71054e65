"""Killed zygotes, supervisors and callers; leaks over many runs."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dmc_optim.ces import Limits, Request, Status, TestCase
from dmc_optim.ces.engine.embedded import Embedded
from dmc_optim.ces.engine.procfs import descendants
from dmc_optim.errors import IsolationError

WORK = b"import sys, time\nn = int(sys.stdin.read())\ntime.sleep(0.01)\nprint(n * n)"


@pytest.fixture
def own() -> Iterator[Embedded]:
    """An engine for one test to maltreat."""
    try:
        engine = Embedded(2 if len(os.sched_getaffinity(0)) > 1 else 1)
    except IsolationError as error:
        pytest.skip(f"no full isolation here: {error}")
    with engine:
        yield engine


def request(count: int) -> Request:
    tests = tuple(TestCase(str(n), str(n).encode(), str(n * n).encode()) for n in range(count))
    return Request(WORK, tests)


def harass(victims: Callable[[], list[int]], every_s: float, kills: int) -> threading.Thread:
    """Kill -9 one of the victims now and then, in the background."""

    def work() -> None:
        for number in range(kills):
            time.sleep(every_s)
            found = victims()
            if found:
                try:
                    os.kill(found[number % len(found)], signal.SIGKILL)
                except ProcessLookupError:
                    pass

    thread = threading.Thread(target=work)
    thread.start()
    return thread


def zygotes(engine: Embedded) -> list[int]:
    """Everything below the supervisors: zygotes, templates, runs."""
    return [pid for supervisor in engine.supervisor_pids for pid in descendants(supervisor)]


@pytest.mark.parametrize("target", ["below", "supervisors"])
def test_killed_processes_cost_no_result_and_no_verdict(own: Embedded, target: str) -> None:
    victims = (lambda: zygotes(own)) if target == "below" else (lambda: own.supervisor_pids)
    thread = harass(victims, 0.4, 6)
    found = dict(own.execute_many(request(60) for _ in range(8)))
    thread.join()
    assert sorted(found) == list(range(8))
    for results in found.values():
        assert [result.test_id for result in results] == [str(n) for n in range(60)]
        assert {result.status for result in results} == {Status.SUCCESS}
    after = list(own.execute(request(20)))
    assert {result.status for result in after} == {Status.SUCCESS}


def test_a_killed_zygote_is_replaced_and_its_test_run_again(own: Embedded) -> None:
    code = b"import time\ntime.sleep(1.0)\nprint(1)"
    stream = own.execute(Request(code, (TestCase("t", b"", b"1"),)))
    time.sleep(0.4)
    for supervisor in own.supervisor_pids:
        children = list(descendants(supervisor))
        if children:
            os.kill(children[0], signal.SIGKILL)  # the first child of a supervisor is its zygote
    (result,) = stream
    assert (result.status, result.retries) == (Status.SUCCESS, 1)


def test_a_test_that_takes_every_supervisor_with_it_is_unknown_not_failed(own: Embedded) -> None:
    stop = threading.Event()

    def killer() -> None:
        while not stop.is_set():
            for pid in own.supervisor_pids:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            time.sleep(0.3)

    thread = threading.Thread(target=killer)
    thread.start()
    try:
        code = b"import time\ntime.sleep(30)"
        (result,) = own.execute(Request(code, (TestCase("t", b"", b""),), Limits(time_s=30)))
        assert result.status == Status.INFRASTRUCTURE
        assert result.duration_s is None and result.detail
    finally:
        stop.set()
        thread.join()
    assert {r.status for r in own.execute(request(5))} == {Status.SUCCESS}


CALLER = """
import sys, time
from dmc_optim.ces import Request, TestCase
from dmc_optim.ces.engine.embedded import Embedded
if __name__ == "__main__":
    engine = Embedded(1)
    stream = engine.execute(Request(b"import time; time.sleep(100)", (TestCase("t", b""),)))
    print(engine.supervisor_pids[0], *engine.slot_names, flush=True)
    time.sleep(100)
"""


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_everything_ends_with_the_caller(own: Embedded, how: signal.Signals) -> None:
    parents = own.plan.cgroups.parents
    caller = subprocess.Popen(
        [sys.executable, "-c", CALLER], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert caller.stdout is not None
    supervisor, name = caller.stdout.readline().split()
    time.sleep(0.3)
    below = descendants(int(supervisor))
    assert len(below) >= 2
    caller.send_signal(how)
    caller.wait(30)
    caller.stdout.close()
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline and any(Path(f"/proc/{pid}").exists() for pid in [int(supervisor), *below]):
        time.sleep(0.05)
    assert not [pid for pid in [int(supervisor), *below] if Path(f"/proc/{pid}").exists()]
    assert not [parent / name for parent in parents.values() if (parent / name).exists()]


def footprint(engine: Embedded) -> tuple[int, int, int, int, int]:
    """(descriptors, processes, threads, cgroups, resident bytes) of caller and supervisors."""
    supervisors = engine.supervisor_pids
    descriptors = sum(len(os.listdir(f"/proc/{pid}/fd")) for pid in (os.getpid(), *supervisors))
    cgroups = sum(
        len(list(parent.glob(f"dmc-optim-{os.getpid()}-*"))) for parent in engine.plan.cgroups.parents.values()
    )
    resident = sum(int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096 for pid in supervisors)
    return descriptors, len(zygotes(engine)), threading.active_count(), cgroups, resident


LITTER = b"""
import os
mode = input()
if mode == "files":
    for i in range(50): open(f"/tmp/f{i}", "w").write("x" * 1000)
elif mode == "orphan":
    if os.fork() == 0:
        os.setsid()
        import time; time.sleep(100)
elif mode == "crash": os.abort()
elif mode == "fds":
    kept = [os.memfd_create(str(i)) for i in range(100)]
print("x" * 1000)
"""


def litter(engine: Embedded, runs: int) -> None:
    modes = [b"files", b"plain", b"orphan", b"plain", b"crash", b"plain", b"fds", b"plain"]
    tests = tuple(TestCase(str(i), modes[i % len(modes)]) for i in range(200))
    done = 0
    while done < runs:
        for result in engine.execute(Request(LITTER, tests)):
            assert result.status == (Status.RUNTIME_EXCEPTION if int(result.test_id) % 8 == 4 else Status.SUCCESS), (
                result
            )
            assert result.retries == 0
            done += 1
        for mode in modes:  # the other process model
            list(engine.execute(Request(LITTER, (TestCase("one", mode),))))
            done += 1


def settled(engine: Embedded) -> tuple[int, int, int, int, int]:
    """The footprint once the sandboxes have put up their next templates."""
    time.sleep(0.5)
    return footprint(engine)


def growth(engine: Embedded, runs: int) -> None:
    litter(engine, 400)
    before = settled(engine)
    litter(engine, runs)
    after = settled(engine)
    assert after[0] <= before[0] and after[1] <= before[1] and after[2] <= before[2] and after[3] <= before[3]
    assert after[4] < before[4] * 1.05


def test_thousands_of_runs_leave_nothing_behind(own: Embedded) -> None:
    growth(own, 2000)


@pytest.mark.slow
@pytest.mark.timeout(3000)
def test_a_hundred_thousand_runs_leave_nothing_behind(own: Embedded) -> None:
    growth(own, 100_000)


def test_an_engine_started_and_closed_again_and_again_leaves_nothing_behind(own: Embedded) -> None:
    before = settled(own)
    for _ in range(5):
        with Embedded(1) as engine:
            assert {r.status for r in engine.execute(request(3))} == {Status.SUCCESS}
    after = settled(own)
    assert after[:4] == before[:4]


def test_the_engine_works_in_a_process_that_forks(own: Embedded) -> None:
    """A forked child of the caller holds copies of its sockets; nothing waits for it."""
    pid = os.fork()
    if pid == 0:
        time.sleep(3)
        os._exit(0)
    with Embedded(1) as engine:
        assert {r.status for r in engine.execute(request(5))} == {Status.SUCCESS}
    os.waitpid(pid, 0)
