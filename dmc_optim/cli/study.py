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
    """Offline studies of metrics, noise and calibration."""


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
