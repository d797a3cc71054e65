"""`dmc-optim audit`: questions to a build in SQL, and the checks that its rows must pass."""

import json
import sys
from typing import Any

import click


@click.command()
@click.argument("directory", metavar="DIR")
@click.option("--sql", metavar="QUERY", help="Run a query over the views and print its rows.")
@click.option("--check", is_flag=True, help="Run every declared check; exit 1 when one is violated.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
def audit(directory: str, sql: str | None, check: bool, as_json: bool) -> None:
    """Ask a build in SQL, or check it.

    Every table is a DuckDB view, and so is what survives each stage (survivors_STAGE_problems, _solutions, _tests).
    Without --sql and --check, the views are listed with their rows.

    \b
    Examples:
      dmc-optim audit out --check
      dmc-optim audit out --sql "SELECT reason, count(*) AS n FROM exclusions GROUP BY reason ORDER BY n DESC"
    """
    from dmc_optim.audit.connection import connect, query

    if sql and check:
        raise click.UsageError("give --sql or --check, not both")
    connection = connect(directory)
    if check:
        _check(connection, directory, as_json)
    elif sql:
        names, rows = query(connection, sql)
        _print(names, rows, as_json)
    else:
        _list_views(connection, as_json)


def _check(connection: Any, directory: str, as_json: bool) -> None:
    from dataclasses import asdict

    from dmc_optim.artifacts.layout import Layout
    from dmc_optim.audit.run import count_checks, run_checks

    layout = Layout(directory)
    violations = list(run_checks(connection, layout))
    checked = count_checks(layout)
    if as_json:
        document = {"checks": checked, "violations": [asdict(violation) for violation in violations]}
        click.echo(json.dumps(document, indent=1, default=str))
    elif not violations:
        click.echo(f"{checked} checks, no violation")
    else:
        for violation in violations:
            click.echo(f"{violation.check}: {violation.rows} rows\n  rule: {violation.rule}")
            for example in violation.examples:
                click.echo("  e.g. " + ", ".join(f"{key}={value}" for key, value in example.items()))
        click.echo(f"{checked} checks, {len(violations)} violated")
    if violations:
        sys.exit(1)


def _list_views(connection: Any, as_json: bool) -> None:
    from schemas import TABLES

    rows = [
        (name, connection.execute(f"SELECT count(*) FROM {name}").fetchone()[0], table.description)
        for name, table in TABLES.items()
    ]
    _print(["table", "rows", "description"], rows, as_json)
    if not as_json:
        click.echo("\nAlso: stages, config, fates, survivors_STAGE and survivors_STAGE_{problems,solutions,tests}")


def _print(names: list[str], rows: list[tuple[Any, ...]], as_json: bool) -> None:
    from dmc_optim.report.text import text_table

    if as_json:
        click.echo(json.dumps([dict(zip(names, row, strict=True)) for row in rows], indent=1, default=str))
    else:
        click.echo(text_table(names, rows))
