"""`dmc-optim status`: what a build has done, what it dropped, where things are."""

import json
from typing import Any

import click


@click.command()
@click.argument("directory", metavar="DIR")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
def status(directory: str, as_json: bool) -> None:
    """Show the stages of a build, its funnel with drop reasons, and where things are.

    \b
    Example:
      dmc-optim status out
    """
    from dmc_optim.artifacts.layout import Layout
    from dmc_optim.audit.connection import connect
    from dmc_optim.report.funnel import funnel, funnel_json, funnel_text

    connection, layout = connect(directory), Layout(directory)
    rows = funnel(connection, layout)
    manifest = layout.read_json(layout.path("manifest.json")) or {}
    places = _places(layout)
    missing = [row.stage for row in rows if row.state != "done"]
    if as_json:
        facts = {key: manifest.get(key) for key in ("schema_version", "build_digest", "source", "limits", "created")}
        document = {**facts, "complete": not missing, "stages": funnel_json(rows), "places": places}
        click.echo(json.dumps(document, indent=1, default=str))
        return
    click.echo(_headline(directory, manifest, missing))
    click.echo("\n" + funnel_text(rows) + "\n")
    for what, where in places.items():
        click.echo(f"{what + ':':<16}{where}")
    click.echo("\n" + _next_step(directory, missing))


def _headline(directory: str, manifest: dict[str, Any], missing: list[str]) -> str:
    state = "complete" if not missing else f"{len(missing)} stages to go, next: {missing[0]}"
    parts = [f"{directory}: {state}"]
    source = manifest.get("source")
    facts = {
        "source": source.get("url") if isinstance(source, dict) else source,
        "digest": manifest.get("build_digest"),
        "created": manifest.get("created"),
    }
    parts += [f"{label} {value}" for label, value in facts.items() if value]
    limits = {key: value for key, value in (manifest.get("limits") or {}).items() if value is not None}
    if limits:
        parts.append("under limits " + ", ".join(f"{key}={value}" for key, value in sorted(limits.items())))
    return "; ".join(parts)


def _places(layout: Any) -> dict[str, str]:
    """What exists, by name."""
    candidates = {
        "tables": "tables",
        "datasets": "dataset",
        "dataset card": "dataset/README.md",
        "manifest": "manifest.json",
        "stage records": "stages",
    }
    return {name: layout.path(part) for name, part in candidates.items() if layout.fs.exists(layout.path(part))}


def _next_step(directory: str, missing: list[str]) -> str:
    if missing:
        return "Go on with the same `dmc-optim build` command; finished stages are skipped."
    return (
        f"Next: `dmc-optim audit {directory} --check`, `dmc-optim report {directory} -o report.html`, "
        f"`dmc-optim why {directory} ID`."
    )
