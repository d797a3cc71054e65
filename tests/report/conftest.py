"""The small build on disk, once a session, and commands run as a person runs them."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import duckdb
import pytest

from dmc_optim.audit.connection import connect
from dmc_optim.cli.main import main
from tests.audit.small_build import SmallBuild


class Outcome(NamedTuple):
    code: int
    out: str
    err: str


Run = Callable[..., Outcome]


@pytest.fixture(scope="session")
def rows() -> SmallBuild:
    return SmallBuild()


@pytest.fixture(scope="session")
def small(rows: SmallBuild, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return rows.write(tmp_path_factory.mktemp("small"))


@pytest.fixture(scope="session")
def connection(small: Path) -> duckdb.DuckDBPyConnection:
    return connect(str(small))


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Run the real entry point: exit status, standard output, standard error."""

    def call(*arguments: object) -> Outcome:
        code = 0
        try:
            main([str(argument) for argument in arguments])
        except SystemExit as stopped:
            code = int(stopped.code or 0)
        out, err = capsys.readouterr()
        return Outcome(code, out, err)

    return call
