"""`dmc-optim study fallback` and `dmc-optim study calibration`."""

from pathlib import Path

import click

from dmc_optim.cli.ces_calibrate import analyse_campaign, fit_options
from dmc_optim.cli.study import emit, output_options
from schemas.enums import CalibrationFamily


@click.command()
@click.argument("directory", metavar="[DIR]", required=False)
@click.option("--rate", "rates", type=float, multiple=True, help="Failure rate of one test; may be repeated.")
@click.option("--tests", "tests", type=int, multiple=True, help="Correctness tests of a problem; may be repeated.")
@click.option("--total", type=int, default=80, show_default=True, help="All tests of a problem, for the discard rate.")
@output_options
def fallback(
    directory: str | None,
    rates: tuple[float, ...],
    tests: tuple[int, ...],
    total: int,
    output: Path | None,
    as_json: bool,
) -> None:
    """How often rare infrastructure failures reach a rollout (Eq. 7, Table 27), and the decision table.

    With a build DIR also its own failure rates and exposure. The page (-o) holds the whole decision table.

    \b
    Examples:
      dmc-optim study fallback
      dmc-optim study fallback out --rate 0.001 --tests 30 --json
    """
    from dmc_optim.studies.fallback import (
        PAPER_RATES,
        PAPER_TESTS,
        FallbackStudyConfig,
        fallback_report,
        measure_failures,
    )

    config = FallbackStudyConfig(rates or PAPER_RATES, tests or PAPER_TESTS, total)
    emit(fallback_report(config, measure_failures(directory) if directory else None), output, as_json)


@click.command()
@click.argument("directory", metavar="DIR")
@click.option("--campaign", "names", multiple=True, help="Campaigns to show, oldest first; default: all finished ones.")
@fit_options
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of candidates and injected noise.")
@output_options
def calibration(
    directory: str,
    names: tuple[str, ...],
    family: str,
    weighting: str,
    max_inconclusive: float,
    seed: int,
    output: Path | None,
    as_json: bool,
) -> None:
    """Fits, noise, stability and sensitivity of the campaigns recorded in a build; nothing is executed.

    Tables 31 to 33 of the paper from recorded campaigns, the change between the last two, and how much scores move
    under other calibrations (C.9, Table 34) and under known noise (C.12).

    \b
    Example:
      dmc-optim study calibration out -o calibration.html
    """
    from dmc_optim.artifacts.layout import Layout
    from dmc_optim.ces.calibration.campaign import campaigns, find_campaign
    from dmc_optim.ces.calibration.grid import Affine
    from dmc_optim.studies.calibration import calibration_report
    from dmc_optim.studies.calibration_sensitivity import boards, calibration_sweep, noise_sweep

    layout = Layout(directory)
    finished = [campaign for campaign in campaigns(layout) if campaign.complete]
    chosen = [find_campaign(layout, name) for name in names] or finished or [find_campaign(layout, None)]
    analyses = [
        analysis
        for campaign in chosen
        for analysis in analyse_campaign(campaign, family, weighting, max_inconclusive, seed)
    ]
    last = analyses[-1]
    extra = []
    affine = last.fits.get(CalibrationFamily.AFFINE)
    if affine is not None:
        prepared, fit = boards(last.loaded.problems, seed), Affine(*affine.coefficients)
        extra = [calibration_sweep(prepared, fit), noise_sweep(prepared, fit, seed)]
    emit(calibration_report(analyses, extra), output, as_json)
