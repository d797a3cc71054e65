"""The funnel of a build: what entered and left each stage, and why the rest did not (paper Table 10)."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import duckdb

from dmc_optim.artifacts.layout import Layout
from dmc_optim.report.text import text_table
from schemas.enums import Entity, Reason, Stage

PAPER_PROBLEMS: dict[str, int] = {
    Stage.INGEST: 12_275,
    Stage.DEDUP: 11_468,
    Stage.CONTROLS: 6_706,
    Stage.VALIDATE: 3_928,
    Stage.FILTER_CORRECTNESS: 3_061,
    Stage.FILTER_OPTIMIZATION: 2_978,
    Stage.COMPLETE: 2_723,
    Stage.FILTERABILITY: 1_302,
}
"""Problems left after each stage on the real corpus (Table 10): printed beside ours, never asserted."""


@dataclass(frozen=True)
class FunnelRow:
    """One stage. state: done, running, partial (begun, stopped) or missing; counts are None until it is done."""

    stage: str
    state: str
    n_in: int | None = None
    n_out: int | None = None
    dropped: dict[str, int] = field(default_factory=dict)
    paper: int | None = None
    seconds: float | None = None


def funnel(connection: duckdb.DuckDBPyConnection, layout: Layout) -> list[FunnelRow]:
    """A row for every stage, in build order. connection: from `dmc_optim.audit.connection.connect`."""
    rows = connection.execute(
        f"SELECT stage, reason, n_in + n_created AS entered, n_out, n_dropped FROM attrition "
        f"WHERE entity = '{Entity.PROBLEM}' ORDER BY n_dropped DESC, reason"
    ).fetchall()
    malformed = connection.execute(
        f"SELECT sum(n_dropped) FROM attrition WHERE entity = '{Entity.ROW}' AND reason = '{Reason.MALFORMED_ROW}'"
    ).fetchone()
    done = layout.completed()
    begun = {path.rsplit("/", 1)[1].rsplit("-", 1)[0] for path in layout.glob("work/*")}
    under_way = "running" if is_running(layout) else "partial"
    result = []
    for stage in Stage:
        own = [row for row in rows if row[0] == stage]
        dropped = {reason: dropped for _, reason, _, _, dropped in own if reason != Reason.TOTAL and dropped}
        total = next((row for row in own if row[1] == Reason.TOTAL), None)
        n_in, n_out = (total[2], total[3]) if total else (None, None)
        if stage is Stage.INGEST and malformed and malformed[0] and n_in is not None:
            n_in, dropped = n_in + int(malformed[0]), {Reason.MALFORMED_ROW.value: int(malformed[0]), **dropped}
        record = done.get(stage)
        state = "done" if record else under_way if stage in begun else "missing"
        seconds = record.get("seconds") if record else None
        result.append(FunnelRow(stage.value, state, n_in, n_out, dropped, PAPER_PROBLEMS.get(stage), seconds))
    return result


def is_running(layout: Layout) -> bool:
    """Whether a build holds the lock of a local directory; only looks, so it never stands in a build's way."""
    try:
        inode = (Path(layout.root) / ".lock").stat().st_ino
        held = Path("/proc/locks").read_text(encoding="ascii")
    except OSError:
        return False
    return any(f":{inode} " in line for line in held.splitlines() if "FLOCK" in line)


def funnel_text(rows: Sequence[FunnelRow]) -> str:
    """The funnel as an aligned table, the paper's counts beside ours."""
    cells: list[list[Any]] = [
        [
            row.stage,
            row.state,
            row.n_in,
            row.n_out,
            row.paper,
            None if row.seconds is None else f"{row.seconds:.1f} s",
            ", ".join(f"{reason} {number:,}" for reason, number in row.dropped.items()) or "",
        ]
        for row in rows
    ]
    return text_table(["stage", "state", "problems in", "out", "paper out", "took", "dropped"], cells)


def funnel_json(rows: Sequence[FunnelRow]) -> list[dict[str, Any]]:
    """The funnel as plain data."""
    return [asdict(row) for row in rows]
