"""Checks of synthesis: attempts, what the verification pool answered, and the tests that came of it agree."""

from collections.abc import Iterator

from schemas.enums import Campaign
from schemas.table import Check


def generation_checks(calls: int, min_agreeing: int, comparator: str) -> Iterator[Check]:
    """calls: tests of an accepted attempt (15); min_agreeing: solutions that must agree (2).

    comparator: under `tokens_float` equal outputs may have different digests, so groups are not recounted.
    """
    if not comparator.startswith("tokens_float"):
        yield from _group_checks(min_agreeing)
    yield from _attempt_checks(calls)


def _group_checks(min_agreeing: int) -> Iterator[Check]:
    yield Check(
        "consensus: agreement decided",
        "the largest group with equal outputs is n_agreeing; an accepted attempt's is large enough and has no rival",
        f"""
        WITH sizes AS (SELECT problem_id, campaign, attempt, outputs_sha256, count(*) AS n FROM consensus
                       WHERE outputs_sha256 IS NOT NULL GROUP BY ALL),
        largest AS (SELECT problem_id, campaign, attempt, max(n) AS largest,
                           count(*) FILTER (n = top) AS rivals
                    FROM (SELECT *, max(n) OVER (PARTITION BY problem_id, campaign, attempt) AS top FROM sizes)
                    GROUP BY ALL)
        SELECT problem_id, campaign, attempt, a.accepted, a.n_agreeing, l.largest, l.rivals
        FROM generator_attempts a LEFT JOIN largest l USING (problem_id, campaign, attempt)
        WHERE a.n_agreeing <> coalesce(l.largest, 0)
           OR (a.accepted AND (coalesce(l.largest, 0) < {min_agreeing} OR l.rivals > 1))
        """,
    )
    yield Check(
        "consensus: agreed marks one group",
        "the solutions marked as agreed are one whole group with equal outputs",
        """
        WITH marked AS (SELECT problem_id, campaign, attempt, count(DISTINCT outputs_sha256) AS groups,
                               min(outputs_sha256) AS outputs_sha256, count(*) AS marked
                        FROM consensus WHERE agreed GROUP BY ALL)
        SELECT problem_id, campaign, attempt, groups, m.marked, count(*) AS in_group FROM marked m
        JOIN consensus c USING (problem_id, campaign, attempt, outputs_sha256)
        GROUP BY ALL HAVING groups > 1 OR m.marked <> count(*)
        """,
    )


def _attempt_checks(calls: int) -> Iterator[Check]:
    yield Check(
        "consensus: agreed are counted",
        "an attempt's solutions marked as agreed are n_agreeing, or none when it found no consensus",
        """
        SELECT problem_id, campaign, attempt, a.accepted, a.reason, a.n_agreeing, coalesce(c.agreed, 0) AS agreed
        FROM generator_attempts a LEFT JOIN (SELECT problem_id, campaign, attempt, count(*) AS agreed FROM consensus
            WHERE consensus.agreed GROUP BY ALL) c USING (problem_id, campaign, attempt)
        WHERE coalesce(c.agreed, 0) <> CASE WHEN a.accepted OR (a.n_agreeing IS NOT NULL
            AND a.reason NOT IN ('no_consensus', 'ambiguous_consensus')) THEN a.n_agreeing ELSE 0 END
        """,
    )
    yield Check(
        "generator_attempts: tests of accepted attempts",
        "an accepted attempt gives one test a call; what is stored of them, duplicates collapsed, is no more",
        f"""
        SELECT a.problem_id, a.campaign, a.attempt, a.accepted, a.n_tests, count(t.test_id) AS stored
        FROM generator_attempts a LEFT JOIN tests t
          ON (t.problem_id, t.category, t.generator_attempt) = (a.problem_id, a.campaign, a.attempt)
        GROUP BY ALL HAVING count(t.test_id) > a.n_tests OR (a.accepted AND a.n_tests <> {calls})
        """,
    )
    yield Check(
        "generator_attempts: rejected ones are excluded",
        "every rejected attempt has its exclusions row with the same reason, and no accepted one has",
        """
        SELECT a.problem_id, a.campaign, a.attempt, a.reason, e.reason AS excluded FROM generator_attempts a
        FULL JOIN (SELECT *, replace(stage, 'synthesize_', '') AS campaign, try_cast(entity_id AS BIGINT) AS attempt
                   FROM exclusions WHERE entity = 'attempt') e USING (problem_id, campaign, attempt)
        WHERE a.reason IS DISTINCT FROM e.reason
        """,
    )
    for campaign in (Campaign.CORRECTNESS, Campaign.OPTIMIZATION):
        verified = f"survivors_{'validate' if campaign is Campaign.CORRECTNESS else 'filter_correctness'}_solutions"
        yield Check(
            f"consensus: {campaign} pool is verified",
            "only verified-correct solutions vouch for outputs or appear in a prompt",
            f"""
            SELECT problem_id, campaign, attempt, solution_id FROM (
                SELECT problem_id, campaign, attempt, solution_id FROM consensus UNION ALL
                SELECT problem_id, campaign, attempt, prompt_solution_id FROM generator_attempts
                WHERE prompt_solution_id IS NOT NULL)
            WHERE campaign = '{campaign}' AND (problem_id, solution_id) NOT IN (
                SELECT (problem_id, solution_id) FROM {verified} WHERE label = 'correct')
            """,
        )
