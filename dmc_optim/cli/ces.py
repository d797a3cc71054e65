"""`dmc-optim ces`: run programs in the sandbox, measure it, say what this host can isolate."""

import importlib
import json
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

import click

from dmc_optim.errors import SourceError

SUBCOMMANDS = {
    "run": "dmc_optim.cli.ces:run",
    "serve": "dmc_optim.cli.ces_serve:serve",
    "bench": "dmc_optim.cli.ces_bench:bench",
    "doctor": "dmc_optim.cli.ces_doctor:doctor",
    "calibrate": "dmc_optim.cli.ces_calibrate:calibrate",
    "probe": "dmc_optim.cli.ces_calibrate:probe",
}
"""Subcommand → `module:attribute`; a module is imported when its command is asked for."""


class LazySubcommands(click.Group):
    """A group that imports a subcommand's module when it is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names, in the order of the table."""
        return list(SUBCOMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The subcommand, or None where there is none of that name."""
        if cmd_name not in SUBCOMMANDS:
            return None
        module, _, attribute = SUBCOMMANDS[cmd_name].partition(":")
        command = getattr(importlib.import_module(module), attribute)
        assert isinstance(command, click.Command)
        return command


@click.group(cls=LazySubcommands)
def ces() -> None:
    """Execute untrusted programs, measured: as a command, as a service, embedded.

    \b
    Example:
      dmc-optim ces doctor
    """


@click.command()
@click.argument("cases")
@click.option("--ces", "service", default="embedded", show_default=True, help="`embedded`, or URL[,URL…] of services.")
@click.option("--slots", type=click.IntRange(min=1), help="Executions at once; default: as many as the host can hold.")
@click.option("--tier", help="Isolation: full (default), any, or full-v2, full-v1, userns, rlimit.")
@click.option("--token", envvar="DMC_OPTIM_CES_TOKEN", help="Bearer token of the services.")
@click.option("--time-limit", type=click.FloatRange(min=0.01), help="Seconds an execution may take.")
@click.option("--all-fields", is_flag=True, help="Write every field of a result, stderr and output too.")
@click.option("--json", "as_json", is_flag=True, help="JSON lines: the only form there is, so this changes nothing.")
def run(
    cases: str,
    service: str,
    slots: int | None,
    tier: str | None,
    token: str | None,
    time_limit: float | None,
    all_fields: bool,
    as_json: bool,
) -> None:
    """Run the executions of a JSON-lines file (- for standard input).

    Each line is {id, solution, input, expected_output, comparator?}; for each, one line {id, status, duration_s,
    cpu_s, wall_s, peak_memory_bytes, detail} is written, in the same order. An unusable line ends the run with
    exit status 2, after the results of the lines before it.

    \b
    Example:
      echo '{"id": 1, "solution": "print(input())", "input": "a", "expected_output": "a"}' | dmc-optim ces run -
    """
    from dmc_optim.ces import Limits, connect
    from dmc_optim.ces.cases import read_cases, run_cases

    limits = Limits() if time_limit is None else replace(Limits(), time_s=time_limit)
    with _opened(cases) as lines, closing(connect(service, slots=slots, tier=tier, token=token)) as executor:
        name = "standard input" if cases == "-" else cases
        for row in run_cases(executor, read_cases(lines, name, limits), all_fields):
            sys.stdout.buffer.write(json.dumps(row, ensure_ascii=False).encode() + b"\n")
            sys.stdout.buffer.flush()


@contextmanager
def _opened(cases: str) -> Iterator[BinaryIO]:
    """The file to read; standard input for `-`."""
    if cases == "-":
        yield sys.stdin.buffer
        return
    try:
        file = Path(cases).open("rb")  # noqa: SIM115  closed below; errors of reading are not errors of opening
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise SourceError(f"{cases}: {why}: name a file of JSON lines, or - for standard input") from error
    with file:
        yield file
