"""What generation gave: the paper's Tables 11 and 12 on a build's own rows, and why the rest gave nothing.

Everything is counted from the tables of the build with DuckDB; the paper's figures stand beside ours for reference.
"""

from collections.abc import Sequence
from typing import Any

import duckdb

from dmc_optim.audit.connection import connect
from dmc_optim.errors import ArtifactError
from dmc_optim.report.text import text_table
from schemas.enums import Campaign, Stage

Row = dict[str, Any]

PAPER: dict[str, Row] = {
    Campaign.CORRECTNESS: {
        "problems": 3929,
        "share_with_accepted": 0.9030,
        "acceptance": 0.7300,
        "tests": 430_215,
        "tests_per_problem": 109.50,
    },
    Campaign.OPTIMIZATION: {
        "problems": 3061,
        "share_with_accepted": 0.9324,
        "acceptance": 0.7682,
        "tests": 352_740,
        "tests_per_problem": 115.24,
    },
}
"""Paper Table 12."""

POOLS = {
    Campaign.CORRECTNESS: f"survivors_{Stage.VALIDATE}_problems",
    Campaign.OPTIMIZATION: f"survivors_{Stage.FILTER_CORRECTNESS}_problems",
}

_POOL = " UNION ALL ".join(
    f"SELECT '{campaign}' AS campaign, problem_id FROM {view}" for campaign, view in POOLS.items()
)

_CAMPAIGNS = f"""
WITH pool AS ({_POOL}),
asked AS (SELECT campaign, count(*) AS attempts, count(*) FILTER (accepted) AS accepted,
                 count(DISTINCT problem_id) FILTER (accepted) AS with_accepted, sum(n_tests) AS tests
          FROM generator_attempts GROUP BY campaign),
kept AS (SELECT category AS campaign, count(*) AS distinct_tests FROM tests
         WHERE generator_attempt IS NOT NULL GROUP BY category)
SELECT campaign, count(*) AS problems, any_value(with_accepted) AS with_accepted,
       any_value(with_accepted) / count(*) AS share_with_accepted, any_value(attempts) AS attempts,
       any_value(accepted) AS accepted, any_value(accepted) / any_value(attempts) AS acceptance,
       any_value(tests)::BIGINT AS tests, any_value(tests) / count(*) AS tests_per_problem,
       coalesce(any_value(distinct_tests), 0) AS distinct_tests,
       1 - coalesce(any_value(distinct_tests), 0) / nullif(any_value(tests), 0) AS duplicate_share,
       coalesce(any_value(distinct_tests), 0) / nullif(any_value(accepted), 0) AS distinct_per_accepted
FROM pool JOIN asked USING (campaign) LEFT JOIN kept USING (campaign)
GROUP BY campaign ORDER BY campaign
"""

_REASONS = """
SELECT campaign, coalesce(reason, 'accepted') AS outcome, count(*) AS attempts,
       count(*) / sum(count(*)) OVER (PARTITION BY campaign) AS share
FROM generator_attempts GROUP BY campaign, outcome ORDER BY campaign, attempts DESC, outcome
"""

_METHODS = """
WITH made AS (
    SELECT t.category AS campaign, t.generator_method AS method, t.problem_id, t.test_id, t.n_chars,
           EXISTS (SELECT 1 FROM exclusions e WHERE e.entity = 'test' AND e.problem_id = t.problem_id
                   AND e.entity_id = t.test_id) AS removed
    FROM tests t WHERE t.generator_method IS NOT NULL),
timed AS (
    SELECT e.problem_id, e.test_id, avg(e.duration_s) AS mean_s FROM executions e
    JOIN solutions s USING (problem_id, solution_id)
    WHERE s.label = 'correct' AND e.status IN ('success', 'timeout') GROUP BY ALL),
ended AS (
    SELECT replace(stage, 'synthesize_', '') AS campaign,
           nullif(regexp_extract(detail, 'call [0-9]+-([a-z]+)', 1), '') AS method, count(*) AS rejected_at
    FROM exclusions WHERE entity = 'attempt' GROUP BY ALL)
SELECT campaign, method, count(*) AS tests, count(*) FILTER (removed) / count(*) AS share_removed,
       any_value(rejected_at) AS attempts_rejected_at, median(n_chars) AS median_chars,
       median(mean_s) AS median_s, quantile_cont(mean_s, 0.9) AS p90_s, max(mean_s) AS max_s
FROM made LEFT JOIN timed USING (problem_id, test_id) FULL JOIN ended USING (campaign, method)
WHERE method IS NOT NULL GROUP BY campaign, method ORDER BY campaign, method
"""

_PROBLEMS = """
WITH kept AS (SELECT problem_id, category AS campaign, count(*) AS distinct_tests FROM tests
              WHERE generator_attempt IS NOT NULL GROUP BY ALL)
SELECT problem_id, campaign, count(*) AS attempts, count(*) FILTER (accepted) AS accepted,
       coalesce(any_value(distinct_tests), 0) AS distinct_tests, mode(reason) AS commonest_rejection
FROM generator_attempts LEFT JOIN kept USING (problem_id, campaign)
GROUP BY problem_id, campaign ORDER BY count(*) FILTER (accepted) / count(*), problem_id, campaign
"""

_SPREAD = """
WITH both_there AS (SELECT problem_id FROM filterability WHERE category = 'optimization' AND n_tests > 0)
SELECT category, count(*) AS problems, median(robust_cv) AS median_robust_cv, median(iqr_s) AS median_iqr_s,
       median(median_s) AS median_of_medians_s, count(*) FILTER (robust_cv >= 0.3) AS cv_at_least_0_3,
       count(*) FILTER (duration_filterable) AS duration_filterable
FROM filterability SEMI JOIN both_there USING (problem_id)
GROUP BY category ORDER BY CASE category WHEN 'original' THEN 0 WHEN 'correctness' THEN 1 ELSE 2 END
"""

_USAGE = """
SELECT campaign, model, count(*) AS answers, sum(prompt_tokens)::BIGINT AS prompt_tokens,
       sum(completion_tokens)::BIGINT AS completion_tokens, median(latency_s) AS median_latency_s,
       sum(cost_usd) AS cost_usd
FROM generation_usage GROUP BY campaign, model ORDER BY campaign, model
"""

QUERIES = {
    "campaigns": _CAMPAIGNS,
    "outcomes": _REASONS,
    "methods": _METHODS,
    "problems": _PROBLEMS,
    "spread": _SPREAD,
    "usage": _USAGE,
}


def generation_report(out: str) -> dict[str, list[Row]]:
    """Every section as rows: campaigns (Table 12), outcomes, methods, problems, spread, usage.

    Raises ArtifactError when `out` is no build or has no generator attempts yet.
    """
    return report_of(connect(out), out)


def report_of(connection: duckdb.DuckDBPyConnection, out: str) -> dict[str, list[Row]]:
    """The same from an open connection with a build's views."""
    if not connection.execute("SELECT count(*) FROM generator_attempts").fetchone()[0]:  # type: ignore[index]
        raise ArtifactError(f"{out}: no generator attempts yet; run `dmc-optim build --generator SPEC --out {out}`")
    report = {}
    for name, sql in QUERIES.items():
        cursor = connection.execute(sql)
        names = [column for column, *_ in cursor.description or ()]
        report[name] = [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
    for row in report["campaigns"]:
        row["paper"] = PAPER[row["campaign"]]
    return report


def report_text(report: dict[str, list[Row]], problems: int = 20) -> str:
    """The report for a terminal; `problems` rows of the per-problem section, worst acceptance first."""
    sections = [
        ("Campaigns (paper Table 12 beside ours)", _campaign_table(report["campaigns"])),
        ("What became of the attempts (paper Table 11, steps 3-6)", _table(report["outcomes"])),
        ("By method of the class", _table(report["methods"])),
        ("Spread of durations that the tests give (problems with optimization tests)", _table(report["spread"])),
        ("Use of the model", _table(report["usage"])),
        (f"Problems, worst first ({len(report['problems'])} in all)", _table(report["problems"][:problems])),
    ]
    return "\n\n".join(f"{title}\n{body}" for title, body in sections if body)


def _campaign_table(rows: Sequence[Row]) -> str:
    """Figures as lines, campaigns as columns, the paper's beside ours."""
    names = ["figure"] + [name for row in rows for name in (row["campaign"], f"{row['campaign']} (paper)")]
    figures = [name for name in rows[0] if name not in ("campaign", "paper")] if rows else []
    lines = [[figure] + [v for row in rows for v in (row[figure], row["paper"].get(figure))] for figure in figures]
    return text_table(names, lines)


def _table(rows: Sequence[Row]) -> str:
    return text_table(list(rows[0]), [list(row.values()) for row in rows]) if rows else ""
