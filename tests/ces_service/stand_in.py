"""An executor that waits instead of running programs, and notes what it was asked; runs in the test process or alone.

A program is a JSON object: {"sleep": seconds, "faults": n (the first n calls of a test are infrastructure), "raise":
text (the executor itself fails), "skip": true (ends one result early)}. Its output is the input in upper case.
"""

import hashlib
import json
import sys
import threading
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from dmc_optim.ces.types import Request, Result, TestCase
from schemas.enums import Status


class StandIn:
    """Executor and Cancellable. log: file that gets a line `start ID` and `end ID` for each execution."""

    def __init__(self, slots: int = 2, log: Path | None = None, node: str = "stand-in") -> None:
        self._slots = slots
        self._log = log
        self._node = node
        self._cancelled: dict[str, threading.Event] = {}
        self._lock = threading.Lock()
        self._free = threading.Semaphore(slots)
        self.started: Counter[str] = Counter()
        self.ended: Counter[str] = Counter()
        self.now = 0
        self.most_at_once = 0

    @property
    def parallelism(self) -> int:
        return self._slots

    def execute(self, request: Request) -> Iterator[Result]:
        behaviour = {} if request.code == b"print(1)\n" else json.loads(request.code)
        stop = self._cancelled.setdefault(request.request_id, threading.Event())
        if "raise" in behaviour:
            raise RuntimeError(behaviour["raise"])
        tests = request.tests[:-1] if behaviour.get("skip") else request.tests
        for test in tests:
            result = self._one(request, test, behaviour, stop)
            if result is None:
                return
            yield result
            if request.stop.ends_after(result.status):
                return

    def execute_many(self, requests: Iterable[Request]) -> Iterator[tuple[int, list[Result]]]:
        for index, request in enumerate(requests):
            yield index, list(self.execute(request))

    def cancel(self, request_id: str) -> None:
        if request_id in self._cancelled:
            self._cancelled[request_id].set()

    def close(self) -> None: ...

    def _one(self, request: Request, test: TestCase, behaviour: dict[str, Any], stop: threading.Event) -> Result | None:
        while not self._free.acquire(timeout=0.01):
            if stop.is_set():
                return None
        try:
            return self._run(request, test, behaviour, stop)
        finally:
            self._free.release()

    def _run(self, request: Request, test: TestCase, behaviour: dict[str, Any], stop: threading.Event) -> Result | None:
        self._note("start", test.id, self.started)
        with self._lock:
            self.now += 1
            self.most_at_once = max(self.most_at_once, self.now)
        cancelled = stop.wait(behaviour.get("sleep", 0.0))
        with self._lock:
            self.now -= 1
        if cancelled:
            return None
        self._note("end", test.id, self.ended)
        facts: dict[str, Any] = {"node": self._node, "engine": "stand-in", "tier": "none", "interpreter": "none"}
        if self.started[test.id] <= behaviour.get("faults", 0):
            return Result(test.id, Status.INFRASTRUCTURE, detail="stand-in fault", **facts)
        output = test.input.upper()
        return Result(
            test.id,
            Status.SUCCESS if test.expected in (None, output) else Status.WRONG_ANSWER,
            duration_s=duration_of(test.input),
            wall_s=behaviour.get("sleep", 0.0),
            queue_s=0.0,
            output=output if request.return_output else None,
            **facts,
        )

    def _note(self, what: str, test_id: str, counter: Counter[str]) -> None:
        with self._lock:
            counter[test_id] += 1
            if self._log is not None:
                with self._log.open("a") as file:
                    file.write(f"{what} {test_id}\n")


def duration_of(data: bytes) -> float:
    """The duration that the stand-in reports for an input."""
    return 0.001 + hashlib.sha256(data).digest()[0] / 1000


def program(**behaviour: Any) -> bytes:
    """A program of the stand-in."""
    return json.dumps(behaviour).encode()


def suite(count: int, label: str = "t", wrong: Iterable[int] = ()) -> tuple[TestCase, ...]:
    """Tests whose answers are right but for the positions in `wrong`."""
    failing = set(wrong)
    return tuple(
        TestCase(
            f"{label}{i}",
            f"input {label}{i}\n".encode(),
            b"no" if i in failing else f"INPUT {label.upper()}{i}\n".encode(),
        )
        for i in range(count)
    )


def main() -> None:
    """Serve a stand-in: `python stand_in.py '{"port": 0, "slots": 2, "log": …, settings…}'`."""
    from dmc_optim.ces.service.server import serve
    from dmc_optim.ces.service.settings import ServiceSettings

    options = json.loads(sys.argv[1])
    port = options.pop("port", 0)
    slots = options.pop("slots", 2)
    log = options.pop("log", None)
    settings = ServiceSettings(**{k: Path(v) if k == "spool_dir" else v for k, v in options.items()})
    executor = StandIn(slots, Path(log) if log else None, node=settings.node or "stand-in")
    serve(executor, settings, "127.0.0.1", port, lambda url: print(url, flush=True))


if __name__ == "__main__":
    main()
