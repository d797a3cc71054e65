"""The sentinels' programs and expected outputs, checked where it counts: in the sandbox."""

from contextlib import closing

import pytest

from dmc_optim.ces import connect
from dmc_optim.ces.health.sentinel import suite
from dmc_optim.ces.types import Request, TestCase
from dmc_optim.errors import EngineError
from schemas.enums import Status


def test_every_sentinel_succeeds_in_the_sandbox():
    try:
        executor = connect("embedded", slots=1)
    except EngineError as error:
        pytest.skip(f"no engine on this host: {error}")
    with closing(executor):
        for snippet in suite():
            test = TestCase(snippet.name, snippet.input, snippet.expected)
            (result,) = executor.execute(Request(snippet.code.encode(), (test,), comparator="exact"))
            assert (snippet.name, result.status, result.detail) == (snippet.name, Status.SUCCESS, "")
