"""`dmc-optim simulate` without its options: read a build, sweep, write, summarise."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from dmc_optim.environments import Environment, configurations, parse
from dmc_optim.environments.table38 import GRID, KEEPERS
from dmc_optim.errors import ArtifactError
from dmc_optim.progress import Progress
from dmc_optim.simulator.bands import BandConfig
from dmc_optim.simulator.curves import NAMES
from dmc_optim.simulator.online import LABELS, Correlation, OnlineRun, correlate, read_runs
from dmc_optim.simulator.output import page, rows, settings, write_parquet
from dmc_optim.simulator.pool import Calibration, load_pool
from dmc_optim.simulator.stored import Selection
from dmc_optim.simulator.sweep import Configuration, Sweep, configure, sweep
from dmc_optim.studies.report import Column, Table, without_nan


@dataclass(frozen=True)
class SimulationRequest:
    """What to simulate. environments: names or whole families, the grid of Table 38 where empty.

    rewards: each environment's default where empty. show: environments whose curves are printed and shown first.
    against: CSV of online runs. out: folder of the results, `<build>/simulation` where None.
    """

    build: str
    selection: Selection
    band: BandConfig
    environments: tuple[str, ...] = ()
    rewards: tuple[str, ...] = ()
    show: tuple[str, ...] = ()
    against: Path | None = None
    out: Path | None = None
    calibration: Calibration = None
    max_missing: float = 0.0
    workers: int = 1


@dataclass(frozen=True, eq=False)
class SimulationResult:
    """A finished simulation and where it was written."""

    request: SimulationRequest
    sweep: Sweep
    shown: tuple[str, ...]
    runs: tuple[OnlineRun, ...]
    correlations: tuple[Correlation, ...]
    parquet: Path
    html: Path

    def as_json(self) -> dict[str, Any]:
        """Settings, pool, diagnostics of every configuration, curves of the shown ones, correlations, files."""
        listed = rows(self.sweep)
        heavy = ("curve", "quality")
        return without_nan(
            {
                "settings": settings(self.sweep),
                "pool": asdict(self.sweep.pool),
                "seconds": self.sweep.seconds,
                "configurations": [{k: v for k, v in row.items() if k not in heavy} for row in listed],
                "curves": {
                    row["environment"]: {"reward": row["reward"], "x": self.sweep.x, **{k: row[k] for k in heavy}}
                    for row in listed
                    if row["environment"] in self.shown
                },
                "against": [asdict(correlation) for correlation in self.correlations],
                "files": {"parquet": str(self.parquet), "html": str(self.html)},
            }
        )

    def as_text(self) -> str:
        """Pool, diagnostics of the shown configurations, correlations, files."""
        pool, band = self.sweep.pool, self.sweep.band
        draws = "every reference of the band" if band.draws is None else f"{band.draws} draws a step"
        parts = [
            f"{len(self.sweep.configurations):,} configurations on {pool.problems:,} problems "
            f"({self.request.selection}), {pool.references:,} references, {pool.optimization_tests:,} optimization "
            f"tests; {band.steps} steps, {draws}; {self.sweep.seconds:.1f} s",
        ]
        if pool.missing_share:
            parts.append(
                f"{pool.missing_share:.2%} of the cells have no measurement; {pool.incomplete_references:,} references "
                "stay in the pools but are not drawn"
            )
        if pool.skipped:
            reasons = ", ".join(f"{count} with {reason}" for reason, count in sorted(pool.skipped.items()))
            parts.append(f"left out: {reasons}")
        parts += ["", _shown_table(self.sweep, self.shown).text()]
        if self.correlations:
            parts += ["", f"Spearman correlation with {len(self.runs)} online runs (r_s, p)"]
            parts.append(_against_table(self.correlations).text())
        parts += ["", f"table  {self.parquet}", f"page   {self.html}"]
        return "\n".join(parts)


def simulate(request: SimulationRequest, progress: Progress) -> SimulationResult:
    """Run a request. Raises UsageError subclasses for what cannot be read, named or written."""
    runs = read_runs(request.against) if request.against else []
    shown = tuple(str(parse(name)) for name in request.show)
    cases = _configurations(request, [run.configuration for run in runs], shown)
    out = _folder(request)
    pool = load_pool(request.build, request.selection, request.calibration, request.max_missing)
    swept = sweep(pool, cases, request.band, workers=request.workers, progress=progress)
    correlations = correlate(swept, runs) if runs else []
    parquet, html = out / "simulation.parquet", out / "simulation.html"
    write_parquet(swept, parquet)
    title = f"Simulated environments: {request.selection}"
    html.write_text(page(swept, title, shown, runs, correlations), encoding="utf-8")
    present = {str(case.environment) for case in cases}
    default = tuple(name for name in map(str, KEEPERS) if name in present)
    shown = shown or default or (str(cases[0].environment),)
    return SimulationResult(request, swept, shown, tuple(runs), tuple(correlations), parquet, html)


def _configurations(
    request: SimulationRequest, online: Sequence[Configuration], shown: Sequence[str]
) -> list[Configuration]:
    environments: list[Environment] = []
    for name in request.environments:
        environments += configurations(name) if name in GRID else [parse(name)]
    cases = configure(environments or configurations(), request.rewards)
    cases += configure([parse(name) for name in shown], request.rewards)
    return list({str(case): case for case in [*cases, *online]}.values())


def _folder(request: SimulationRequest) -> Path:
    out = request.out or Path(request.build) / "simulation"
    if request.out is None and not Path(request.build).is_dir():
        raise ArtifactError(f"{request.build}: not a local directory; name a folder for the results with --out")
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ArtifactError(f"{out}: cannot be made ({error.strerror or error}); choose another --out") from error
    return out


def _shown_table(swept: Sweep, shown: Sequence[str]) -> Table:
    columns = [Column("environment", "Configuration"), Column("reward", "Reward")]
    columns += [Column(name, _SHORT[name], ".4f") for name in NAMES]
    picked = [row for row in rows(swept) if row["environment"] in shown]
    return Table("shown", "", columns, picked)


def _against_table(correlations: Sequence[Correlation]) -> Table:
    results = list(dict.fromkeys(correlation.column for correlation in correlations))
    columns = [Column("diagnostic", "Diagnostic")]
    for name in results:
        columns += [Column(f"{name} r", name, ".3f"), Column(f"{name} p", "p", ".2g")]
    lines: dict[str, dict[str, Any]] = {}
    for correlation in correlations:
        line = lines.setdefault(correlation.diagnostic, {"diagnostic": LABELS[correlation.diagnostic]})
        line |= {f"{correlation.column} r": correlation.r_s, f"{correlation.column} p": correlation.p_value}
    return Table("against", "", columns, list(lines.values()))


_SHORT = {
    "auc_raw": "AUC",
    "auc_smooth": "AUC smooth",
    "steepness": "S",
    "variance": "V",
    "deviation": "D",
    "quality_raw": "Q",
    "quality_smooth": "Q smooth",
}
