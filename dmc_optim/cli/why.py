"""`dmc-optim why`: what happened to a problem, solution or test, and what decided."""

import json
import sys
from dataclasses import asdict

import click


@click.command()
@click.argument("directory", metavar="DIR")
@click.argument("wanted", metavar="ID")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")
def why(directory: str, wanted: str, as_json: bool) -> None:
    """Say what happened to a problem, solution or test, stage by stage, and what decided.

    ID is a problem id or name, or a solution or test id or its first digits; PROBLEM:ID where the same code or test
    occurs in several problems.

    \b
    Examples:
      dmc-optim why out train/532
      dmc-optim why out 3f2a9c0b
    """
    from dmc_optim.audit.connection import connect
    from dmc_optim.report.story import MATCHES_SHOWN, find, tell

    connection = connect(directory)
    matches = find(connection, wanted)
    if len(matches) > 1:
        click.echo(f"'{wanted}' may mean {len(matches)} things; name one:", err=True)
        for match in matches[:MATCHES_SHOWN]:
            own = "" if match.entity_id == match.problem_id else f":{match.entity_id}"
            kind = ", ".join(filter(None, [match.entity, match.label]))
            click.echo(f"  dmc-optim why {directory} {match.problem_id}{own}   ({kind})", err=True)
        if len(matches) > MATCHES_SHOWN:
            click.echo(f"  … and {len(matches) - MATCHES_SHOWN} more", err=True)
        sys.exit(2)
    story = tell(connection, matches[0])
    click.echo(json.dumps(asdict(story), indent=1) if as_json else story.text())
