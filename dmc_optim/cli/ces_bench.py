"""`dmc-optim ces bench`: what an execution costs on this host, and how steady durations are."""

import json
import statistics
from typing import Any

import click


@click.command()
@click.option("--tier", help="Isolation: full (default), any, or full-v2, full-v1, userns, rlimit.")
@click.option("--rounds", type=click.IntRange(min=1), default=5, show_default=True, help="Rounds of the overhead.")
@click.option("--runs", type=click.IntRange(min=5), default=20, show_default=True, help="Runs of the noise programs.")
@click.option("--json", "as_json", is_flag=True, help="Print the figures as one JSON object.")
def bench(tier: str | None, rounds: int, runs: int, as_json: bool) -> None:
    """Measure overhead, throughput and noise in one slot, beside bare processes in the same minute.

    \b
    Example:
      dmc-optim ces bench --rounds 3
    """
    from dmc_optim.ces.engine import bench as measure
    from dmc_optim.ces.engine.embedded import Embedded

    with Embedded(1, tier) as engine:
        found = measure.overhead(engine, rounds, runs=50)
        rate, _ = measure.throughput(engine, measure.trivial_requests(10))
        steady = measure.noise(engine, measure.burn_code(0.1), runs)
        figures: dict[str, Any] = {
            "tier": str(engine.plan.tier),
            "execution_ms": statistics.median(found.single),
            "execution_of_new_program_ms": statistics.median(found.other),
            "execution_in_batch_ms": statistics.median(found.batch),
            "fork_ms": statistics.median(found.fork),
            "cold_python_ms": statistics.median(found.cold),
            "bubblewrap_ms": statistics.median(found.bubblewrap) if found.bubblewrap else None,
            "p99_over_p50": found.percentile(0.99) / found.percentile(0.5),
            "executions_per_s": rate,
            "duration_cv": measure.cv(steady.ours),
            "bare_cpu_cv": measure.cv(steady.bare),
        }
    if as_json:
        click.echo(json.dumps(figures))
        return
    for name, value in figures.items():
        shown = f"{value:.3f}" if isinstance(value, float) else value if value is not None else "not installed"
        click.echo(f"{name:<30}{shown}")
