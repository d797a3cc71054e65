"""What happened to one problem, solution or test, stage by stage, and what decided (`dmc-optim why`)."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import duckdb

from dmc_optim.errors import UsageError
from dmc_optim.report.event import Event
from dmc_optim.report.explain import explain
from dmc_optim.report.story_problem import problem_events
from schemas.enums import Entity, Stage

Connection = duckdb.DuckDBPyConnection
SHORTEST_PREFIX = 4
MATCHES_SHOWN = 20


@dataclass(frozen=True)
class Match:
    """Something an id may mean."""

    entity: str
    problem_id: str
    entity_id: str
    label: str

    def __str__(self) -> str:
        own = "" if self.entity_id == self.problem_id else f" {self.entity_id}"
        return f"{self.entity}{own} of {self.problem_id}" if own else f"{self.entity} {self.problem_id}"


@dataclass(frozen=True)
class Story:
    """The life of one entity. fate: `kept`, or the stage that dropped it."""

    entity: str
    problem_id: str
    entity_id: str
    title: str
    fate: str
    events: list[Event] = field(default_factory=list)

    def text(self) -> str:
        """A heading and one line an event, each stage named once."""
        width = max((len(event.stage) for event in self.events), default=0)
        lines, shown = [], ""
        for event in self.events:
            lines.append(f"{'' if event.stage == shown else event.stage:<{width}}  {event.text}")
            shown = event.stage
        return "\n".join([self.title, *(f"  {line}" for line in lines), f"  → {self.fate}"])


def find(connection: Connection, wanted: str) -> list[Match]:
    """Everything an id may mean: whole ids and names first, then prefixes of solution and test ids.

    `PROBLEM:ID` names a solution or test of one problem. Raises UsageError when nothing matches.
    """
    problem, _, own = wanted.rpartition(":")
    scope = "problem_id = $problem AND " if problem else ""
    parameters = {"id": own, "problem": problem} if problem else {"id": own}
    select = "SELECT DISTINCT entity, problem_id, entity_id, label FROM fates WHERE "
    exact = f"{scope}(entity_id = $id OR (entity = 'problem' AND problem_id IN (SELECT problem_id FROM problems "
    found = connection.execute(f"{select}{exact}WHERE name = $id))) ORDER BY ALL", parameters).fetchall()
    if not found and len(own) >= SHORTEST_PREFIX:
        prefix = f"{scope}starts_with(entity_id, $id) AND entity IN ('solution', 'test')"
        found = connection.execute(f"{select}{prefix} ORDER BY ALL", parameters).fetchall()
    if not found:
        raise UsageError(
            f"no problem, solution or test '{wanted}' in this build; ids look like train/532 or 16 hex digits "
            f"(at least the first {SHORTEST_PREFIX}), a problem's name works too"
        )
    return [Match(*row) for row in found]


def tell(connection: Connection, match: Match) -> Story:
    """The story of one match."""
    if match.entity == Entity.ROW:
        events = [_drop_event(row) for row in _exclusions(connection, match)]
        return Story(*_key(match), f"row {match.problem_id}", f"dropped by {Stage.INGEST}", events)
    if match.entity == Entity.PROBLEM:
        events = list(problem_events(connection, match.problem_id))
        name, source, difficulty = _one(
            connection, "SELECT name, source, difficulty FROM problems WHERE problem_id = ?", [match.problem_id]
        )
        title = f"problem {match.problem_id}  {name!r} ({source}, {difficulty})"
    elif match.entity == Entity.SOLUTION:
        events = list(_solution_events(connection, match))
        title = f"solution {match.entity_id} of {match.problem_id}"
        title += f" ({match.label} in the source)" if match.label else " (its code is not stored)"
    else:
        events = list(_test_events(connection, match))
        title = f"test {match.entity_id} of {match.problem_id} ({match.label})"
    return Story(*_key(match), title, _fate(connection, match), events)


def _key(match: Match) -> tuple[str, str, str]:
    return match.entity, match.problem_id, match.entity_id


def _fate(connection: Connection, match: Match) -> str:
    row = _one(
        connection,
        "SELECT stage, reason FROM fates WHERE (entity, problem_id, entity_id) = (?, ?, ?)",
        list(_key(match)),
    )
    if row[0] is None:
        split = connection.execute("SELECT pool, split FROM splits WHERE problem_id = ?", [match.problem_id]).fetchone()
        return f"kept: pool {split[0]}, split {split[1]}" if split else "kept so far"
    kept = " (kept in the complement pool)" if row[0] == Stage.FILTERABILITY else ""
    return f"dropped by {row[0]}: {row[1]}{kept}"


def _solution_events(connection: Connection, match: Match) -> Iterator[Event]:
    """Its runs by campaign, what dropped it or its problem, and its reference durations."""
    drops = {row[0]: row for row in [*_exclusions(connection, match), *_problem_exclusion(connection, match)]}
    runs = _runs(connection, "e.solution_id = ?", match)
    for stage, campaign in (
        (Stage.VALIDATE, "original"),
        (Stage.FILTER_CORRECTNESS, "correctness"),
        (Stage.FILTER_OPTIMIZATION, "optimization"),
    ):
        if campaign in runs:
            yield Event(stage, f"{campaign} tests: {runs[campaign]}")
            yield from _failures(connection, match, stage, campaign)
        yield from (_drop_event(drops.pop(other)) for other in list(drops) if _not_after(other, stage))
    yield from (_drop_event(row) for row in drops.values())
    row = connection.execute(
        "SELECT count(*), avg(duration_s), max(duration_s) FROM reference_durations WHERE problem_id = ? "
        "AND solution_id = ?",
        [match.problem_id, match.entity_id],
    ).fetchone()
    if row and row[0]:
        yield Event(Stage.DATASETS, f"reference on {row[0]} tests: mean {row[1]:.4g} s, slowest {row[2]:.4g} s")


def _failures(connection: Connection, match: Match, stage: Stage, campaign: str) -> Iterator[Event]:
    rows = connection.execute(
        "SELECT e.test_id, e.status FROM executions e WHERE e.problem_id = ? AND e.solution_id = ? AND e.campaign = ? "
        "AND e.status NOT IN ('success', 'infrastructure') ORDER BY e.test_id LIMIT 4",
        [match.problem_id, match.entity_id, campaign],
    ).fetchall()
    if rows:
        more = ", …" if len(rows) > 3 else ""
        yield Event(stage, "not successful on " + ", ".join(f"{test} ({status})" for test, status in rows[:3]) + more)


def _test_events(connection: Connection, match: Match) -> Iterator[Event]:
    """Where it comes from, what solutions of each label made of it, what dropped it or its problem."""
    n_chars, attempt = _one(
        connection,
        "SELECT n_chars, generator_attempt FROM tests WHERE problem_id = ? AND test_id = ?",
        [match.problem_id, match.entity_id],
    )
    origin = Stage.INGEST if attempt is None else Stage(f"synthesize_{match.label}")
    yield Event(origin, f"{n_chars} characters" + ("" if attempt is None else f", made by attempt {attempt}"))
    stage = Stage.VALIDATE if attempt is None else Stage(f"filter_{match.label}")
    for label in ("correct", "incorrect"):
        for campaign, text in _runs(connection, f"e.test_id = ? AND s.label = '{label}'", match).items():
            yield Event(stage, f"{campaign} runs of {label} solutions: {text}")
    for row in [*_exclusions(connection, match), *_problem_exclusion(connection, match)]:
        yield _drop_event(row)


def _runs(connection: Connection, condition: str, match: Match) -> dict[str, str]:
    """{campaign: how many of each status, and the mean duration of the successes}."""
    rows = connection.execute(
        f"""
        SELECT e.campaign, e.status, count(*) AS n, avg(e.duration_s) FROM executions e
        JOIN solutions s USING (problem_id, solution_id)
        WHERE e.problem_id = ? AND {condition} GROUP BY ALL ORDER BY e.campaign, n DESC, e.status
        """,
        [match.problem_id, match.entity_id],
    ).fetchall()
    texts: dict[str, str] = {}
    for campaign, status, number, mean in rows:
        timed = f" (mean {mean:.4g} s)" if mean is not None and status == "success" else ""
        texts[campaign] = ", ".join(filter(None, [texts.get(campaign), f"{number} {status}{timed}"]))
    return texts


def _exclusions(connection: Connection, match: Match) -> list[tuple[Any, ...]]:
    return connection.execute(
        "SELECT stage, reason, value, threshold, detail FROM exclusions "
        "WHERE entity = ? AND problem_id = ? AND entity_id = ?",
        list(_key(match)),
    ).fetchall()


def _problem_exclusion(connection: Connection, match: Match) -> list[tuple[Any, ...]]:
    """The problem's own drop, unless this entity was dropped before it."""
    row = _one(
        connection, "SELECT reason FROM fates WHERE (entity, problem_id, entity_id) = (?, ?, ?)", list(_key(match))
    )
    if row[0] != "problem_dropped":
        return []
    return [
        (stage, "problem_dropped", None, None, explain(reason, value, threshold, detail))
        for stage, reason, value, threshold, detail in connection.execute(
            "SELECT stage, reason, value, threshold, detail FROM exclusions "
            "WHERE entity = 'problem' AND problem_id = ?",
            [match.problem_id],
        ).fetchall()
    ]


def _drop_event(row: tuple[Any, ...]) -> Event:
    stage, reason, value, threshold, detail = row
    return Event(stage, f"DROPPED {reason}: {explain(reason, value, threshold, detail)}", reason, value, threshold)


def _not_after(stage: str, other: Stage) -> bool:
    order = list(Stage)
    return order.index(Stage(stage)) <= order.index(other)


def _one(connection: Connection, sql: str, parameters: list[Any]) -> tuple[Any, ...]:
    row = connection.execute(sql, parameters).fetchone()
    assert row is not None
    return row
