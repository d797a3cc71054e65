"""`dmc-optim simulate`: screen environments and rewards offline, from a build's stored durations."""

import json
from pathlib import Path
from typing import Any

import click

from dmc_optim.cli.study import checked_calibration, selection_options


def _draws(ctx: click.Context, param: click.Parameter, value: str) -> int | None:
    if value == "all":
        return None
    if not value.isdigit() or int(value) < 1:
        raise click.BadParameter(f"{value!r} is neither a positive number nor `all`")
    return int(value)


@click.command()
@click.argument("build", metavar="DIR")
@click.option("--out", type=click.Path(path_type=Path), help="Folder of the results.  [default: DIR/simulation]")
@click.option("--environment", "environments", multiple=True, help="Only this one, or this family; repeatable.")
@click.option("--reward", "rewards", multiple=True, help="family/map; repeatable.  [default: each environment's own]")
@click.option("--show", multiple=True, help="Print this configuration, and show its curve first; repeatable.")
@click.option(
    "--against",
    type=click.Path(path_type=Path),
    help="CSV of online runs: environment, optional reward, one column a result; prints rank correlations.",
)
@selection_options
@click.option("--calibration", callback=checked_calibration, help="ALPHA,BETA in seconds, or a named one such as ab1.")
@click.option("--steps", type=int, default=101, show_default=True, help="Points of a curve.")
@click.option("--draws", default="256", show_default=True, callback=_draws, help="References a step, or `all`.")
@click.option("--width", type=float, default=0.1, show_default=True, help="Width of the quality band.")
@click.option("--window", type=int, default=5, show_default=True, help="Steps of the moving average.")
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the draws.")
@click.option("--max-missing", type=float, default=0.0, show_default=True, help="Missing share of a drawn reference.")
@click.option("--workers", type=click.IntRange(min=1), default=2, show_default=True, help="Processes.")
@click.option("--quiet", is_flag=True, help="No progress.")
@click.option("--json", "as_json", is_flag=True, help="Print the figures as one JSON object.")
def simulate(
    build: str,
    pool: str,
    split: str,
    limit_problems: int | None,
    steps: int,
    draws: int | None,
    width: float,
    window: int,
    seed: int,
    quiet: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Screen environments and rewards offline (Appendix E).

    DIR is the --out of a build. Its reference solutions, from weak to strong, stand in for a model that improves, and
    their stored durations for live executions; every configuration of Table 38 is then scored by how its reward follows
    quality. Writes simulation.parquet and simulation.html, a page that opens offline.

    \b
    Example:
      dmc-optim simulate out/
      dmc-optim simulate out/ --environment qar --environment "abs_timeout(limit=0.5,rho=0.1)"
      dmc-optim simulate out/ --reward two_gate/linear --against runs.csv --json
    """
    from dmc_optim.simulator.bands import BandConfig
    from dmc_optim.simulator.progress import sweep_progress
    from dmc_optim.simulator.run import SimulationRequest
    from dmc_optim.simulator.run import simulate as run
    from dmc_optim.simulator.stored import Selection

    band = BandConfig(steps=steps, draws=draws, width=width, window=window, seed=seed)
    request = SimulationRequest(build, Selection(pool, split, limit_problems), band, **options)
    result = run(request, sweep_progress(quiet))
    click.echo(json.dumps(result.as_json(), indent=1) if as_json else result.as_text())
