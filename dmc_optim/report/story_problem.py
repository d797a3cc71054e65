"""The story of a problem: one or more lines a stage, with the counts it left and what it dropped."""

from collections.abc import Iterator
from typing import Any

import duckdb

from dmc_optim.report.event import Event
from dmc_optim.report.explain import explain
from schemas.enums import Category, Label, Stage

Connection = duckdb.DuckDBPyConnection
_ROUNDS = {
    Stage.SYNTHESIZE_CORRECTNESS: "correctness",
    Stage.FILTER_CORRECTNESS: "correctness",
    Stage.SYNTHESIZE_OPTIMIZATION: "optimization",
    Stage.FILTER_OPTIMIZATION: "optimization",
}


def problem_events(connection: Connection, problem_id: str) -> Iterator[Event]:
    """Every finished stage up to the one that dropped the problem."""
    drop = connection.execute(
        "SELECT stage, reason, value, threshold, detail FROM exclusions WHERE entity = 'problem' AND problem_id = ?",
        [problem_id],
    ).fetchone()
    left = ""
    finished = {row[0] for row in connection.execute("SELECT DISTINCT stage FROM attrition").fetchall()}
    for stage in Stage:
        if stage not in finished:
            continue
        for text in (*_work(connection, stage, problem_id), *_dropped_inside(connection, stage, problem_id)):
            yield Event(stage, text)
        if drop and drop[0] == stage:
            _, reason, value, threshold, detail = drop
            text = f"DROPPED {reason}: {explain(reason, value, threshold, detail)}"
            yield Event(stage, text, reason, value, threshold)
            if stage is not Stage.FILTERABILITY:
                return
        elif stage not in (Stage.SPLIT, Stage.DATASETS):
            before, left = left, _left(connection, stage, problem_id)
            yield Event(stage, f"survives with {left}" if left != before else "survives unchanged")
    yield from _split(connection, problem_id)


def _left(connection: Connection, stage: Stage, problem_id: str) -> str:
    rows = connection.execute(
        f"SELECT entity, label, count(*) FROM survivors_{stage} WHERE problem_id = ? AND entity <> 'problem' "
        "GROUP BY ALL",
        [problem_id],
    ).fetchall()
    order = [*Label, *Category]
    rows.sort(key=lambda row: order.index(row[1]))
    solutions = ", ".join(f"{number} {label}" for entity, label, number in rows if entity == "solution")
    tests = ", ".join(f"{number} {label}" for entity, label, number in rows if entity == "test")
    return f"solutions: {solutions or 'none'}; tests: {tests or 'none'}"


def _dropped_inside(connection: Connection, stage: Stage, problem_id: str) -> Iterator[str]:
    rows = connection.execute(
        "SELECT entity, reason, count(*), min(value), max(value), any_value(threshold) FROM exclusions "
        "WHERE stage = ? AND problem_id = ? AND entity IN ('solution', 'test') GROUP BY ALL ORDER BY ALL",
        [stage.value, problem_id],
    ).fetchall()
    for entity, reason, number, low, high, threshold in rows:
        noun = entity if number == 1 else f"{entity}s"
        yield f"{number} {noun} dropped, {reason}: {explain(reason, low, threshold, most=high)}"


def _work(connection: Connection, stage: Stage, problem_id: str) -> Iterator[str]:
    """What the stage did besides dropping."""
    if stage is Stage.DEDUP:
        twins = connection.execute(
            "SELECT t.problem_id FROM clusters c JOIN clusters t USING (cluster_id) WHERE c.problem_id = ? "
            "AND t.problem_id <> c.problem_id ORDER BY ALL",
            [problem_id],
        ).fetchall()
        if twins:
            yield "near-duplicate of " + ", ".join(row[0] for row in twins)
    elif stage in (Stage.SYNTHESIZE_CORRECTNESS, Stage.SYNTHESIZE_OPTIMIZATION):
        yield from _attempts(connection, problem_id, _ROUNDS[stage])
    elif stage in (Stage.FILTER_CORRECTNESS, Stage.FILTER_OPTIMIZATION):
        yield from _rates(connection, problem_id, _ROUNDS[stage])
    elif stage is Stage.FILTERABILITY:
        yield from _filterability(connection, problem_id)


def _attempts(connection: Connection, problem_id: str, campaign: str) -> Iterator[str]:
    rows = connection.execute(
        "SELECT a.attempt, a.accepted, a.reason, a.n_agreeing, e.detail FROM generator_attempts a "
        "LEFT JOIN exclusions e ON e.entity = 'attempt' AND e.stage = ? AND e.problem_id = a.problem_id "
        "AND e.entity_id = a.attempt::VARCHAR "
        "WHERE a.problem_id = ? AND a.campaign = ? ORDER BY a.attempt",
        [f"synthesize_{campaign}", problem_id, campaign],
    ).fetchall()
    if not rows:
        yield "no generator attempt"
        return
    yield f"{sum(row[1] for row in rows)} of {len(rows)} attempts accepted"
    for attempt, accepted, reason, agreeing, detail in rows:
        if not accepted:
            votes = "" if agreeing is None else f"; largest agreeing group {agreeing}"
            yield f"attempt {attempt} rejected, {reason}: {explain(reason, detail=detail)}{votes}"


def _rates(connection: Connection, problem_id: str, campaign: str) -> Iterator[str]:
    cursor = connection.execute(
        "SELECT * FROM problem_metrics WHERE problem_id = ? AND campaign = ?", [problem_id, campaign]
    )
    row = cursor.fetchone()
    if row is None:
        return
    m: dict[str, Any] = dict(zip([name for name, *_ in cursor.description or ()], row, strict=True))
    removed = m["tests_removed_timeout"], m["tests_removed_failure"]
    yield f"{m['tests_in']} generated tests; removed {removed[0]} for timeouts, {removed[1]} for failures"
    for label, prefix in (("correct solutions that pass", "correct_pass"), ("false positives", "fp")):
        steps = [m[f"{prefix}_{suite}"] for suite in ("before", "raw", "timeout", "final")]
        if None not in steps:
            before, raw, timeout, final = (f"{100 * step:.4g}%" for step in steps)
            yield f"{label}: {before} before → {raw} raw → {timeout} after timeouts → {final} filtered"


def _filterability(connection: Connection, problem_id: str) -> Iterator[str]:
    rows = connection.execute(
        "SELECT category, n_tests, robust_cv, iqr_s, median_s, pearson_r, duration_filterable, reason "
        "FROM filterability WHERE problem_id = ? "
        "ORDER BY list_position(['original', 'correctness', 'optimization'], category)",
        [problem_id],
    ).fetchall()
    for category, n_tests, cv, iqr, median, r, filterable, reason in rows:
        figures = [f"{n_tests} tests"]
        figures += [
            f"{name} {value:.4g}{unit}"
            for name, value, unit in (
                ("robust CV", cv, ""),
                ("IQR", iqr, " s"),
                ("median", median, " s"),
                ("Pearson r", r, ""),
            )
            if value is not None
        ]
        yield f"{category}: {', '.join(figures)}: {'duration filterable' if filterable else reason}"


def _split(connection: Connection, problem_id: str) -> Iterator[Event]:
    row = connection.execute("SELECT pool, split FROM splits WHERE problem_id = ?", [problem_id]).fetchone()
    if row:
        yield Event(Stage.SPLIT, f"pool {row[0]}, split {row[1]}")
