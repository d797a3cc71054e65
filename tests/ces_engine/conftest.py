"""One engine for the folder; tests that need full isolation are skipped, saying why, where the host cannot give it."""

from collections.abc import Callable, Iterator

import pytest

from dmc_optim.ces import Limits, Request, Result, TestCase
from dmc_optim.ces.engine.embedded import Embedded
from dmc_optim.errors import IsolationError

Run = Callable[..., Result]


@pytest.fixture(scope="session")
def engine() -> Iterator[Embedded]:
    try:
        engine = Embedded()
    except IsolationError as error:
        pytest.skip(f"no full isolation here: {error}")
    with engine:
        yield engine


@pytest.fixture(scope="session")
def run(engine: Embedded) -> Run:
    """Run one program on one input and return its result, with output."""

    def run_one(
        code: str | bytes,
        input_: bytes = b"",
        expected: bytes | None = None,
        comparator: str = "trimmed",
        **limits: object,
    ) -> Result:
        source = code.encode() if isinstance(code, str) else code
        request = Request(
            source,
            (TestCase("test", input_, expected),),
            Limits(**limits),  # type: ignore[arg-type]
            comparator,
            return_output=True,
        )
        (result,) = engine.execute(request)
        return result

    return run_one
