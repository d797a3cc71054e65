"""`dmc-optim build`: the whole pipeline, or as far as asked."""

import json
import sys
from typing import Any

import click

from dmc_optim.errors import ConfigError
from schemas.enums import Stage


@click.command(context_settings={"ignore_unknown_options": False})
@click.option("--source", default="", metavar="PATH|GLOB|hf://…", help="CodeContests Parquet; default: the examples.")
@click.option("--out", required=True, metavar="DIR", help="Output directory; a build there is continued.")
@click.option("--config", "config_path", metavar="FILE", help="TOML over the defaults.")
@click.option("--benchmark", "benchmarks", multiple=True, metavar="PATH", help="Evaluation benchmark; repeatable.")
@click.option("--generator", metavar="SPEC", help="recorded:FILE.jsonl, openai:URL#MODEL or vllm:MODEL.")
@click.option("--judge", metavar="SPEC", help="Model that judges statements: openai:URL#MODEL or vllm:MODEL.")
@click.option("--ces", default="embedded", show_default=True, metavar="embedded|URL[,URL…]", help="Execution service.")
@click.option("--slots", type=click.IntRange(min=1), help="Executions at a time (embedded; default: one a core).")
@click.option("--tier", metavar="TIER", help="Isolation tier; default: the strongest this host gives.")
@click.option("--through", type=click.Choice([s.value for s in Stage]), help="Stop after this stage.")
@click.option("--limit-problems", type=int, metavar="N", help="Only the source's first N rows.")
@click.option("--limit-solutions", type=int, metavar="N", help="A seeded sample of N solutions a label and problem.")
@click.option("--runner", default="FnApiRunner", show_default=True, help="Beam runner.")
@click.option("--json", "as_json", is_flag=True, help="Print the funnel as JSON.")
@click.option("--quiet", is_flag=True, help="No progress.")
@click.argument("beam_options", nargs=-1, metavar="[-- BEAM OPTIONS]")
def build(**options: Any) -> None:
    """Turn CodeContests rows into DMC-Optim: validated, augmented, filtered, measured, split.

    A build that was stopped goes on where it was: run the same command again. Changed thresholds decide again from
    stored executions.

    \b
    Examples:
      dmc-optim build --out out
      dmc-optim build --source data/test.parquet --generator recorded:generators.jsonl \\
          --benchmark lcb.parquet --limit-problems 8 --limit-solutions 8 --out out/small
    """
    from dmc_optim import progress
    from pipeline.build import build as run_build
    from pipeline.build import with_defaults

    request = with_defaults(_request(options))
    progress.use(progress.for_terminal(quiet=options["quiet"] or options["as_json"]))
    result = run_build(request, lambda line: click.echo(line, err=True))
    _report(result, options["as_json"])


def _request(options: dict[str, Any]) -> Any:
    from pathlib import Path

    from pipeline.request import BuildRequest, bundled_config
    from transforms.context import EngineSpec

    if not options["out"].strip():
        raise ConfigError("--out: give a directory")
    if "://" not in options["out"] and Path(options["out"]).is_file():
        raise ConfigError(f"--out {options['out']}: is a file, give a directory")
    return BuildRequest(
        source=options["source"],
        out=options["out"],
        config=bundled_config(options["source"], options["config_path"]),
        benchmarks=tuple(options["benchmarks"]),
        generator=options["generator"],
        judge=options["judge"],
        engine=EngineSpec(options["ces"], options["slots"], options["tier"]),
        through=Stage(options["through"]) if options["through"] else Stage.DATASETS,
        limit_problems=options["limit_problems"],
        limit_solutions=options["limit_solutions"],
        runner=options["runner"],
        beam_options=tuple(options["beam_options"]),
    )


def _report(result: Any, as_json: bool) -> None:
    from dmc_optim.audit.connection import connect
    from dmc_optim.report.funnel import funnel, funnel_json, funnel_text

    rows = funnel(connect(result.layout.out), result.layout)
    if as_json:
        facts = {"out": result.layout.out, "ran": result.ran, "skipped": result.skipped, "seconds": result.seconds}
        json.dump({**facts, "warnings": result.warnings, "stages": funnel_json(rows)}, sys.stdout, indent=1)
        click.echo()
        return
    out = result.layout.out
    click.echo(funnel_text(rows))
    done = f"{len(result.ran)} stages run, {len(result.skipped)} were complete, {result.seconds:.1f} s"
    if any(row.state != "done" for row in rows):
        click.echo(f"\n{done}\nTables: {out}/tables")
        click.echo(f"Next: the same command without --through, or dmc-optim why {out} ID")
        return
    click.echo(f"\n{done}\nTables: {out}/tables   Published configurations: {out}/dataset")
    click.echo(f"Next: dmc-optim audit {out} --check   dmc-optim report {out} -o report.html   dmc-optim why {out} ID")
