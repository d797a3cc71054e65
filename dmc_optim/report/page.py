"""The report as one self-contained HTML page: tables and SVG charts, no script, nothing loaded from elsewhere."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dmc_optim.artifacts.layout import Layout
from dmc_optim.audit.connection import connect
from dmc_optim.errors import ArtifactError
from dmc_optim.report.funnel import FunnelRow, funnel
from dmc_optim.report.measures import Chart, Statistics
from dmc_optim.report.statistics import compute_statistics
from dmc_optim.report.text import number

FEW = 50  # points of a curve that are drawn one by one


def render_report(out: str) -> str:
    """HTML of the build at `out`. Raises ArtifactError when there is none."""
    from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

    connection, layout = connect(out), Layout(out)
    statistics, rows = compute_statistics(connection), funnel(connection, layout)
    manifest = layout.manifest()
    loader = ChoiceLoader([PackageLoader("dmc_optim.report"), PackageLoader("dmc_optim.studies")])
    environment = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    return environment.get_template("report.html.jinja").render(
        title="DMC-Optim build report",
        lead=_lead(manifest),
        facts=_facts(statistics),
        funnel=_bars(rows),
        sections=[section for section in statistics.sections if section.key != "funnel"],
        settings=connection.execute("SELECT key, value FROM config ORDER BY key").fetchall(),
        draw=draw,
    )


def write_report(out: str, path: Path) -> None:
    """Render and write. Raises ArtifactError when the file cannot be written."""
    html = render_report(out)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(html, encoding="utf-8")
    except OSError as error:
        raise ArtifactError(f"{path}: cannot be written ({error.strerror or error}); choose another -o") from error


def draw(chart: Chart) -> str:
    """SVG of one chart."""
    from dmc_optim.studies.charts import Axis, Line, line_chart

    lines = [
        Line(curve.label, curve.x, curve.y, colour=index, marks=len(curve.x) <= FEW)
        for index, curve in enumerate(chart.curves)
    ]
    low = None if chart.log_y else 0.0
    return line_chart(
        chart.title, lines, Axis(chart.x_label, log=chart.log_x), Axis(chart.y_label, low, log=chart.log_y)
    )


def _lead(manifest: dict[str, Any]) -> str:
    parts = [f"Schema {manifest.get('schema_version')}, build {manifest.get('build_digest')}"]
    if manifest.get("created"):
        parts.append(f"created {manifest['created']}")
    limits = {key: value for key, value in (manifest.get("limits") or {}).items() if value is not None}
    if limits:
        parts.append("under limits " + ", ".join(f"{key} = {value}" for key, value in sorted(limits.items())))
    return "; ".join(parts) + ". The paper's figures stand beside ours for reference; they are of its own corpus."


def _facts(statistics: Statistics) -> list[tuple[str, str]]:
    wanted = {
        "funnel.ingest": "problems read",
        "funnel.complete": "in the cleaned corpus",
        "pools.rl": "in the RL pool",
        "pools.references_train": "reference solutions, train",
        "executions.run": "executions",
        "acceptance.correctness_accepted": "correctness attempts accepted",
        "acceptance.optimization_accepted": "optimization attempts accepted",
    }
    known = {f"{section.key}.{measure.key}": measure for section, measure in statistics.measures()}
    return [(label, known[key].ours_text) for key, label in wanted.items() if key in known]


def _bars(rows: Sequence[FunnelRow]) -> list[dict[str, Any]]:
    most = max((row.n_in or 0 for row in rows), default=0) or 1
    return [
        {
            "stage": row.stage,
            "out": number(row.n_out),
            "width": round(100 * row.n_out / most, 2),
            "paper": None if row.paper is None else number(row.paper),
            "dropped": ", ".join(f"{reason} {n:,}" for reason, n in row.dropped.items()),
        }
        for row in rows
        if row.n_out is not None
    ]
