"""`dmc-optim`: the command group. Commands are loaded when they are called, so that help is quick."""

import importlib
import sys
from typing import NoReturn

import click

from dmc_optim.errors import DmcOptimError

COMMANDS = {
    "build": "pipeline.cli:build",
    "plan": "pipeline.plan_cli:plan",
    "status": "dmc_optim.cli.status:status",
    "why": "dmc_optim.cli.why:why",
    "ces": "dmc_optim.cli.ces:ces",
    "audit": "dmc_optim.cli.audit:audit",
    "diff": "dmc_optim.cli.diff:diff",
    "report": "dmc_optim.cli.report:report",
    "publish": "dmc_optim.cli.publish:publish",
    "rank": "dmc_optim.cli.rank:rank",
    "simulate": "dmc_optim.cli.simulate:simulate",
    "study": "dmc_optim.cli.study:study",
    "generate": "dmc_optim.cli.generate:generate",
}
"""Command name → `module:attribute`. `build` and `plan` live with the pipeline, above this package in the layers."""


class LazyGroup(click.Group):
    """A group that imports a command's module when the command is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names, in the order of the table."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command, or None where there is none of that name."""
        if cmd_name not in COMMANDS:
            return None
        module, _, attribute = COMMANDS[cmd_name].partition(":")
        command = getattr(importlib.import_module(module), attribute)
        assert isinstance(command, click.Command)
        return command


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="dmc-optim")
@click.option("--debug", is_flag=True, help="Show tracebacks.")
def cli(debug: bool) -> None:
    """Build, measure, audit and use DMC-Optim.

    \b
    Example:
      dmc-optim build --out out && dmc-optim status out
    """


def main(arguments: list[str] | None = None) -> None:
    """Entry point: errors of ours are one line and an exit status, never a traceback."""
    arguments = sys.argv[1:] if arguments is None else arguments
    try:
        status = cli.main(args=arguments, prog_name="dmc-optim", standalone_mode=False)
        if isinstance(status, int) and status:  # click returns the status of an Exit instead of raising it
            sys.exit(status)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except click.exceptions.Exit as error:
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        _end_interrupted()
    except RuntimeError as error:
        if str(error) != "Query interrupted":  # DuckDB's word for Ctrl-C
            raise
        _end_interrupted()
    except DmcOptimError as error:
        if "--debug" in arguments:
            raise
        click.echo(f"error: {error}", err=True)
        sys.exit(error.exit_code)
    except BrokenPipeError:
        sys.exit(0)


def _end_interrupted() -> NoReturn:
    click.echo("interrupted; the same command goes on where it stopped", err=True)
    sys.exit(130)


if __name__ == "__main__":
    main()
