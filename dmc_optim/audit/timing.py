"""Checks of filterability (paper Eq. 6), the split, and the reference durations."""

from collections.abc import Iterator

from dmc_optim.config import FilterabilityConfig
from schemas.enums import ORIGINAL_CATEGORIES
from schemas.table import Check

_ORIGINAL = ", ".join(f"'{category}'" for category in ORIGINAL_CATEGORIES)
_TOLERANCE = 1e-6  # relative; sums of floats depend on their order


def filterability_checks(config: FilterabilityConfig, time_limit_s: float) -> Iterator[Check]:
    """time_limit_s: what a timeout counts as."""
    figures = ("robust_cv", "iqr_s", "median_s", "censored_share", "pearson_r")
    differs = " OR ".join(
        f"(f.{name} IS NULL) <> (a.{name} IS NULL) OR abs(f.{name} - a.{name}) > {_TOLERANCE} * (1 + abs(a.{name}))"
        for name in figures[:-1]
    )
    yield Check(
        "filterability: figures",
        "robust CV, IQR, median, correlation and censored share follow from the executions (Eq. 6)",
        f"""
        WITH again AS ({_filterability(time_limit_s)})
        SELECT problem_id, category, f.n_tests, a.n_tests AS n_tests_again,
               {", ".join(f"f.{name}, a.{name} AS {name}_again" for name in figures)}
        FROM filterability f LEFT JOIN again a USING (problem_id, category)
        WHERE f.n_tests <> coalesce(a.n_tests, 0) OR (f.n_tests >= 2 AND ({differs}))
           OR (a.spread AND abs(coalesce(f.pearson_r, 9) - coalesce(a.pearson_r, 9)) > {_TOLERANCE})
        """,
    )
    yield Check(
        "filterability: decision",
        "the reason is the first condition that fails: tests, median, robust CV, IQR; Pearson r decides length",
        f"""
        SELECT * FROM filterability WHERE reason IS DISTINCT FROM CASE
            WHEN n_tests < 2 THEN 'too_few_tests' WHEN median_s IS NULL OR median_s <= 0 THEN 'zero_median'
            WHEN robust_cv < {config.robust_cv!r} THEN 'low_cv'
            WHEN iqr_s < {config.min_iqr_s!r} THEN 'below_resolution' END
        OR length_filterable <> coalesce(pearson_r >= {config.pearson_r!r}, false)
        """,
    )
    yield Check(
        "filterability: complete",
        "every problem of the cleaned corpus has a row for each of the three test groups",
        """
        SELECT problem_id, count(f.category) AS groups FROM survivors_complete_problems
        LEFT JOIN filterability f USING (problem_id)
        WHERE EXISTS (SELECT 1 FROM attrition WHERE stage = 'filterability') GROUP BY ALL HAVING count(f.category) <> 3
        """,
    )
    yield Check(
        "filterability: pool",
        "the RL pool is the problems whose optimization tests are duration filterable; the others carry that reason",
        """
        SELECT problem_id, f.reason AS expected, e.reason AS stored FROM filterability f
        LEFT JOIN (SELECT problem_id, reason FROM exclusions WHERE stage = 'filterability' AND entity = 'problem') e
            USING (problem_id)
        WHERE f.category = 'optimization' AND f.reason IS DISTINCT FROM e.reason
        """,
    )


def split_checks() -> Iterator[Check]:
    """Pools and sides."""
    done = "EXISTS (SELECT 1 FROM attrition WHERE stage = 'split')"
    yield Check(
        "splits: whole corpus",
        "exactly the problems of the cleaned corpus have a row, in the pool that filterability decided",
        f"""
        SELECT problem_id, s.pool, CASE WHEN f.duration_filterable THEN 'rl' ELSE 'complement' END AS expected
        FROM survivors_complete_problems p FULL JOIN splits s USING (problem_id)
        LEFT JOIN (SELECT * FROM filterability WHERE category = 'optimization') f USING (problem_id)
        WHERE {done} AND (s.pool IS DISTINCT FROM CASE WHEN f.duration_filterable THEN 'rl' ELSE 'complement' END
                          OR p.name IS NULL)
        """,
    )
    yield Check(
        "splits: sides of the RL pool only",
        "problems outside the RL pool are on neither side",
        "SELECT problem_id, pool, split FROM splits WHERE pool = 'complement' AND split <> 'none'",
    )
    yield Check(
        "splits: clusters stay whole",
        "near-duplicate problems are never divided between train and test",
        """
        SELECT cluster_id, list(problem_id || ':' || split ORDER BY problem_id) AS members
        FROM splits JOIN clusters USING (problem_id) WHERE split <> 'none'
        GROUP BY cluster_id HAVING count(DISTINCT split) > 1
        """,
    )
    yield Check(
        "clusters: every survivor of dedup",
        "exactly the problems that survive dedup have a cluster",
        """
        SELECT problem_id FROM survivors_dedup_problems p FULL JOIN clusters c USING (problem_id)
        WHERE EXISTS (SELECT 1 FROM attrition WHERE stage = 'dedup') AND (p.name IS NULL OR c.cluster_id IS NULL)
        """,
    )


def reference_checks() -> Iterator[Check]:
    """Reference durations against retained solutions, retained tests and executions."""
    yield Check(
        "reference_durations: complete",
        "every retained correct solution has a row for every retained test of its problem, and nothing else has",
        """
        WITH expected AS (
            SELECT problem_id, test_id, solution_id FROM splits
            JOIN survivors_filter_optimization_solutions s USING (problem_id)
            JOIN survivors_filter_optimization_tests USING (problem_id)
            WHERE s.label = 'correct' AND EXISTS (SELECT 1 FROM reference_durations))
        SELECT problem_id, test_id, solution_id, w.expected, r.stored FROM (SELECT *, true AS expected FROM expected) w
        FULL JOIN (SELECT problem_id, test_id, solution_id, true AS stored FROM reference_durations) r
            USING (problem_id, test_id, solution_id)
        WHERE w.expected IS NULL OR r.stored IS NULL
        """,
    )
    yield Check(
        "reference_durations: as measured",
        "duration and status are those of the execution",
        """
        SELECT problem_id, test_id, solution_id, r.duration_s, e.duration_s AS executed_s,
               r.status, e.status AS executed
        FROM reference_durations r LEFT JOIN executions e USING (problem_id, test_id, solution_id)
        WHERE r.status IS DISTINCT FROM e.status OR r.duration_s IS DISTINCT FROM e.duration_s
        """,
    )


def _filterability(time_limit_s: float) -> str:
    """Eq. 6 per (problem, test group): quartiles of the mean durations, interpolated linearly."""
    return f"""
        SELECT problem_id, category, count(*) AS n_tests, quantile_cont(d, 0.5) AS median_s,
               quantile_cont(d, 0.75) - quantile_cont(d, 0.25) AS iqr_s, iqr_s / nullif(median_s, 0) AS robust_cv,
               min(n_chars) < max(n_chars) AND max(d) - min(d) > 1e-9 * max(d) AS spread,
               CASE WHEN spread THEN corr(n_chars, d) END AS pearson_r,
               sum(timeouts) / sum(runs) AS censored_share
        FROM (SELECT problem_id, test_id, n_chars, count(*) AS runs,
                     CASE WHEN t.category IN ({_ORIGINAL}) THEN 'original' ELSE t.category END AS category,
                     avg(CASE WHEN e.status = 'timeout' THEN {time_limit_s!r} ELSE e.duration_s END) AS d,
                     count(*) FILTER (e.status = 'timeout') AS timeouts
              FROM survivors_filter_optimization_solutions s
              JOIN survivors_complete_tests t USING (problem_id)
              JOIN executions e USING (problem_id, solution_id, test_id)
              WHERE s.label = 'correct' AND e.status IN ('success', 'timeout') GROUP BY ALL)
        GROUP BY problem_id, category
        """
