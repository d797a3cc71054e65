"""Two builds side by side: which decisions changed, and why (`dmc-optim diff`)."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

import duckdb
import pyarrow as pa

from schemas.enums import Reason, Stage

Connection = duckdb.DuckDBPyConnection

_EXECUTION = ("execution.time_limit_s", "execution.memory_bytes", "execution.comparator", "execution.clock")
_ROUND: dict[str, tuple[str, ...]] = {
    Reason.TIMEOUT_FRACTION: ("timeout_fraction", "timeout_cap"),
    Reason.FAILURE_FRACTION: ("failure_fraction", "failure_cap"),
    Reason.TOO_FEW_CORRECT: ("min_correct",),
    Reason.TOO_FEW_INCORRECT: ("min_incorrect",),
    Reason.CORRECT_DROP_RATE: ("max_drop_rate",),
    Reason.FALSE_POSITIVE_RATE: ("max_false_positive_rate",),
    Reason.FAILS_SUITE: ("timeout_is_success",),
}
_OTHER: dict[str, tuple[str, ...]] = {
    Reason.OTHER_LANGUAGE: ("ingest.languages",),
    Reason.BENCHMARK_NEAR: ("dedup.jaccard", "dedup.shingle_words", "dedup.permutations"),
    Reason.STATEMENT_SHORT: ("dedup.min_statement_chars",),
    Reason.LOW_CV: ("filterability.robust_cv",),
    Reason.BELOW_RESOLUTION: ("filterability.min_iqr_s",),
}

WITH_ITS_PROBLEM = "its problem's fate changed"


@dataclass(frozen=True)
class Setting:
    """A setting that differs. None: this build does not know it."""

    key: str
    before: str | None
    after: str | None

    def __str__(self) -> str:
        return f"{self.key} {self.before} → {self.after}"


@dataclass(frozen=True)
class Change:
    """Another fate in the second build. before, after: `kept`, `absent`, or `stage: reason`."""

    entity: str
    problem_id: str
    entity_id: str
    label: str
    before: str
    after: str
    cause: str


@dataclass(frozen=True)
class Comparison:
    """What differs between two builds."""

    settings: list[Setting]
    changes: list[Change]

    def summary(self) -> list[tuple[str, str, str, int]]:
        """(entity, before, after, how many), most first."""
        counts = Counter((change.entity, change.before, change.after) for change in self.changes)
        return [(*key, number) for key, number in sorted(counts.items(), key=lambda item: (-item[1], item[0]))]


def compare(first: Connection, second: Connection) -> Comparison:
    """Compare two connections of `dmc_optim.audit.connection.connect`. `first` gets copies of the other's rows."""
    for view in ("fates", "splits", "config"):
        _copy(first, f"other_{view}", second.sql(f"SELECT * FROM {view}").to_arrow_table())
    outcomes = "SELECT problem_id, solution_id, test_id, status FROM executions"
    _copy(first, "other_outcomes", second.sql(outcomes).to_arrow_table())
    settings = [
        Setting(*row)
        for row in first.execute(
            "SELECT key, a.value, b.value FROM config a FULL JOIN other_config b USING (key) "
            "WHERE a.value IS DISTINCT FROM b.value ORDER BY key"
        ).fetchall()
    ]
    first.execute(
        f"CREATE OR REPLACE TEMP TABLE outcome_changes AS SELECT problem_id, solution_id, test_id "
        f"FROM ({outcomes}) a JOIN other_outcomes b USING (problem_id, solution_id, test_id) WHERE a.status <> b.status"
    )
    return Comparison(settings, [*_changes(first, settings), *_split_changes(first, settings)])


def _copy(connection: Connection, name: str, table: pa.Table) -> None:
    connection.register("incoming", table)
    connection.execute(f"CREATE OR REPLACE TEMP TABLE {name} AS SELECT * FROM incoming")
    connection.unregister("incoming")


def _changes(connection: Connection, settings: list[Setting]) -> Iterable[Change]:
    fate = "CASE WHEN {0}.entity IS NULL THEN 'absent' WHEN {0}.stage IS NULL THEN 'kept' "
    fate += "ELSE {0}.stage || ': ' || {0}.reason END"
    differ = {entity: f"(SELECT count(*) FROM outcome_changes o WHERE {match})" for entity, match in _OUTCOMES.items()}
    counts = " ".join(f"WHEN '{entity}' THEN {sql}" for entity, sql in differ.items())
    rows = connection.execute(
        f"""
        SELECT *, CASE entity {counts} ELSE 0 END AS outcomes FROM (
            SELECT entity, problem_id, entity_id, coalesce(a.label, b.label) AS label,
                   {fate.format("a")} AS before, {fate.format("b")} AS after
            FROM fates a FULL JOIN other_fates b USING (entity, problem_id, entity_id)) c
        WHERE before <> after ORDER BY entity, problem_id, entity_id
        """
    ).fetchall()
    problems = {row[1] for row in rows if row[0] == "problem" and "absent" not in row[4:6]}
    for entity, problem_id, entity_id, label, before, after, outcomes in rows:
        cause = _cause(entity, before, after, outcomes, settings, problem_id in problems)
        yield Change(entity, problem_id, entity_id, label, before, after, cause)


_OUTCOMES = {
    "problem": "o.problem_id = c.problem_id",
    "solution": "o.problem_id = c.problem_id AND o.solution_id = c.entity_id",
    "test": "o.problem_id = c.problem_id AND o.test_id = c.entity_id",
}


def _cause(entity: str, before: str, after: str, outcomes: int, settings: list[Setting], problem_changed: bool) -> str:
    """The nearest cause: presence, the problem's own change, a setting, outcomes, or an earlier change."""
    if entity != "problem" and problem_changed and ("absent" in (before, after) or _fell_with_it(before, after)):
        return WITH_ITS_PROBLEM
    if "absent" in (before, after):
        return "only in the second build" if before == "absent" else "only in the first build"
    wanted = {key for fate in (before, after) for key in _settings_of(fate)}
    decided = [str(setting) for setting in settings if setting.key in wanted]
    if decided:
        return "setting " + ", ".join(decided)
    if outcomes:
        return f"{outcomes} executions of it had another outcome"
    return "follows from another change above it" if settings else "follows from other executions of its problem"


def _fell_with_it(before: str, after: str) -> bool:
    return any(fate.endswith(Reason.PROBLEM_DROPPED) for fate in (before, after))


def _settings_of(fate: str) -> tuple[str, ...]:
    """Keys of the settings that a decision reads."""
    stage, _, reason = fate.partition(": ")
    if reason in _ROUND and stage in (Stage.FILTER_CORRECTNESS, Stage.FILTER_OPTIMIZATION):
        return tuple(f"{stage}.{key}" for key in _ROUND[reason])
    if reason == Reason.FAILED_ORIGINAL_TESTS:
        return _EXECUTION
    return _OTHER.get(reason, ())


def _split_changes(connection: Connection, settings: list[Setting]) -> list[Change]:
    own = [str(setting) for setting in settings if setting.key == "seed" or setting.key.startswith("split.")]
    cause = f"setting {', '.join(own)}" if own else "the pool that is split has other problems"
    rows = connection.execute(
        "SELECT problem_id, a.pool || '/' || a.split AS before, b.pool || '/' || b.split AS after "
        "FROM splits a JOIN other_splits b USING (problem_id) WHERE a.pool = b.pool AND a.split <> b.split ORDER BY ALL"
    ).fetchall()
    return [Change("problem", row[0], row[0], "", row[1], row[2], cause) for row in rows]
