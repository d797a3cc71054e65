"""Checks that compare what the stages decided with what the stored rows say (validate, filters, completeness)."""

from collections.abc import Iterator

from dmc_optim.audit.recompute import SUITES
from schemas.enums import ORIGINAL_CATEGORIES, Campaign, Stage
from schemas.table import Check

_ORIGINAL = ", ".join(f"'{category}'" for category in ORIGINAL_CATEGORIES)
_EXECUTED = (
    "SELECT e.problem_id, e.solution_id, e.test_id, e.campaign, e.status, e.duration_s, t.category, "
    f"CASE WHEN t.category IN ({_ORIGINAL}) THEN 'original' ELSE t.category END AS test_group "
    "FROM executions e JOIN tests t USING (problem_id, test_id)"
)


def stage_checks() -> Iterator[Check]:
    """Executions, controls, validate and complete."""
    yield Check(
        "executions: campaign of its test",
        "a test is run in the campaign that it belongs to",
        f"SELECT problem_id, solution_id, test_id, campaign, category FROM ({_EXECUTED}) WHERE campaign <> test_group",
    )
    yield Check(
        "executions: verified solutions were run on everything",
        "a correct solution that survives a round has a row for every test of that round",
        " UNION ALL ".join(_not_run(stage) for stage in _VERIFYING),
    )
    yield from _control_checks()
    yield from _validate_checks()
    yield from _complete_checks()


def _control_checks() -> Iterator[Check]:
    yield Check(
        "controls: both labels",
        "a problem is dropped exactly when it lacks solutions of a label",
        """
        SELECT problem_id, correct, incorrect, reason FROM
            (SELECT p.problem_id, count(*) FILTER (s.label = 'correct') AS correct,
                    count(*) FILTER (s.label = 'incorrect') AS incorrect
             FROM survivors_dedup_problems p LEFT JOIN solutions s USING (problem_id) GROUP BY ALL)
        LEFT JOIN (SELECT problem_id, reason FROM exclusions WHERE stage = 'controls' AND entity = 'problem')
            USING (problem_id)
        WHERE EXISTS (SELECT 1 FROM attrition WHERE stage = 'controls') AND reason IS DISTINCT FROM
            CASE WHEN correct > 0 AND incorrect > 0 THEN NULL WHEN correct > 0 THEN 'correct_only'
                 WHEN incorrect > 0 THEN 'incorrect_only' ELSE 'neither' END
        """,
    )


def _validate_checks() -> Iterator[Check]:
    yield Check(
        "validate: verified means no failure",
        "a correct solution is excluded exactly when an original test gave a definitive outcome other than success",
        f"""
        WITH decided AS (
            SELECT s.problem_id, s.solution_id, count(e.test_id) FILTER (e.status NOT IN ('success', 'infrastructure'))
                AS failures
            FROM survivors_controls_solutions s
            LEFT JOIN ({_EXECUTED}) e ON e.test_group = 'original'
                AND (e.problem_id, e.solution_id) = (s.problem_id, s.solution_id)
            WHERE s.label = 'correct' GROUP BY ALL)
        SELECT problem_id, solution_id, failures, e.reason FROM decided
        LEFT JOIN (SELECT problem_id, entity_id AS solution_id, reason FROM exclusions
                   WHERE stage = 'validate' AND entity = 'solution') e USING (problem_id, solution_id)
        WHERE (failures > 0) <> (e.reason IS NOT NULL) AND EXISTS (SELECT 1 FROM attrition WHERE stage = 'validate')
          AND problem_id IN (SELECT problem_id FROM survivors_validate_problems)
        """,
    )
    yield Check(
        "validate: both labels left",
        "a problem is dropped exactly when it has no original test, no verified-correct or no incorrect solution",
        """
        WITH failed AS (SELECT DISTINCT problem_id, solution_id FROM executions
                        WHERE campaign = 'original' AND status NOT IN ('success', 'infrastructure'))
        SELECT problem_id, tests, correct, incorrect, reason FROM
            (SELECT p.problem_id, (SELECT count(*) FROM survivors_controls_tests t WHERE t.problem_id = p.problem_id)
                        AS tests,
                    count(*) FILTER (s.label = 'correct' AND f.solution_id IS NULL) AS correct,
                    count(*) FILTER (s.label = 'incorrect') AS incorrect
             FROM survivors_controls_problems p JOIN survivors_controls_solutions s USING (problem_id)
             LEFT JOIN failed f USING (problem_id, solution_id) GROUP BY ALL)
        LEFT JOIN (SELECT problem_id, reason FROM exclusions WHERE stage = 'validate' AND entity = 'problem')
            USING (problem_id)
        WHERE EXISTS (SELECT 1 FROM attrition WHERE stage = 'validate') AND reason IS DISTINCT FROM
            CASE WHEN tests = 0 THEN 'no_tests' WHEN correct = 0 THEN 'no_correct_left'
                 WHEN incorrect = 0 THEN 'no_incorrect_left' END
        """,
    )


def _complete_checks() -> Iterator[Check]:
    yield Check(
        "complete: both generated suites",
        "a problem is dropped exactly when no correctness or no optimization test is left",
        """
        SELECT problem_id, correctness, optimization, reason FROM
            (SELECT p.problem_id, count(*) FILTER (t.category = 'correctness') AS correctness,
                    count(*) FILTER (t.category = 'optimization') AS optimization
             FROM survivors_filter_optimization_problems p
             LEFT JOIN survivors_filter_optimization_tests t USING (problem_id) GROUP BY ALL)
        LEFT JOIN (SELECT problem_id, reason FROM exclusions WHERE stage = 'complete' AND entity = 'problem')
            USING (problem_id)
        WHERE EXISTS (SELECT 1 FROM attrition WHERE stage = 'complete') AND reason IS DISTINCT FROM
            CASE WHEN correctness > 0 AND optimization > 0 THEN NULL WHEN correctness = 0 THEN 'no_correctness_tests'
                 ELSE 'no_optimization_tests' END
        """,
    )


_VERIFYING = {
    Stage.VALIDATE: _ORIGINAL,
    Stage.FILTER_CORRECTNESS: "'correctness'",
    Stage.FILTER_OPTIMIZATION: "'optimization'",
}


def _not_run(stage: Stage) -> str:
    return (
        f"SELECT '{stage}' AS stage, problem_id, s.solution_id, count(*) AS tests, count(e.test_id) AS run "
        f"FROM survivors_{stage}_solutions s JOIN survivors_{stage}_tests t USING (problem_id) "
        "LEFT JOIN executions e USING (problem_id, solution_id, test_id) "
        f"WHERE s.label = 'correct' AND t.category IN ({_VERIFYING[stage]}) "
        f"AND EXISTS (SELECT 1 FROM attrition WHERE stage = '{stage}') "
        "GROUP BY ALL HAVING count(*) <> count(e.test_id)"
    )


def round_checks(campaign: Campaign) -> Iterator[Check]:
    """One filtering round against `dmc_optim.audit.recompute`; nothing to say before the round is done."""
    stage, again = f"filter_{campaign}", f"again_{campaign}"
    done = f"EXISTS (SELECT 1 FROM attrition WHERE stage = '{stage}')"
    survives = f"problem_id IN (SELECT problem_id FROM survivors_{stage}_problems)"
    yield Check(
        f"{stage}: tests removed",
        "exactly the tests over a threshold, worst first, within the caps",
        f"""
        SELECT problem_id, test_id, a.reason AS expected, e.reason AS stored FROM {again}_removed a
        FULL JOIN (SELECT problem_id, entity_id AS test_id, reason FROM exclusions
                   WHERE stage = '{stage}' AND entity = 'test') e USING (problem_id, test_id)
        WHERE a.reason IS DISTINCT FROM e.reason AND {survives} AND {done}
        """,
    )
    dropped = "WHEN label = 'correct' AND NOT pass_final THEN 'fails_suite' "
    if campaign is Campaign.CORRECTNESS:
        dropped += "WHEN label = 'incorrect' AND pass_final THEN 'passes_suite' "
    yield Check(
        f"{stage}: solutions reclassified",
        "a correct solution stays exactly when it passes the filtered suite, an incorrect one when it fails it"
        if campaign is Campaign.CORRECTNESS
        else "a correct solution stays exactly when it passes the filtered suite; incorrect ones stay",
        f"""
        SELECT problem_id, solution_id, label, a.expected, e.reason AS stored FROM
            (SELECT *, CASE {dropped} END AS expected FROM {again}_passes) a
        LEFT JOIN (SELECT problem_id, entity_id AS solution_id, reason FROM exclusions
                   WHERE stage = '{stage}' AND entity = 'solution') e USING (problem_id, solution_id)
        WHERE a.expected IS DISTINCT FROM e.reason AND {survives} AND {done}
        """,
    )
    gates = ("too_few_correct", "too_few_incorrect", "correct_drop_rate", "false_positive_rate")
    failed = " OR ".join(gates[:3] if campaign is Campaign.OPTIMIZATION else gates)
    named = " ".join(f"WHEN '{gate}' THEN {gate}" for gate in gates)
    yield Check(
        f"{stage}: gates",
        "a problem is dropped exactly when a gate fails, and for a gate that it fails",
        f"""
        SELECT problem_id, e.reason AS stored, {", ".join(gates)} FROM {again}_problems
        LEFT JOIN (SELECT problem_id, reason FROM exclusions WHERE stage = '{stage}' AND entity = 'problem') e
            USING (problem_id)
        WHERE {done} AND (({failed}) <> (e.reason IS NOT NULL) OR NOT CASE e.reason {named} ELSE true END)
        """,
    )
    yield from _metrics_check(stage, again, campaign, done)


def _metrics_check(stage: str, again: str, campaign: Campaign, done: str) -> Iterator[Check]:
    counts = ["n_correct_in", "n_correct_out", "n_incorrect_in", "n_incorrect_out"]
    rates = [f"correct_pass_{suite}" for suite in SUITES]
    if campaign is Campaign.CORRECTNESS:
        rates += [f"fp_{suite}" for suite in SUITES]
    differs = [f"m.{name} IS DISTINCT FROM a.{name}" for name in counts]
    differs += [f"abs(m.{name} - a.{name}) > 1e-9 OR (m.{name} IS NULL) <> (a.{name} IS NULL)" for name in rates]
    removed = f"(SELECT count(*) FROM {again}_removed r WHERE r.problem_id = a.problem_id AND r.reason = "
    differs += [f"m.tests_removed_timeout <> {removed}'timeout_fraction')"]
    differs += [f"m.tests_removed_failure <> {removed}'failure_fraction')"]
    columns = ", ".join(f"m.{name}, a.{name} AS {name}_again" for name in [*counts, *rates])
    yield Check(
        f"problem_metrics: {campaign} figures",
        "counts and rates follow from the executions; every problem that entered the round has a row",
        f"""
        SELECT problem_id, {columns} FROM {again}_problems a
        FULL JOIN (SELECT * FROM problem_metrics WHERE campaign = '{campaign}') m USING (problem_id)
        WHERE {done} AND ({" OR ".join(differs)})
        """,
    )
