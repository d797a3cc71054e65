"""`dmc-optim publish`: put a build's data sets on the Hugging Face Hub."""

import json
import sys
from typing import Any

import click


@click.command()
@click.argument("directory", metavar="DIR")
@click.option("--repo-id", required=True, metavar="OWNER/NAME", help="Data-set repository; made when it is missing.")
@click.option("--tag", metavar="TAG", help="Name of the revision; default: v and the schema version.")
@click.option("--private", is_flag=True, help="Make a new repository private.")
@click.option("--dry-run", is_flag=True, help="List files and sizes and check the card; send nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")
def publish(directory: str, repo_id: str, tag: str | None, private: bool, dry_run: bool, as_json: bool) -> None:
    """Upload DIR/dataset to the Hub and tag the revision. Logs in as `hf auth login` left it.

    \b
    Example:
      dmc-optim publish out --repo-id me/dmc-optim --dry-run
    """
    from dmc_optim.artifacts import hub

    if repo_id.count("/") != 1 or not all(repo_id.split("/")):
        raise click.UsageError(f"--repo-id {repo_id}: must look like owner/name")
    planned = hub.plan(directory, tag)
    if dry_run:
        _show(planned, repo_id, as_json)
        sys.exit(2 if planned.problems else 0)
    commit = hub.publish(planned, repo_id, hub.hub_api(), private)
    result = {"repo_id": repo_id, "tag": planned.tag, "commit": commit, "bytes": planned.n_bytes}
    click.echo(json.dumps(result) if as_json else f"published {repo_id} at {planned.tag} ({commit})")


def _show(planned: Any, repo_id: str, as_json: bool) -> None:
    from dmc_optim.report.text import text_table

    if as_json:
        document = {
            "repo_id": repo_id,
            "tag": planned.tag,
            "files": [{"path": path, "bytes": size} for path, size in planned.files],
            "bytes": planned.n_bytes,
            "configurations": planned.configurations,
            "problems": planned.problems,
        }
        click.echo(json.dumps(document, indent=1))
        return
    click.echo(text_table(["file", "bytes"], planned.files))
    click.echo(f"\n{len(planned.files)} files, {planned.n_bytes:,} bytes → {repo_id}, tag {planned.tag}")
    click.echo(f"configurations: {', '.join(planned.configurations) or 'none'}")
    for problem in planned.problems:
        click.echo(f"problem: {problem}")
    click.echo("nothing was sent" + ("; mend the problems first" if planned.problems else ""))
