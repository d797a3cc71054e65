"""A program asked for again stays compiled between requests: nobody can tell, except by the clock."""

import os
import signal

import pytest

from dmc_optim.ces import Limits, Request, Result, Status, TestCase
from dmc_optim.ces.engine.embedded import Embedded
from dmc_optim.ces.engine.procfs import descendants
from dmc_optim.errors import IsolationError
from tests.ces_engine.test_executor import ECHO, cases_of, statuses

COUNTER = b"""
import os, sys
seen = globals().setdefault("seen", [])
seen.append(1)
sys.modules["math"].left = getattr(sys.modules["math"], "left", 0) + 1
files = os.listdir("/tmp")
open("/tmp/left", "w").close()
print(len(seen), sys.modules["math"].left, files, input())
"""


def one(engine: Embedded, code: bytes, word: str, **options: object) -> Result:
    request = Request(code, (TestCase("t", word.encode()),), return_output=True, **options)  # type: ignore[arg-type]
    (result,) = engine.execute(request)
    return result


def test_every_run_is_the_first_of_its_process(engine: Embedded) -> None:
    for number in range(8):
        result = one(engine, COUNTER, f"w{number}")
        assert (result.status, result.output) == (Status.SUCCESS, f"1 1 [] w{number}\n".encode())
        assert result.retries == 0


def test_other_limits_comparators_and_outcomes_in_between(engine: Embedded) -> None:
    for _ in range(2):
        assert statuses(list(engine.execute(Request(ECHO, cases_of("a", "wrong"))))) == ["success", "wrong_answer"]
        assert one(engine, ECHO, "slow", limits=Limits(time_s=0.2)).status is Status.TIMEOUT
        assert one(engine, ECHO, "crash").status is Status.RUNTIME_EXCEPTION
        padded = Request(ECHO, (TestCase("t", b"a ", b"a"),), comparator="exact")
        assert statuses(list(engine.execute(padded))) == ["wrong_answer"]
        assert statuses(list(engine.execute(Request(ECHO, (TestCase("t", b"a ", b"a"),))))) == ["success"]
        assert one(engine, b"print(", "").status is Status.SYNTAX_ERROR
        assert one(engine, b"print(", "").status is Status.SYNTAX_ERROR
        assert one(engine, b"print(7)", "").output == b"7\n"


def test_a_killed_template_costs_a_retry_and_no_verdict() -> None:
    try:
        engine = Embedded(1)
    except IsolationError as error:
        pytest.skip(f"no full isolation here: {error}")
    with engine:
        for number in range(6):
            for pid in descendants(engine.supervisor_pids[0]) if number % 2 else ():
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            assert one(engine, ECHO, f"w{number}").output == f"w{number}\n".encode()


def test_it_is_compiled_anew_in_time(engine: Embedded) -> None:
    requests = [Request(ECHO, cases_of(f"w{number}")) for number in range(2500)]
    found = [results for _, results in engine.execute_many(requests)]
    assert {str(result.status) for results in found for result in results} == {"success"}
    assert sum(result.retries for results in found for result in results) == 0
