"""A sweep as Parquet rows, as one self-contained page, and as figures for a terminal."""

import base64
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from dmc_optim.environments.table38 import KEEPERS
from dmc_optim.errors import ArtifactError
from dmc_optim.simulator.curves import NAMES
from dmc_optim.simulator.families import POINTS, dissect, look
from dmc_optim.simulator.online import LABELS, Correlation, OnlineRun
from dmc_optim.simulator.sweep import Sweep
from dmc_optim.studies.report import without_nan

PARAMETERS = ("a", "chars", "r", "limit", "p", "agg", "rho")  # columns of the Parquet file, in this order
_CURVE_SCALE = 65535  # curves travel as 16-bit integers inside the page

GUIDE = {
    "auc_raw": "Mean of the curve. Near 1 the environment rewards almost everything, near 0 almost nothing.",
    "auc_smooth": "The same of the moving average.",
    "steepness": (
        "Slope a of the best clipped line, as a / (1 + |a|). 0.5 is the diagonal; near 1 the reward turns on within a "
        "narrow band of quality; negative means that it falls as solutions get faster."
    ),
    "variance": "Mean squared distance to the moving average that ends there: how much the curve wobbles.",
    "deviation": "Mean distance to the diagonal. Small means a reward that rises gradually over the whole range.",
    "quality_raw": (
        "Spearman correlation of the curve with quality: does a stronger sample earn more? Not defined for a constant "
        "curve, which orders nothing."
    ),
    "quality_smooth": "The same of the moving average, without the noise of single steps.",
}


def rows(sweep: Sweep) -> list[dict[str, Any]]:
    """One row a configuration: what it is, its diagnostics, the clipped fit, and its curves."""
    table = sweep.diagnostics
    out = []
    for index, configuration in enumerate(sweep.configurations):
        family, parameters = dissect(str(configuration.environment))
        out.append(
            {
                "environment": str(configuration.environment),
                "family": family,
                "intervention": POINTS[look(family).point],
                **{name: parameters.get(name) for name in PARAMETERS},
                "reward": str(configuration.reward),
                **table.row(index).as_dict(),
                "fit_slope": float(table.fit_slope[index]),
                "fit_intercept": float(table.fit_intercept[index]),
                "curve": sweep.credit[index].tolist(),
                "quality": sweep.quality[index].tolist(),
            }
        )
    return out


def settings(sweep: Sweep) -> dict[str, Any]:
    """What the sweep was run with."""
    band = {f"band_{key}" if key == "width" else key: value for key, value in asdict(sweep.band).items()}
    return {**band, "calibration": sweep.calibration}


def write_parquet(sweep: Sweep, path: Path) -> None:
    """Write `rows`, with settings and pool in the footer. Raises ArtifactError where the path cannot be written."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    number = pa.float64()
    texts = ("environment", "family", "intervention", "agg", "reward")
    lists = ("curve", "quality")
    listed = rows(sweep)
    fields = [
        pa.field(name, pa.string() if name in texts else pa.list_(number) if name in lists else number)
        for name in listed[0]
    ]
    footer = {"settings": json.dumps(settings(sweep)), "pool": json.dumps(asdict(sweep.pool))}
    table = pa.Table.from_pylist(listed, schema=pa.schema(fields)).replace_schema_metadata(footer)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(table, path)
    except OSError as error:
        raise ArtifactError(f"{path}: cannot be written ({error.strerror or error}); choose another --out") from error


def page(
    sweep: Sweep,
    title: str,
    pinned: Sequence[str] = (),
    runs: Sequence[OnlineRun] = (),
    correlations: Sequence[Correlation] = (),
) -> str:
    """The page that opens offline: data, style and script are inside it.

    pinned: environments whose curves are shown first; the paper's four keepers where none is named.
    """
    from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

    loader = ChoiceLoader([PackageLoader("dmc_optim.simulator"), PackageLoader("dmc_optim.studies")])
    environment = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    pool = sweep.pool
    data = json.dumps(without_nan(_payload(sweep, pinned, runs)), separators=(",", ":"), ensure_ascii=False)
    return environment.get_template("simulation.html.jinja").render(
        title=title,
        lead=(
            "Reference solutions of rising speed stand in for a model that improves, stored durations for live runs; "
            "each environment then decides what it would have rewarded. A useful one rewards more as solutions get "
            "faster, over the whole range."
        ),
        facts=[
            ("configurations", f"{len(sweep.configurations):,}"),
            ("problems", f"{pool.problems:,}"),
            ("reference solutions", f"{pool.references:,}"),
            ("optimization tests", f"{pool.optimization_tests:,}"),
            ("cells without a measurement", f"{pool.missing_share:.2%}"),
            ("seconds for the sweep", f"{sweep.seconds:.1f}"),
        ],
        window=sweep.band.window,
        settings=settings(sweep),
        guide=[{"label": LABELS[name], "hint": GUIDE[name]} for name in NAMES],
        against=_against(correlations, runs),
        data=data.replace("</", "<\\/"),
    )


def _payload(sweep: Sweep, pinned: Sequence[str], runs: Sequence[OnlineRun]) -> dict[str, Any]:
    names = [str(configuration.environment) for configuration in sweep.configurations]
    parts = [dissect(name) for name in names]
    families = list(dict.fromkeys(family for family, _ in parts))
    rewards = list(dict.fromkeys(str(configuration.reward) for configuration in sweep.configurations))
    if len(rewards) > 1 and len(set(names)) == len(names):  # one reward each: its own
        rewards = ["default rewards"]
        reward = [0] * len(names)
    else:
        reward = [rewards.index(str(configuration.reward)) for configuration in sweep.configurations]
    first = {name: index for index, name in reversed(list(enumerate(names)))}
    place = {str(configuration): index for index, configuration in enumerate(sweep.configurations)}
    wanted = [first[name] for name in (pinned or map(str, KEEPERS)) if name in first]
    curves = np.rint(sweep.credit * _CURVE_SCALE).astype("<u2").tobytes()
    table = sweep.diagnostics
    return {
        "steps": sweep.band.steps,
        "window": sweep.band.window,
        "diagnostics": [{"key": name, "label": LABELS[name]} for name in NAMES],
        "families": [_family(family, parts) for family in families],
        "names": names,
        "family": [families.index(family) for family, _ in parts],
        "params": [parameters for _, parameters in parts],
        "rewards": rewards,
        "reward": reward,
        "values": {name: np.round(getattr(table, name), 6).tolist() for name in NAMES},
        "slope": np.round(table.fit_slope, 6).tolist(),
        "intercept": np.round(table.fit_intercept, 6).tolist(),
        "curves": base64.b64encode(curves).decode(),
        "pinned": wanted or [0],
        "against": {
            "columns": list(runs[0].results),
            "runs": [{"configuration": place[str(run.configuration)], "values": run.results} for run in runs],
        }
        if runs
        else None,
    }


def _family(family: str, parts: list[tuple[str, dict[str, Any]]]) -> dict[str, Any]:
    shown = look(family)
    mine = [parameters for name, parameters in parts if name == family]
    return {
        "label": shown.label,
        "point": POINTS[shown.point],
        "shape": shown.point,
        "colour": shown.colour,
        "params": list(mine[0]),
        "count": len(mine),
    }


def _against(correlations: Sequence[Correlation], runs: Sequence[OnlineRun]) -> dict[str, Any] | None:
    if not correlations:
        return None
    columns = list(runs[0].results)
    found = {(c.diagnostic, c.column): c for c in correlations}
    return {
        "columns": columns,
        "runs": runs,
        "rows": [
            {
                "label": LABELS[name],
                "cells": [
                    {
                        "r": "–" if (c := found[name, column]).r_s is None else f"{c.r_s:.3f}",
                        "p": "–" if c.p_value is None else f"{c.p_value:.2g}",
                        "n": c.n,
                    }
                    for column in columns
                ],
            }
            for name in NAMES
        ],
    }
