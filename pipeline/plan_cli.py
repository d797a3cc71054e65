"""`dmc-optim plan`: what a build will cost, before it is started."""

import json
from typing import Any

import click


@click.command()
@click.argument("source", default="", metavar="[SOURCE]")
@click.option("--config", "config_path", metavar="FILE", help="TOML over the defaults, as for `build`.")
@click.option("--limit-problems", type=int, metavar="N", help="Only the source's first N rows.")
@click.option("--limit-solutions", type=int, metavar="N", help="At most N solutions a label and problem.")
@click.option("--like", metavar="DIR", help="A finished build to take ratios, seconds and bytes a row from.")
@click.option("--all-attempts", is_flag=True, help="Every prompt gets an answer, whatever share had one in DIR.")
@click.option("--slots", type=click.IntRange(min=1), help="Executions at a time; default: what this host takes.")
@click.option("--json", "as_json", is_flag=True, help="Print the plan as JSON, every part of a stage in it.")
def plan(
    source: str,
    config_path: str | None,
    limit_problems: int | None,
    limit_solutions: int | None,
    like: str | None,
    all_attempts: bool,
    slots: int | None,
    as_json: bool,
) -> None:
    """Count SOURCE (a file, a glob, a folder or hf://…; default: the examples) and say what a build of it runs.

    The first table is an upper bound, exact by the rules: every solution on every distinct original test; every
    attempt answered and accepted with 15 new tests; no drop, no control that ends early. Infrastructure retries and
    repetitions are not in it. The text of solutions is not read, so duplicates among them count.

    What is expected needs --like DIR: each bound of this source times the share of its own bound that DIR did. For
    DIR's own source, what validation and the filter rounds run is then exact, but for what only the text of
    solutions shows; for another one it is an estimate, the better the more DIR is a sample of SOURCE. Votes of
    solutions that fail are counted with all their calls, which is a little much. Slot seconds are DIR's stage times
    × slots ÷ executions, start-up and waiting included, on DIR's machine; a build in one go and of some size
    measures them best. The time of a live model is not in them.

    \b
    Examples:
      dmc-optim plan
      dmc-optim build --source data/train.parquet --limit-problems 50 --out out/sample
      dmc-optim plan data/train.parquet --like out/sample --slots 64
    """
    from dmc_optim.artifacts.source import plan_ranges
    from dmc_optim.ces.engine.admission import possible_slots
    from pipeline.build import with_defaults
    from pipeline.plan_like import measure
    from pipeline.plan_report import PlanRequest, document, make_plan, plan_text
    from pipeline.plan_source import count_source
    from pipeline.request import BuildRequest, bundled_config, check

    config = bundled_config(source, config_path)
    asked: dict[str, Any] = {"limit_problems": limit_problems, "limit_solutions": limit_solutions}
    checked = check(with_defaults(BuildRequest(source, out="", config=config, **asked)))
    measured = measure(like) if like is not None else None
    counts = count_source(plan_ranges(checked.files, limit_problems), config.ingest.languages)
    request = PlanRequest(config, checked.shards, slots or possible_slots(), limit_solutions, all_attempts, like or "")
    found = make_plan(counts, request, measured)
    if as_json:
        click.echo(json.dumps(document(found, request, measured), indent=1))
    else:
        click.echo(plan_text(found, request, measured))
