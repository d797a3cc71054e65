"""`dmc-optim diff`: which decisions changed between two builds, and why."""

import json
from dataclasses import asdict

import click

SHOWN = 30


@click.command()
@click.argument("first", metavar="A")
@click.argument("second", metavar="B")
@click.option("--all", "show_all", is_flag=True, help="List every change, not the first ones of each entity.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of tables.")
def diff(first: str, second: str, show_all: bool, as_json: bool) -> None:
    """Compare two builds: settings that differ, and every problem, solution and test whose fate changed.

    \b
    Example:
      dmc-optim diff out/strict out/lenient
    """
    from dmc_optim.audit.connection import connect
    from dmc_optim.report.compare import WITH_ITS_PROBLEM, compare
    from dmc_optim.report.text import text_table

    result = compare(connect(first), connect(second))
    if as_json:
        click.echo(json.dumps(asdict(result), indent=1))
        return
    if result.settings:
        cells = [(setting.key, setting.before, setting.after) for setting in result.settings]
        click.echo(text_table(["setting", first, second], cells) + "\n")
    if not result.changes:
        click.echo("no decision changed")
        return
    click.echo(text_table(["entity", "before", "after", "changes"], result.summary()))
    for entity in ("row", "problem", "solution", "test"):
        changes = [change for change in result.changes if change.entity == entity]
        own = [change for change in changes if change.cause != WITH_ITS_PROBLEM]
        shown = changes if show_all else own[:SHOWN]
        if shown:
            own_id = entity in ("solution", "test")
            rows = [
                (f"{c.problem_id}:{c.entity_id}" if own_id else c.problem_id, c.before, c.after, c.cause) for c in shown
            ]
            click.echo("\n" + text_table([entity, "before", "after", "why"], rows))
        if len(changes) > len(shown):
            with_problem = len(changes) - len(own)
            note = f" ({with_problem} because {WITH_ITS_PROBLEM})" if with_problem else ""
            left = len(changes) - len(shown)
            click.echo(f"… {left} more {entity}{'s' if left > 1 else ''}{note}; --all lists them")
