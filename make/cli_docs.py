"""Print docs/cli.md: the help of every command, in the order of the command table."""

import sys
from collections.abc import Iterator

import click

from dmc_optim.cli.main import cli

HEAD = "# Commands\n\nGenerated from `--help` by `make docs`; a test fails when this page and the help differ.\n"


def commands(group: click.Group, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """(words, command) of every command below a group, groups first."""
    context = click.Context(group, info_name=path[-1])
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        yield (*path, name), command
        if isinstance(command, click.Group):
            yield from commands(command, (*path, name))


def help_text(path: tuple[str, ...], command: click.Command) -> str:
    """The help as a terminal of 100 columns shows it."""
    settings = {"help_option_names": cli.context_settings["help_option_names"], "max_content_width": 100}
    context = click.Context(command, info_name=" ".join(path), terminal_width=100, **settings)
    return command.get_help(context)


def page() -> str:
    """The whole page."""
    parts = [HEAD]
    for path, command in [(("dmc-optim",), cli), *commands(cli, ("dmc-optim",))]:
        parts.append(f"## {' '.join(path)}\n\n```text\n{help_text(path, command)}\n```\n")
    return "\n".join(parts)


if __name__ == "__main__":
    sys.stdout.write(page())
