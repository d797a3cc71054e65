"""`dmc-optim study`: offline studies, one command each. New ones are a line in `COMMANDS`."""

import importlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from dmc_optim.studies.report import StudyReport

COMMANDS: dict[str, str] = {
    "noise": "dmc_optim.cli.study:noise",
    "ranking": "dmc_optim.cli.study:ranking",
    "qar-vs-qp": "dmc_optim.cli.study:qar_vs_qp",
    "fallback": "dmc_optim.cli.study_ces:fallback",
    "calibration": "dmc_optim.cli.study_ces:calibration",
}


class _LazyCommands(click.Group):
    """A group whose commands are imported when they are named."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names in alphabetical order."""
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command behind a name; None for an unknown one."""
        target = COMMANDS.get(cmd_name)
        if target is None:
            return None
        module, attribute = target.split(":")
        command: click.Command = getattr(importlib.import_module(module), attribute)
        return command


@click.group(name="study", cls=_LazyCommands)
def study() -> None:
    """Offline studies of metrics, noise and calibration.

    \b
    Example:
      dmc-optim study noise -o noise.html
    """


def output_options(command: Any) -> Any:
    """`-o FILE.html|FILE.parquet` and `--json`, for every study."""
    command = click.option("--json", "as_json", is_flag=True, help="Print the figures as one JSON object.")(command)
    return click.option(
        "-o",
        "--output",
        type=click.Path(path_type=Path),
        callback=_checked_output,
        help="Also write a self-contained page (.html) or the main table (.parquet).",
    )(command)


def emit(report: "StudyReport", output: Path | None, as_json: bool) -> None:
    """Print a study and write its file."""
    click.echo(report.as_json() if as_json else report.as_text())
    if output is not None:
        report.write(output)
        click.echo(f"wrote {output}", err=True)


def _checked_output(ctx: click.Context, param: click.Parameter, value: Path | None) -> Path | None:
    from dmc_optim.studies.report import check_output

    if value is not None:
        check_output(value)
    return value


def checked_calibration(ctx: click.Context, param: click.Parameter, value: str | None) -> tuple[float, float] | None:
    """`ALPHA,BETA` or a named calibration as the pair that reference durations take."""
    if value is None:
        return None
    from dmc_optim.ces.calibration.grid import named_calibration

    found = named_calibration(value)
    return found.alpha, found.beta_s


@click.command()
@click.option("--trials", type=click.IntRange(min=1), default=20_000, show_default=True, help="Trials a point.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Seed of every stream.")
@output_options
def noise(trials: int, seed: int, output: Path | None, as_json: bool) -> None:
    """Timeout against win rate under timing noise (Appendix A).

    Simulates pairs of programs of which one is 20% slower, in a fast-test and a slow-test regime, and asks how often
    each metric names the faster one: over the threshold, the number of tests and the strength of the noise.

    \b
    Example:
      dmc-optim study noise --trials 2000 -o noise.html
    """
    from dmc_optim.studies.noise import NoiseStudyConfig, run_noise_study
    from dmc_optim.studies.noise_report import noise_report

    config = NoiseStudyConfig(trials=trials, seed=seed)
    report = noise_report(config, run_noise_study(config))
    emit(report, output, as_json)


def selection_options(command: Any) -> Any:
    """`--pool`, `--split`, `--limit-problems`: which problems of a build are read."""
    command = click.option("--limit-problems", type=click.IntRange(min=1), help="Only the first so many problems.")(
        command
    )
    command = click.option(
        "--split", type=click.Choice(["train", "test", "all"]), default="all", show_default=True, help="Side."
    )(command)
    return click.option(
        "--pool", type=click.Choice(["rl", "complement", "all"]), default="rl", show_default=True, help="Pool."
    )(command)


@click.command()
@click.argument("source", metavar="DIR|RUNS.parquet")
@click.option("--candidates", type=click.IntRange(min=2), default=12, show_default=True, help="Candidates a problem.")
@click.option("--runs", type=click.IntRange(min=2), default=20, show_default=True, help="Runs drawn from spreads.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Seed of drawn runs.")
@selection_options
@output_options
def ranking(
    source: str,
    candidates: int,
    runs: int,
    seed: int,
    pool: str,
    split: str,
    limit_problems: int | None,
    output: Path | None,
    as_json: bool,
) -> None:
    """Noise, harshness and spread of the ranking metrics (Table 39, Figure 40).

    Reads repeated timings: of a build, its last calibration campaign, or runs drawn from its stored standard deviations
    where there is none; of a Parquet file, columns problem_id, test_id, solution_id, run, duration_s and, if the stored
    durations are known, stored_s. The noise-aware variants stand beside the 17 metrics.

    \b
    Example:
      dmc-optim study ranking out/ -o ranking.html
      dmc-optim study ranking runs.parquet --json
    """
    from dmc_optim.progress import for_terminal
    from dmc_optim.simulator.stored import Selection
    from dmc_optim.studies.ranking import RankingStudyConfig, score_problems, summarise
    from dmc_optim.studies.ranking_report import ranking_report
    from dmc_optim.studies.repeated import read_repeated

    config = RankingStudyConfig(candidates)
    repeated = read_repeated(source, Selection(pool, split, limit_problems), runs, seed)
    progress = for_terminal()
    progress.start("study ranking", len(repeated.problems))
    scores = score_problems(repeated.problems, config, lambda name: progress.step(name, 0.0))
    progress.finish(f"{len(scores)} problems")
    emit(ranking_report(repeated, config, scores, summarise(scores)), output, as_json)


@click.command("qar-vs-qp")
@click.argument("directory", metavar="DIR")
@click.option("--calibration", callback=checked_calibration, help="ALPHA,BETA in seconds, or a named one such as ab1.")
@click.option("--max-missing", type=float, default=0.0, show_default=True, help="Missing share of a ranked reference.")
@selection_options
@output_options
def qar_vs_qp(
    directory: str,
    calibration: tuple[float, float] | None,
    max_missing: float,
    pool: str,
    split: str,
    limit_problems: int | None,
    output: Path | None,
    as_json: bool,
) -> None:
    """How far the two ranked scalars QAR and QP agree (Figure 41).

    Each stored reference is the candidate against the others of its problem.

    \b
    Example:
      dmc-optim study qar-vs-qp out/ --split train -o qar-qp.html
    """
    from dmc_optim.simulator.pool import load_pool
    from dmc_optim.simulator.stored import Selection
    from dmc_optim.studies.qar_qp import compare, qar_qp_report, score_pool

    selection = Selection(pool, split, limit_problems)
    scores = score_pool(load_pool(directory, selection, calibration, max_missing))
    settings: dict[str, object] = {"problems": str(selection), "calibration": calibration, "max_missing": max_missing}
    emit(qar_qp_report(scores, compare(scores), settings), output, as_json)
