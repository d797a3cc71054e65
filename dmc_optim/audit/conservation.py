"""Checks of the ledger: every count in `attrition` follows from the rows of the other tables."""

from collections.abc import Iterator

from schemas.enums import ATTRITION_ONLY, Reason, Stage
from schemas.table import Check

_ATTRITION_ONLY = ", ".join(f"'{reason}'" for reason in ATTRITION_ONLY)


def conservation_checks() -> Iterator[Check]:
    """Sums, chain of stages, recount of the survivors, and one exclusions row for every drop."""
    yield from _count_checks()
    yield from _exclusion_checks()


def _count_checks() -> Iterator[Check]:
    yield Check(
        "attrition: total is the sum of the reasons",
        "n_dropped of the total equals the sum over its reasons, and every group has a total",
        f"""
        SELECT stage, entity, label, max(n_dropped) FILTER (reason = '{Reason.TOTAL}') AS total,
               coalesce(sum(n_dropped) FILTER (reason <> '{Reason.TOTAL}'), 0) AS summed
        FROM attrition GROUP BY ALL HAVING total IS DISTINCT FROM summed
        """,
    )
    yield Check(
        "attrition: stages follow on",
        "what leaves a stage is what enters the next one; what was never there before enters as 0",
        f"""
        SELECT stage, entity, label, n_in, left_before FROM (
            SELECT a.*, coalesce(lag(n_out) OVER (PARTITION BY entity, label ORDER BY position), 0) AS left_before
            FROM attrition a JOIN stages USING (stage) WHERE reason = '{Reason.TOTAL}')
        WHERE entity IN ('problem', 'solution', 'test') AND n_in <> left_before
        """,
    )
    yield Check(
        "attrition: survivors recounted",
        "n_out is the number of rows that no exclusion names, and no survivor goes uncounted",
        f"""
        SELECT stage, entity, label, n_out, survivors FROM
            (SELECT stage, entity, label, n_out FROM attrition
             WHERE reason = '{Reason.TOTAL}' AND entity IN ('problem', 'solution', 'test'))
            FULL JOIN (SELECT * FROM ({_survivor_counts()}) WHERE stage IN (SELECT stage FROM attrition))
            USING (stage, entity, label)
        WHERE coalesce(n_out, 0) <> coalesce(survivors, 0)
        """,
    )
    yield Check(
        "attrition: rows become problems",
        "rows that survive ingest are the problems, and those it read are they and the malformed ones",
        f"""
        SELECT n_in, n_out, (SELECT count(*) FROM problems) AS problems FROM attrition
        WHERE stage = '{Stage.INGEST}' AND entity = 'row' AND reason = '{Reason.TOTAL}'
          AND n_out <> (SELECT count(*) FROM problems)
        """,
    )


def _exclusion_checks() -> Iterator[Check]:
    yield Check(
        "attrition: every drop is explained",
        "each reason's n_dropped is its number of exclusions rows (contradictory solutions count under both labels)",
        f"""
        WITH ledger AS (
            SELECT stage, entity, reason, CASE reason WHEN '{Reason.OTHER_LANGUAGE}' THEN '' ELSE label END AS label,
                   sum(n_dropped) AS n_dropped
            FROM attrition WHERE reason NOT IN ({_ATTRITION_ONLY}) GROUP BY ALL),
        named AS (
            SELECT e.stage, e.entity, e.reason,
                   CASE e.entity WHEN 'solution' THEN coalesce(b.label, s.label, '')
                                 WHEN 'test' THEN t.category ELSE '' END AS label
            FROM exclusions e
            LEFT JOIN solutions s
                ON e.entity = 'solution' AND s.problem_id = e.problem_id AND s.solution_id = e.entity_id
            LEFT JOIN tests t ON e.entity = 'test' AND t.problem_id = e.problem_id AND t.test_id = e.entity_id
            LEFT JOIN (VALUES ('correct'), ('incorrect')) b(label) ON e.reason = '{Reason.CONTRADICTORY_LABEL}'),
        counted AS (SELECT stage, entity, label, reason, count(*) AS exclusions FROM named GROUP BY ALL)
        SELECT stage, entity, label, reason, n_dropped, exclusions FROM
            ledger FULL JOIN counted USING (stage, entity, label, reason)
        WHERE coalesce(n_dropped, 0) <> coalesce(exclusions, 0)
        """,
    )
    yield Check(
        "exclusions: dropped once",
        "a problem, solution or test is dropped by one stage only",
        """
        SELECT entity, problem_id, entity_id, list(stage ORDER BY stage) AS stages FROM exclusions
        GROUP BY entity, problem_id, entity_id HAVING count(*) > 1 AND entity <> 'attempt'
        """,
    )


def _survivor_counts() -> str:
    return " UNION ALL ".join(
        f"SELECT '{stage}' AS stage, entity, label, count(*) AS survivors FROM survivors_{stage} GROUP BY entity, label"
        for stage in Stage
    )
