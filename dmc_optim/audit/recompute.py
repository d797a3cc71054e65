"""The filtering rounds recomputed in SQL from `executions`, `tests` and `solutions` (paper Table 13).

A second, independent reading of the rules: nothing here calls the code of the stages. For each campaign C the
connection gets tables
    again_C_removed    problem_id, test_id, reason            tests that both capped filters remove
    again_C_passes     problem_id, solution_id, label, and for each suite (before, raw, timeout, final) a boolean
    again_C_problems   problem_id, counts and rates, fails_gate
Shares are compared as integers: n / total > p / q is n * q > p * total.
"""

import duckdb

from dmc_optim.config import FilterConfig, exact
from schemas.enums import Campaign, Stage, Status

FAILURES = (Status.WRONG_ANSWER, Status.RUNTIME_EXCEPTION, Status.OUT_OF_MEMORY, Status.OUTPUT_LIMIT)
SUITES = ("before", "raw", "timeout", "final")


def recompute_round(connection: duckdb.DuckDBPyConnection, campaign: Campaign, rules: FilterConfig) -> None:
    """Create the tables of one campaign."""
    name, entering = f"again_{campaign}", f"survivors_{_synthesis(campaign)}"
    connection.execute(
        f"CREATE TEMP TABLE {name}_solutions AS SELECT problem_id, solution_id, label FROM {entering}_solutions"
    )
    connection.execute(f"CREATE TEMP TABLE {name}_tests AS SELECT problem_id, test_id, category FROM {entering}_tests")
    connection.execute(
        f"""
        CREATE TEMP TABLE {name}_runs AS
        SELECT e.problem_id, e.solution_id, e.test_id, s.label, t.category, e.status
        FROM executions e JOIN {name}_solutions s USING (problem_id, solution_id)
        JOIN {name}_tests t USING (problem_id, test_id)
        """
    )
    connection.execute(f"CREATE TEMP TABLE {name}_removed (problem_id VARCHAR, test_id VARCHAR, reason VARCHAR)")
    _remove(
        connection, name, campaign, "timeout_fraction", (Status.TIMEOUT,), rules.timeout_fraction, rules.timeout_cap
    )
    _remove(connection, name, campaign, "failure_fraction", FAILURES, rules.failure_fraction, rules.failure_cap)
    _passes(connection, name, campaign, rules)
    _problems(connection, name, campaign, rules)


def _synthesis(campaign: Campaign) -> Stage:
    return Stage(f"synthesize_{campaign}")


def _remove(
    connection: duckdb.DuckDBPyConnection,
    name: str,
    campaign: Campaign,
    reason: str,
    statuses: tuple[Status, ...],
    threshold: float,
    cap: float,
) -> None:
    """Remove the tests over the threshold, worst first, ties by test_id, at most floor(cap × tests left)."""
    over, most = exact(threshold), exact(cap)
    listed = ", ".join(f"'{status}'" for status in statuses)
    connection.execute(
        f"""
        INSERT INTO {name}_removed
        WITH remaining AS (SELECT * FROM {name}_tests t WHERE category = '{campaign}'
                           AND (problem_id, test_id) NOT IN (SELECT (problem_id, test_id) FROM {name}_removed)),
        allowed AS (SELECT problem_id, count(*) * {most.numerator} // {most.denominator} AS allowed
                    FROM remaining GROUP BY problem_id),
        shares AS (SELECT problem_id, test_id, count(*) FILTER (r.status IN ({listed})) AS n,
                          count(*) FILTER (r.status <> '{Status.INFRASTRUCTURE}') AS total
                   FROM remaining JOIN {name}_runs r USING (problem_id, test_id)
                   WHERE r.label = 'correct' GROUP BY problem_id, test_id),
        ranked AS (SELECT *, row_number() OVER (PARTITION BY problem_id ORDER BY n / total DESC, test_id) AS place
                   FROM shares WHERE n * {over.denominator} > {over.numerator} * total)
        SELECT problem_id, test_id, '{reason}' FROM ranked JOIN allowed USING (problem_id) WHERE place <= allowed
        """
    )


def _passes(connection: duckdb.DuckDBPyConnection, name: str, campaign: Campaign, rules: FilterConfig) -> None:
    """Who passes each suite. Correct: no failing test; incorrect: every test has a row and none fails."""
    allowance = "AND NOT (status = 'timeout' AND category = 'optimization')" if rules.timeout_is_success else ""
    failing = f"status NOT IN ('{Status.SUCCESS}', '{Status.INFRASTRUCTURE}') {allowance}"
    in_suite = {
        "before": f"category <> '{campaign}'",
        "raw": "true",
        "timeout": "coalesce(reason, '') <> 'timeout_fraction'",
        "final": "reason IS NULL",
    }
    members = ", ".join(f"({condition}) AS in_{suite}" for suite, condition in in_suite.items())
    connection.execute(
        f"CREATE TEMP TABLE {name}_suites AS SELECT problem_id, test_id, {members} "
        f"FROM {name}_tests LEFT JOIN {name}_removed USING (problem_id, test_id)"
    )
    sizes = ", ".join(f"count(*) FILTER (in_{suite}) AS n_{suite}" for suite in SUITES)
    runs = ", ".join(
        f"count(*) FILTER (in_{suite}) AS run_{suite}, count(*) FILTER (in_{suite} AND {failing}) AS failed_{suite}"
        for suite in SUITES
    )
    verdicts = ", ".join(
        f"coalesce(failed_{suite}, 0) = 0 AND (label = 'correct' OR coalesce(run_{suite}, 0) = n_{suite}) "
        f"AS pass_{suite}"
        for suite in SUITES
    )
    connection.execute(
        f"""
        CREATE TEMP TABLE {name}_passes AS
        WITH sizes AS (SELECT problem_id, {sizes} FROM {name}_suites GROUP BY problem_id),
        runs AS (SELECT problem_id, solution_id, {runs} FROM {name}_runs JOIN {name}_suites USING (problem_id, test_id)
                 GROUP BY problem_id, solution_id)
        SELECT problem_id, solution_id, label, {verdicts}, failed_final
        FROM {name}_solutions JOIN sizes USING (problem_id) LEFT JOIN runs USING (problem_id, solution_id)
        """
    )


def _problems(connection: duckdb.DuckDBPyConnection, name: str, campaign: Campaign, rules: FilterConfig) -> None:
    drop, false_positives = exact(rules.max_drop_rate), exact(rules.max_false_positive_rate)
    rates = ", ".join(
        f"avg(pass_{suite}::INT) FILTER (label = 'incorrect') AS fp_{suite}, "
        f"avg(pass_{suite}::INT) FILTER (label = 'correct') AS correct_pass_{suite}"
        for suite in SUITES
    )
    stays = "label = 'incorrect' AND NOT pass_final" if campaign is Campaign.CORRECTNESS else "label = 'incorrect'"
    connection.execute(
        f"""
        CREATE TEMP TABLE {name}_problems AS SELECT *,
            n_correct_out < {rules.min_correct} AS too_few_correct,
            n_incorrect_out < {rules.min_incorrect} AS too_few_incorrect,
            (n_correct_in - n_correct_out) * {drop.denominator} > {drop.numerator} * n_correct_in AS correct_drop_rate,
            n_false_positive * {false_positives.denominator} > {false_positives.numerator} * n_incorrect_in
                AS false_positive_rate
        FROM (SELECT problem_id, count(*) FILTER (label = 'correct') AS n_correct_in,
                     count(*) FILTER (label = 'correct' AND pass_final) AS n_correct_out,
                     count(*) FILTER (label = 'incorrect') AS n_incorrect_in,
                     count(*) FILTER ({stays}) AS n_incorrect_out,
                     count(*) FILTER (label = 'incorrect' AND pass_final) AS n_false_positive, {rates}
              FROM {name}_passes GROUP BY problem_id)
        """
    )
