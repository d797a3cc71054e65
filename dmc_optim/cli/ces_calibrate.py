"""`dmc-optim ces calibrate` and `dmc-optim ces probe`: how stored durations map to the service, and how it is doing."""

import json
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dmc_optim.cli.study import emit, output_options
from schemas.enums import CalibrationFamily

if TYPE_CHECKING:
    from dmc_optim.artifacts.layout import Layout
    from dmc_optim.ces.calibration.analysis import Analysis
    from dmc_optim.ces.calibration.campaign import Campaign
    from dmc_optim.ces.calibration.plan import Plan
    from dmc_optim.ces.health.epochs import Observation
    from dmc_optim.ces.health.sentinel import SuiteReading
    from dmc_optim.ces.health.state import EpochFile
    from dmc_optim.ces.types import Executor


def _service_options(command: Any) -> Any:
    """Which execution service, and how to reach it; as in `ces run`."""
    for option in (
        click.option("--token", envvar="DMC_OPTIM_CES_TOKEN", help="Bearer token of the services."),
        click.option("--tier", help="Weakest isolation accepted: full, userns or rlimit."),
        click.option("--slots", type=click.IntRange(min=1), help="Executions at once; default: as the host can hold."),
        click.option(
            "--ces", "service", default="embedded", show_default=True, help="`embedded`, or URL[,URL…] of services."
        ),
    ):
        command = option(command)
    return command


def fit_options(command: Any) -> Any:
    """Which fit corrects durations, and which runs enter it."""
    for option in (
        click.option(
            "--max-inconclusive",
            type=click.FloatRange(0, 1),
            default=0.01,
            show_default=True,
            help="Share of executions without a verdict above which a run of a problem is left out.",
        ),
        click.option(
            "--weighting",
            type=click.Choice(["none", "relative"]),
            default="none",
            show_default=True,
            help="What is squared: errors in seconds, or relative to the stored duration.",
        ),
        click.option(
            "--family",
            type=click.Choice([family.value for family in CalibrationFamily]),
            default=CalibrationFamily.AFFINE.value,
            show_default=True,
            help="Family that corrects durations; all four are fitted.",
        ),
    ):
        command = option(command)
    return command


@click.command()
@click.argument("directory", metavar="DIR")
@_service_options
@click.option("--problems", type=click.IntRange(min=2), default=33, show_default=True, help="Problems to sample.")
@click.option("--runs", type=click.IntRange(min=1), default=20, show_default=True, help="Times everything is executed.")
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of every choice.")
@click.option(
    "--pool",
    type=click.Choice(["rl", "all"]),
    default="rl",
    show_default=True,
    help="Sample duration-filterable problems only, or any with reference durations.",
)
@click.option("--max-solutions", type=click.IntRange(min=2), help="References of a problem at most (seeded choice).")
@click.option(
    "--max-tests", type=click.IntRange(min=1), help="Optimization tests of a problem at most (seeded choice)."
)
@fit_options
@click.option("--new", "fresh", is_flag=True, help="Start a new campaign even if one like it is unfinished.")
@click.option("--refit", metavar="CAMPAIGN", help="Execute nothing: fit a recorded campaign again.")
@click.option("--dry-run", is_flag=True, help="Say what would be executed, and stop.")
@click.option("-q", "--quiet", is_flag=True, help="No progress.")
@output_options
def calibrate(
    directory: str,
    service: str,
    slots: int | None,
    tier: str | None,
    token: str | None,
    problems: int,
    runs: int,
    seed: int,
    pool: str,
    max_solutions: int | None,
    max_tests: int | None,
    family: str,
    weighting: str,
    max_inconclusive: float,
    fresh: bool,
    refit: str | None,
    dry_run: bool,
    quiet: bool,
    output: Path | None,
    as_json: bool,
) -> None:
    """Re-execute references, and fit the map from stored to fresh durations (paper C.7).

    Samples problems of the build DIR, runs all their references on the optimization tests several times without
    fallback, fits four correction families with leave-one-problem-out validation, and stores the fits in table
    `calibrations`. A killed campaign goes on where it stopped when the same command is run again.

    \b
    Examples:
      dmc-optim ces calibrate out --dry-run
      dmc-optim ces calibrate out -o calibration.html
      dmc-optim ces calibrate out --problems 8 --runs 5 --max-solutions 10 --pool all
    """
    from dmc_optim import ces
    from dmc_optim.artifacts.layout import Layout
    from dmc_optim.ces.calibration.campaign import find_campaign
    from dmc_optim.ces.calibration.plan import CampaignSettings, make_plan

    layout = Layout(directory)
    if refit is not None:
        analyses = analyse_campaign(find_campaign(layout, refit), family, weighting, max_inconclusive, seed)
        _store_and_print(layout, analyses, output, as_json)
        return
    plan = make_plan(layout, CampaignSettings(problems, runs, seed, pool, max_solutions, max_tests))
    if dry_run:
        click.echo(json.dumps(_plan_facts(plan)) if as_json else _plan_text(plan))
        return
    click.echo(_plan_text(plan), err=True)
    with closing(ces.connect(service, slots=slots, tier=tier, token=token)) as executor:
        campaign = _execute(layout, plan, fresh, executor, quiet)
    analyses = analyse_campaign(campaign, family, weighting, max_inconclusive, seed)
    _store_and_print(layout, analyses, output, as_json)


def _execute(layout: "Layout", plan: "Plan", fresh: bool, executor: "Executor", quiet: bool) -> "Campaign":
    from dmc_optim.ces.calibration.campaign import open_campaign, run_campaign
    from dmc_optim.progress import for_terminal

    campaign = open_campaign(layout, plan, fresh)
    run_campaign(campaign, executor, for_terminal(quiet))
    return campaign


def analyse_campaign(
    campaign: "Campaign", family: str, weighting: str, max_inconclusive: float, seed: int
) -> list["Analysis"]:
    """One analysis for each epoch of stored durations; options as the commands take them."""
    from dmc_optim.ces.calibration.analysis import analyse
    from dmc_optim.ces.calibration.fit import Weighting
    from dmc_optim.ces.calibration.load import load_campaign

    chosen, weights = CalibrationFamily(family), Weighting(weighting)
    return [analyse(loaded, chosen, seed, weights) for loaded in load_campaign(campaign, max_inconclusive)]


def _store_and_print(layout: "Layout", analyses: list["Analysis"], output: Path | None, as_json: bool) -> None:
    from dmc_optim.ces.calibration.analysis import write_calibrations
    from dmc_optim.studies.calibration import calibration_report

    path = write_calibrations(layout, analyses)
    for analysis in analyses[:-1]:
        fit = analysis.fit
        values = ", ".join(f"{value:.6g}" for value in fit.coefficients)
        click.echo(f"epoch {analysis.loaded.from_epoch} → {analysis.loaded.to_epoch}: {fit.family} {values}", err=True)
    emit(calibration_report(analyses[-1:]), output, as_json)
    click.echo(f"fits written to {path}", err=True)


def _plan_facts(plan: "Plan") -> dict[str, Any]:
    return {
        "problems": len(plan.problems),
        "requested_problems": plan.settings.problems,
        "references": sum(len(p.solution_ids) for p in plan.problems),
        "tests": sum(len(p.test_ids) for p in plan.problems),
        "runs": plan.settings.runs,
        "executions": plan.executions,
        "estimated_core_s": plan.estimated_s,
    }


def _plan_text(plan: "Plan") -> str:
    facts = _plan_facts(plan)
    short = plan.settings.problems - len(plan.problems)
    note = f" (asked for {plan.settings.problems}; the pool has no more with timed references)" if short > 0 else ""
    return (
        f"{facts['problems']} problems{note}, {facts['references']:,} references, "
        f"{facts['tests']:,} optimization tests, "
        f"{facts['runs']} runs: {facts['executions']:,} executions, "
        f"about {facts['estimated_core_s'] / 60:,.1f} core-minutes of program time"
    )


@click.command()
@_service_options
@click.option("--repetitions", type=click.IntRange(min=3), default=5, show_default=True, help="Runs of each sentinel.")
@click.option(
    "--readings", type=click.IntRange(min=1), default=1, show_default=True, help="Readings to take, one after another."
)
@click.option(
    "--state", "state_path", type=click.Path(path_type=Path), help="State file; default: one for each service."
)
@click.option("--show", is_flag=True, help="Print the stored state and run nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def probe(
    service: str,
    slots: int | None,
    tier: str | None,
    token: str | None,
    repetitions: int,
    readings: int,
    state_path: Path | None,
    show: bool,
    as_json: bool,
) -> None:
    """Run the sentinel suite, and say whether the service's speed has changed (paper C.12).

    The first readings of an epoch are its baseline. Later ones are compared with it: slope, offset and tail. A shift
    seen twice in a row opens a new service-state epoch; durations of two epochs need a calibration between them.

    \b
    Examples:
      dmc-optim ces probe --readings 5
      dmc-optim ces probe --ces http://127.0.0.1:8000 --json
    """
    from datetime import UTC, datetime

    from dmc_optim import ces
    from dmc_optim.ces.health.epochs import observe
    from dmc_optim.ces.health.sentinel import suite, suite_digest, take_reading
    from dmc_optim.ces.health.state import EpochFile, default_state_path

    file = EpochFile(state_path or default_state_path(service))
    if show:
        click.echo(json.dumps(asdict(file.read()), indent=1) if as_json else _state_text(file))
        return
    file.read()  # a broken state file is said before anything runs
    snippets = suite()
    digest = suite_digest(snippets)
    results: list[tuple[Observation, SuiteReading]] = []
    with closing(ces.connect(service, slots=slots, tier=tier, token=token)) as executor:
        for number in range(readings):
            reading = take_reading(executor, snippets, repetitions)
            now = datetime.now(UTC).isoformat(timespec="seconds")
            observation = file.update(lambda state, r=reading, t=now: observe(state, r, digest, t))  # type: ignore[misc]
            results.append((observation, reading))
            if not as_json:
                click.echo(_verdict_text(number + 1, observation, reading))
    if as_json:
        click.echo(json.dumps(_probe_facts(results, file.path), indent=1))
    else:
        click.echo(_reading_text(*results[-1]))
        click.echo(_state_text(file))


def _verdict_text(number: int, observation: "Observation", reading: "SuiteReading") -> str:
    what = {
        "learning": f"learning the baseline ({len(observation.state.baseline)} readings)",
        "steady": "steady",
        "suspect": "looks shifted; waiting for the next reading to confirm",
        "new_epoch": f"the service has changed: epoch {observation.state.epoch} begins",
        "incomplete": "too few sentinels succeeded to judge",
    }[observation.verdict]
    shifted = f" ({', '.join(observation.report.shifted)})" if observation.report and observation.report.shifted else ""
    failed = f"; failed: {', '.join(f'{k} {v}' for k, v in reading.failed.items())}" if reading.failed else ""
    return f"reading {number}: {what}{shifted}{failed}"


def _reading_text(observation: "Observation", reading: "SuiteReading") -> str:
    import numpy as np

    lines = [f"{'sentinel':<14}{'median ms':>11}{'slowest ms':>12}{'runs':>6}"]
    for name, values in reading.timings.items():
        if values:
            lines.append(f"{name:<14}{1000 * np.median(values):>11.2f}{1000 * max(values):>12.2f}{len(values):>6}")
    if observation.report is not None:
        lines.append(f"{'statistic':<14}{'value':>11}{'baseline':>12}{'limit ±':>10}")
        for name, move in asdict(observation.report).items():
            lines.append(f"{name:<14}{move['value']:>11.4f}{move['expected']:>12.4f}{move['limit']:>10.4f}")
    return "\n".join(lines)


def _state_text(file: "EpochFile") -> str:
    state = file.read()
    opened = state.history[-1] if state.history else None
    since = (
        f" since {opened.opened_at} ({opened.reason}{': ' + opened.detail if opened.detail else ''})" if opened else ""
    )
    return (
        f"epoch {state.epoch}{since}; baseline of {len(state.baseline)} readings; "
        f"last probe {state.last_probe_at or 'never'}; state in {file.path}"
    )


def _probe_facts(results: list[tuple["Observation", "SuiteReading"]], path: Path) -> dict[str, Any]:
    from dmc_optim.ces.health.epochs import epoch_gauges

    last = results[-1][0]
    return {
        "epoch": last.state.epoch,
        "verdict": last.verdict,
        "readings": [
            {
                "verdict": observation.verdict,
                "shifted": list(observation.report.shifted) if observation.report else [],
                "report": asdict(observation.report) if observation.report else None,
                "timings": reading.timings,
                "failed": reading.failed,
                "identity": reading.identity,
            }
            for observation, reading in results
        ],
        "gauges": epoch_gauges(last.state),
        "history": [asdict(change) for change in last.state.history],
        "state": str(path),
    }
