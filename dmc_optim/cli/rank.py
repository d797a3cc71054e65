"""`dmc-optim rank`: where my solution stands among a problem's reference solutions."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

SHOWN = 8


@click.command()
@click.argument("directory", metavar="DIR")
@click.option("--problem", required=True, metavar="ID", help="Problem of the cleaned corpus, e.g. train/532.")
@click.option(
    "--solution", required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path), help="Python program."
)
@click.option("--ces", default="embedded", show_default=True, metavar="embedded|URL", help="Execution service.")
@click.option("--tier", metavar="TIER", help="Isolation tier (embedded); default: the strongest this host gives.")
@click.option("--repetitions", type=click.IntRange(min=1), default=1, show_default=True, help="Timed runs a test.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, every test included.")
def rank(
    directory: str, problem: str, solution: Path, ces: str, tier: str | None, repetitions: int, as_json: bool
) -> None:
    """Run a solution on a problem's retained tests: verdicts, durations, percentile among the references.

    A percentile is the share of references that are faster: 0% is the fastest.

    \b
    Example:
      dmc-optim rank out --problem train/532 --solution mine.py
    """
    from dmc_optim.ces import connect
    from dmc_optim.report.placement import place

    code = solution.read_bytes()
    executor = connect(ces, tier=tier) if tier else connect(ces)
    try:
        placement = place(directory, problem, code, executor, repetitions)
    finally:
        executor.close()
    click.echo(json.dumps(asdict(placement), indent=1) if as_json else _text(placement))


def _text(placement: Any) -> str:
    from dmc_optim.report.text import text_table

    rows = [
        [category, ", ".join(f"{n} {status}" for status, n in counts.items())]
        for category, counts in placement.outcomes.items()
    ]
    parts = [
        f"{placement.problem_id}, solution {placement.solution_id}",
        "",
        text_table(["tests", "outcomes"], rows),
        "",
    ]
    failed = [run for run in placement.tests if run.status not in ("success", "timeout")][:SHOWN]
    if not placement.correct:
        parts.append("not correct, so it has no rank")
        parts += [f"  {run.test_id} ({run.category}): {run.status} {run.detail}".rstrip() for run in failed]
    elif placement.leaderboard_percentile is None:
        parts.append("correct; there is no reference to rank it against")
    else:
        parts.append(
            f"correct; {placement.ahead} of {placement.references} references are ahead: leaderboard percentile "
            f"{100 * placement.leaderboard_percentile:.1f}%, mean per-test percentile "
            f"{100 * placement.mean_percentile:.1f}%"
        )
    timed = sorted((run for run in placement.tests if run.percentile is not None), key=lambda run: -run.percentile)
    if placement.correct and timed:
        cells = [
            [
                run.test_id,
                run.status,
                f"{run.duration_s:.4g} s",
                f"{run.reference_median_s:.4g} s",
                f"{100 * run.percentile:.0f}%",
            ]
            for run in timed[:SHOWN]
        ]
        names = ["optimization test", "status", "yours", "references' median", "percentile"]
        parts += ["", f"where it loses most ({len(timed)} optimization tests):", text_table(names, cells)]
    parts += [f"note: {note}" for note in placement.notes]
    return "\n".join(parts)
