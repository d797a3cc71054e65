"""`dmc-optim ces doctor`: which isolation this host gives, why not more, and what to change."""

import json

import click


@click.command()
@click.option("--python", "executable", default="", help="Interpreter that programs would run under.")
@click.option("--json", "as_json", is_flag=True, help="Print the findings as one JSON object.")
def doctor(executable: str, as_json: bool) -> None:
    """Say which isolation tier this host can give, why not a higher one, and what to change.

    Every tier is tried by running a program in it. Exit status 1 when no tier with namespaces and cgroups works.

    \b
    Example:
      dmc-optim ces doctor --json
    """
    from dmc_optim.ces.engine.doctor import as_text, examine

    report = examine(executable)
    click.echo(json.dumps(report.as_json(), indent=2) if as_json else as_text(report))
    if not any(finding.works and finding.tier.limits_by_cgroup for finding in report.findings):
        raise click.exceptions.Exit(1)
