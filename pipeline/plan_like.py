"""What a finished build did, measured from its tables, records and files: what `dmc-optim plan` scales."""

import math
import re
from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

import duckdb
import pyarrow.parquet as pq

from dmc_optim.artifacts.layout import Layout
from dmc_optim.audit.connection import connect
from dmc_optim.config import BuildConfig, ExecutionConfig, SynthesisConfig
from dmc_optim.errors import ArtifactError
from pipeline.plan import (
    EXECUTING,
    FILTERS,
    LABELS,
    SYNTHESIS,
    Measured,
    Part,
    ProblemCounts,
    StageMeasure,
    TableMeasure,
    Work,
    upper_bound,
)
from schemas import TABLES
from schemas.enums import ORIGINAL_CATEGORIES, AttemptReason, Campaign, Entity, Label, Reason, Stage
from transforms.generator_run import schedule

Connection = duckdb.DuckDBPyConnection
_STAGE_OF = {
    Campaign.ORIGINAL: Stage.VALIDATE,
    Campaign.CORRECTNESS: FILTERS[0],
    Campaign.OPTIMIZATION: FILTERS[1],
}
_CAMPAIGNS = (Campaign.CORRECTNESS, Campaign.OPTIMIZATION)
_ORIGINAL = ", ".join(f"'{category}'" for category in ORIGINAL_CATEGORIES)
_NOT_RUN = frozenset(
    {
        AttemptReason.NO_COMPLETION,
        AttemptReason.NO_CODE,
        AttemptReason.NO_CLASS,
        AttemptReason.NOT_PARSEABLE,
        AttemptReason.TRUNCATED,
        AttemptReason.TOO_FEW_SOLUTIONS,
    }
)
_ENDS_AT_CALL = frozenset(
    {AttemptReason.GENERATOR_CRASHED, AttemptReason.GENERATOR_TIMEOUT, AttemptReason.INPUT_TOO_LARGE}
)
_CALL = re.compile(r"call (\d+)-\w+: ")
_ENDED_NORMALLY = re.compile(r"ended without an answer$|\d+ bytes, at most \d+$")  # judged after all calls had run


def measure(out: str) -> Measured:
    """Read a finished build. Raises ArtifactError for what is none."""
    if not out.strip():
        raise ArtifactError("--like: give the directory of a finished build")
    connection = connect(out)
    layout = Layout(out)
    manifest, records = layout.manifest(), layout.completed()
    missing = [stage for stage in Stage if stage not in records]
    if missing:
        raise ArtifactError(
            f"--like {out}: not a finished build ({missing[0]} is to be done); finish it or give another"
        )
    config = _config(out, manifest)
    stored, cpu_s, wall_s = _stored(connection)
    attempts, accepted, made = _attempts(connection, config)
    problems = _entering(records)
    distinct, known = _distinct(connection, records, manifest)
    counts = _problem_counts(connection)
    new = dict(connection.execute("SELECT category, count(*) FROM tests GROUP BY 1").fetchall())
    (new_chars,) = _one(connection, f"SELECT coalesce(sum(n_chars), 0) FROM tests WHERE category NOT IN ({_ORIGINAL})")
    (other,) = _one(connection, f"SELECT count(*) FROM exclusions WHERE reason = '{Reason.OTHER_LANGUAGE}'")
    bound = upper_bound(counts, config)
    return Measured(
        config=config,
        bound=bound,
        parts=stored | made,
        attempts=attempts,
        accepted=accepted,
        cpu_s=cpu_s,
        stages=_stages(records, problems, wall_s),
        tables={name: _table(layout, name) for name in TABLES if layout.glob(f"tables/{name}/*.parquet")},
        rows=sum(row["n_in"] for row in records[Stage.INGEST]["counts"] if _is_total(row, Entity.ROW)),
        shards=int(manifest.get("shards") or 1),
        distinct=distinct,
        distinct_known=known,
        new_tests={stage: new.get(campaign, 0) for stage, campaign in zip(SYNTHESIS, _CAMPAIGNS, strict=True)},
        new_test_chars=int(new_chars),
        other_language=other,
        dataset_bytes=sum(layout.fs.size(path) for path in layout.glob("dataset/*/*.parquet")),
        other_seconds=sum(records[stage]["seconds"] for stage in Stage if stage not in EXECUTING),
        fake=str(manifest.get("engine", "")).startswith("fake"),
    )


def generator_calls(reason: str | None, detail: str | None, calls: int) -> int:
    """Calls that an attempt's generator had: those up to the one that ended it, none where nothing was run."""
    if reason in _NOT_RUN:
        return 0
    found = _CALL.match(detail or "")
    if reason in _ENDS_AT_CALL and found and not _ENDED_NORMALLY.search(detail or ""):
        return int(found.group(1)) + 1
    return calls


def _config(out: str, manifest: Mapping[str, Any]) -> BuildConfig:
    stored = manifest.get("config")
    if not isinstance(stored, dict):
        raise ArtifactError(f"{out}: its manifest.json has no configuration; build it again")

    def section(kind: type[Any], name: str) -> Any:
        known = {field.name for field in fields(kind)}
        return kind(**{key: value for key, value in (stored.get(name) or {}).items() if key in known})

    return replace(
        BuildConfig(),
        execution=section(ExecutionConfig, "execution"),
        synthesis=section(SynthesisConfig, "synthesis"),
    )


def _problem_counts(connection: Connection) -> list[ProblemCounts]:
    """Every ingested problem, as the first stage stored it."""
    rows = connection.execute(
        f"""
        SELECT coalesce(correct, 0), coalesce(incorrect, 0), coalesce(n_tests, 0), coalesce(chars, 0),
               problem_id IN (SELECT problem_id FROM exclusions WHERE reason = '{Reason.FILE_IO}')
        FROM problems
        LEFT JOIN (SELECT problem_id, count(*) FILTER (label = '{Label.CORRECT}') AS correct,
                          count(*) FILTER (label = '{Label.INCORRECT}') AS incorrect
                   FROM solutions GROUP BY 1) USING (problem_id)
        LEFT JOIN (SELECT problem_id, count(*) AS n_tests, sum(n_chars)::BIGINT AS chars
                   FROM tests WHERE category IN ({_ORIGINAL}) GROUP BY 1) USING (problem_id)
        """
    ).fetchall()
    return [ProblemCounts(*row) for row in rows]


def _stored(connection: Connection) -> tuple[dict[Part, float], dict[Part, float], dict[Stage, float]]:
    """(rows, CPU seconds) by part, and elapsed seconds by stage, of the executions that are stored."""
    rows = connection.execute(
        "SELECT campaign, label, count(*), coalesce(sum(cpu_s * repetitions), 0), "
        "coalesce(sum(wall_s * repetitions), 0) "
        "FROM executions JOIN solutions USING (problem_id, solution_id) GROUP BY 1, 2"
    ).fetchall()
    numbers: dict[Part, float] = {}
    cpu_s: dict[Part, float] = {}
    wall_s = dict.fromkeys(EXECUTING, 0.0)
    works = dict(zip((Label.CORRECT, Label.INCORRECT), LABELS, strict=True))
    for campaign, label, number, cpu, wall in rows:
        part = _STAGE_OF[Campaign(campaign)], works[Label(label)]
        numbers[part], cpu_s[part] = number, cpu
        wall_s[part[0]] += wall
    return numbers, cpu_s, wall_s


def _attempts(
    connection: Connection, config: BuildConfig
) -> tuple[dict[Stage, int], dict[Stage, int], dict[Part, float]]:
    """(answered, accepted) attempts by stage, and what they ran.

    A vote counts as all its calls: where a failing solution ended is not stored.
    """
    answered, accepted = dict.fromkeys(SYNTHESIS, 0), dict.fromkeys(SYNTHESIS, 0)
    parts: dict[Part, float] = {}
    for stage, campaign in zip(SYNTHESIS, _CAMPAIGNS, strict=True):
        calls = len(schedule(campaign, config.synthesis.calls_per_method))
        rows = connection.execute(
            f"SELECT a.reason, e.detail FROM generator_attempts a LEFT JOIN exclusions e ON e.stage = '{stage}' "
            f"AND e.entity = '{Entity.ATTEMPT}' AND e.problem_id = a.problem_id AND e.entity_id = a.attempt::VARCHAR "
            f"WHERE a.campaign = '{campaign}'"
        ).fetchall()
        answered[stage] = sum(reason != AttemptReason.NO_COMPLETION for reason, _ in rows)
        accepted[stage] = sum(reason is None for reason, _ in rows)
        verified = sum(reason in (None, AttemptReason.VERIFICATION_FAILED) for reason, _ in rows)
        (votes,) = _one(connection, f"SELECT count(*) FROM consensus WHERE campaign = '{campaign}'")
        parts[stage, Work.GENERATORS] = sum(generator_calls(reason, detail, calls) for reason, detail in rows)
        parts[stage, Work.CONSENSUS] = votes * calls
        parts[stage, Work.VERIFICATION] = verified * calls
    return answered, accepted, parts


def _entering(records: Mapping[str, dict[str, Any]]) -> dict[Stage, int]:
    return {
        stage: sum(row["n_in"] for row in records[stage]["counts"] if _is_total(row, Entity.PROBLEM))
        for stage in EXECUTING
    }


def _is_total(row: Mapping[str, Any], entity: Entity) -> bool:
    return bool(row["entity"] == entity and row["reason"] == Reason.TOTAL)


def _distinct(
    connection: Connection, records: Mapping[str, dict[str, Any]], manifest: Mapping[str, Any]
) -> tuple[tuple[float, float], bool]:
    """Shares of listed solutions that are stored, by label; a limit hides them unless nothing collapsed at all."""
    rows = [row for row in records[Stage.INGEST]["counts"] if row["entity"] == Entity.SOLUTION]
    stored = dict(connection.execute("SELECT label, count(*) FROM solutions GROUP BY 1").fetchall())
    shares = []
    for label in (Label.CORRECT, Label.INCORRECT):
        own = {row["reason"]: row for row in rows if row["label"] == label}
        listed = own[Reason.TOTAL]["n_created"] if Reason.TOTAL in own else 0
        listed -= own[Reason.OTHER_LANGUAGE]["n_dropped"] if Reason.OTHER_LANGUAGE in own else 0
        shares.append(stored.get(label, 0) / listed if listed else 1.0)
    if (manifest.get("limits") or {}).get("solutions") is None:
        return (shares[0], shares[1]), True
    return (1.0, 1.0), not any(row["reason"] in (Reason.DUPLICATE, Reason.CONTRADICTORY_LABEL) for row in rows)


def _stages(
    records: Mapping[str, dict[str, Any]], problems: Mapping[Stage, int], wall_s: Mapping[Stage, float]
) -> dict[Stage, StageMeasure]:
    """Where no record says how many slots there were: the least that the busiest stage's elapsed times allow."""
    busy = [wall_s[stage] / records[stage]["seconds"] for stage in EXECUTING if records[stage]["seconds"] > 0]
    least = max(1, math.ceil(max(busy, default=1.0)))
    found = {}
    for stage in EXECUTING:
        slots = records[stage].get("slots")
        found[stage] = StageMeasure(problems[stage], records[stage]["seconds"], slots or least, slots is not None)
    return found


def _table(layout: Layout, name: str) -> TableMeasure:
    rows = data = overhead = 0
    files = layout.glob(f"tables/{name}/*.parquet")
    for path in files:
        with layout.fs.open(path, "rb") as handle:
            metadata = pq.read_metadata(handle)
        groups = [metadata.row_group(position) for position in range(metadata.num_row_groups)]
        own = sum(group.column(c).total_compressed_size for group in groups for c in range(group.num_columns))
        rows += metadata.num_rows
        data += own
        overhead += layout.fs.size(path) - own
    return TableMeasure(rows, data, len(files), overhead)


def _one(connection: Connection, sql: str) -> tuple[Any, ...]:
    row = connection.execute(sql).fetchone()
    assert row is not None
    return row
