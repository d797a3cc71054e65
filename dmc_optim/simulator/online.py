"""Do diagnostics foretell online runs? Spearman correlation with their results (paper E.3, Table 45)."""

import csv
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.stats import spearmanr

from dmc_optim.environments import Environment, parse
from dmc_optim.errors import InvalidInputError, SourceError
from dmc_optim.rewards import parse as parse_reward
from dmc_optim.simulator.curves import NAMES
from dmc_optim.simulator.sweep import Configuration, Sweep

LABELS = {
    "auc_raw": "AUC (raw)",
    "auc_smooth": "AUC (smoothed)",
    "steepness": "Steepness S",
    "variance": "Variance around trend",
    "deviation": "Deviation from y = x",
    "quality_raw": "Quality correlation (raw)",
    "quality_smooth": "Quality correlation (smoothed)",
}
MIN_RUNS = 3  # a rank correlation of fewer points says nothing


@dataclass(frozen=True)
class OnlineRun:
    """One finished run: what it was trained with, and its results by column; None where the cell is empty."""

    configuration: Configuration
    results: dict[str, float | None]


@dataclass(frozen=True)
class Correlation:
    """Spearman r_s of one diagnostic with one result column over n runs; None where either is constant."""

    diagnostic: str
    column: str
    r_s: float | None
    p_value: float | None
    n: int


def read_runs(path: Path) -> list[OnlineRun]:
    """Runs of a CSV file: a column `environment`, an optional `reward`, and one numeric column a result.

    Environments may be canonical names, aliases, or labels of the paper. Raises SourceError (file, line, column).
    """
    try:
        with path.open(newline="", encoding="utf-8-sig") as handle:
            reader = csv.DictReader(handle)
            columns = [name for name in reader.fieldnames or [] if name not in ("environment", "reward")]
            if "environment" not in (reader.fieldnames or []):
                raise SourceError(f"{path}: no column `environment`; the first line names the columns")
            rows = [(reader.line_num, row) for row in reader]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise SourceError(f"{path}: cannot be read as CSV ({reason})") from error
    if not columns:
        raise SourceError(f"{path}: no result column beside `environment`; add one, for example p30")
    if len(rows) < MIN_RUNS:
        raise SourceError(f"{path}: {len(rows)} runs; a rank correlation needs {MIN_RUNS} or more")
    return [_run(path, line, row, columns) for line, row in rows]


def _run(path: Path, line: int, row: dict[str, str | None], columns: Sequence[str]) -> OnlineRun:
    where = f"{path}, line {line}"
    if None in row or None in row.values():
        raise SourceError(f"{where}: another number of cells than the first line (quote names that hold commas)")
    environment: Environment
    try:
        environment = parse(row["environment"] or "")
        reward = parse_reward((row.get("reward") or "").strip() or environment.default_reward)
    except InvalidInputError as error:
        raise SourceError(f"{where}: {error}") from error
    results: dict[str, float | None] = {}
    for column in columns:
        text = (row[column] or "").strip()
        try:
            number = float(text) if text else None
        except ValueError:
            raise SourceError(f"{where}, column {column}: {text!r} is not a number") from None
        if number is not None and not math.isfinite(number):
            raise SourceError(f"{where}, column {column}: {text!r} is not a finite number")
        results[column] = number
    return OnlineRun(Configuration(environment, reward), results)


def correlate(sweep: Sweep, runs: Sequence[OnlineRun]) -> list[Correlation]:
    """Every diagnostic against every result column, in the order of Table 45's columns.

    Runs whose diagnostic is not defined (a constant curve) or whose result is empty are left out, and n says so. The
    sweep must hold the runs' configurations.
    """
    place = {str(configuration): index for index, configuration in enumerate(sweep.configurations)}
    rows = [place[str(run.configuration)] for run in runs]
    out = []
    for name in NAMES:
        diagnostic = getattr(sweep.diagnostics, name)[rows]
        for column in runs[0].results:
            result = np.array([np.nan if run.results[column] is None else run.results[column] for run in runs])
            known = ~np.isnan(diagnostic) & ~np.isnan(result)
            r_s, p_value = _spearman(diagnostic[known], result[known])
            out.append(Correlation(name, column, r_s, p_value, int(known.sum())))
    return out


def _spearman(x: np.ndarray, y: np.ndarray) -> tuple[float | None, float | None]:
    if len(x) < MIN_RUNS or np.ptp(x) == 0 or np.ptp(y) == 0:
        return None, None
    found = spearmanr(x, y)
    return float(found.statistic), float(found.pvalue)
