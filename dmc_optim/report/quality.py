"""False positives and pass rates before and after each filter (paper Tables 14, 15, 17, 18; Figures 15 to 20)."""

from typing import Any

import duckdb
import numpy as np
from numpy.typing import NDArray

from dmc_optim.report.measures import Chart, Curve, Listing, Measure, Section

Connection = duckdb.DuckDBPyConnection
Floats = NDArray[np.float64]
SUITES = {"before": "original tests", "raw": "all generated tests", "timeout": "timeouts removed", "final": "filtered"}
_SHORT = {"before": "original", "raw": "raw", "timeout": "no timeouts", "final": "filtered"}
LISTED = 10


def quality_sections(connection: Connection) -> list[Section]:
    """Sections on the correctness round; empty measures before it has run."""
    columns = ["problem_id", "n_correct_in", "n_incorrect_in", "tests_in"]
    columns += [f"{kind}_{suite}" for kind in ("fp", "correct_pass") for suite in SUITES]
    rows = connection.execute(
        f"SELECT {', '.join(columns)} FROM problem_metrics WHERE campaign = 'correctness' ORDER BY problem_id"
    ).fetchall()
    table = [dict(zip(columns, row, strict=True)) for row in rows]
    augmented = [row for row in table if row["tests_in"]]
    bare = [row for row in table if not row["tests_in"]]
    fp = {suite: _column(augmented, f"fp_{suite}") for suite in SUITES}
    correct = {suite: _column(augmented, f"correct_pass_{suite}") for suite in SUITES}
    return [
        _false_positives(len(table), len(augmented), fp, augmented, bare),
        _pass_rates(correct, augmented),
        _status_mix(connection),
    ]


def _column(rows: list[dict[str, Any]], name: str) -> Floats:
    return np.array([np.nan if row[name] is None else row[name] for row in rows], dtype=np.float64)


def _mean(values: Floats) -> float | None:
    return float(np.nanmean(values)) if np.isfinite(values).any() else None


def _median(values: Floats) -> float | None:
    return float(np.nanmedian(values)) if np.isfinite(values).any() else None


def _false_positives(
    n_problems: int,
    n_augmented: int,
    fp: dict[str, Floats],
    augmented: list[dict[str, Any]],
    bare: list[dict[str, Any]],
) -> Section:
    paper_mean = {"before": 0.0827, "raw": 0.0211}
    paper_median = {"before": 0.0060, "raw": 0.0}
    over = {0.05: (81, 27), 0.10: (60, 17), 0.20: (43, 8)}
    change = fp["raw"] - fp["before"]
    measures = [
        Measure("problems", "problems that entered the round", n_problems, 300),
        Measure("augmented", "of these with generated tests", n_augmented, 257),
    ]
    for suite, words in SUITES.items():
        measures.append(
            Measure(f"mean_{suite}", f"mean FP rate, {words}", _mean(fp[suite]), paper_mean.get(suite), "share")
        )
        measures.append(
            Measure(f"median_{suite}", f"median FP rate, {words}", _median(fp[suite]), paper_median.get(suite), "share")
        )
    for threshold, papers in over.items():
        for suite, paper in zip(("before", "raw"), papers, strict=True):
            label = f"problems over {100 * threshold:.0f}%, {SUITES[suite]}"
            count = int((fp[suite] > threshold).sum())
            measures.append(Measure(f"over_{100 * threshold:.0f}_{suite}", label, count, paper))
    measures += [
        Measure("lowered", "problems whose FP rate fell", int((change < 0).sum()), 120),
        Measure("unchanged", "problems whose FP rate stayed", int((change == 0).sum()), 137),
        Measure("raised", "problems whose FP rate rose", int((change > 0).sum()), 0),
        Measure("cleared", "from some false positives to none", int(((fp["before"] > 0) & (fp["raw"] == 0)).sum()), 49),
    ]
    listings = _fp_listings(augmented, bare)
    note = "The paper's column is its 300-problem sample of the validated pool, raw outcomes before any filter."
    return Section(
        "false_positives",
        "False positives before and after augmentation",
        "Tables 14, 15, 17; Figures 15, 17",
        measures,
        listings,
        [_sorted_chart("False-positive rate by problem, sorted", fp)],
        note,
    )


def _fp_listings(augmented: list[dict[str, Any]], bare: list[dict[str, Any]]) -> list[Listing]:
    high = sorted((row for row in bare if (row["fp_before"] or 0) > 0.05), key=lambda row: -row["fp_before"])
    listings = [
        Listing("Largest reductions (Table 15)", _NAMES, _largest(augmented, "fp")),
        Listing(
            "High false-positive problems without generated tests (Table 17)",
            ["problem", "correct", "incorrect", "FP before"],
            [
                [row["problem_id"], row["n_correct_in"], row["n_incorrect_in"], _percent(row["fp_before"])]
                for row in high
            ][:LISTED],
        ),
    ]
    return [listing for listing in listings if listing.rows]


def _pass_rates(correct: dict[str, Floats], augmented: list[dict[str, Any]]) -> Section:
    change = correct["raw"] - correct["before"]
    drops = -change[change < 0]
    paper_mean = {"before": 0.9999, "raw": 0.8998}
    measures = [
        Measure(
            f"mean_{suite}", f"mean correct pass rate, {words}", _mean(correct[suite]), paper_mean.get(suite), "share"
        )
        for suite, words in SUITES.items()
    ]
    measures += [
        Measure("lower", "problems whose pass rate fell", int((change < 0).sum()), 134),
        Measure("same", "problems whose pass rate stayed", int((change == 0).sum()), 121),
        Measure("higher", "problems whose pass rate rose", int((change > 0).sum()), 2),
        Measure("mean_drop", "mean drop among them", _mean(drops), 0.1921, "points"),
        Measure("median_drop", "median drop among them", _median(drops), 0.0640, "points"),
        Measure("largest_drop", "largest drop", float(drops.max()) if drops.size else None, 0.8977, "points"),
    ]
    for threshold, paper in ((0.10, 53), (0.25, 34), (0.50, 20)):
        count = int((drops > threshold).sum())
        measures.append(
            Measure(
                f"drop_{100 * threshold:.0f}", f"problems that fell by more than {100 * threshold:.0f} pp", count, paper
            )
        )
    listing = Listing("Largest drops of the correct pass rate (Table 18)", _NAMES, _largest(augmented, "correct_pass"))
    return Section(
        "correct_pass_rate",
        "Correct solutions that pass",
        "Table 14, 18; Figures 15, 16",
        measures,
        [listing] if listing.rows else [],
        [_sorted_chart("Correct pass rate by problem, sorted", correct, "raw")],
        "Raw outcomes: the filters exist because a raw generated suite fails correct solutions for bad reasons too.",
    )


_NAMES = [
    "problem",
    "FP before",
    "FP raw",
    "FP filtered",
    "pass before",
    "pass raw",
    "pass filtered",
    "correct",
    "incorrect",
]


def _largest(rows: list[dict[str, Any]], kind: str) -> list[list[Any]]:
    """Problems whose rate fell most from before to raw."""
    known = [row for row in rows if row[f"{kind}_before"] is not None and row[f"{kind}_raw"] is not None]
    known.sort(key=lambda row: (row[f"{kind}_raw"] - row[f"{kind}_before"], row["problem_id"]))
    return [
        [
            row["problem_id"],
            *(_percent(row[f"fp_{suite}"]) for suite in ("before", "raw", "final")),
            *(_percent(row[f"correct_pass_{suite}"]) for suite in ("before", "raw", "final")),
            row["n_correct_in"],
            row["n_incorrect_in"],
        ]
        for row in known[:LISTED]
        if row[f"{kind}_raw"] < row[f"{kind}_before"]
    ]


def _percent(value: float | None) -> str | None:
    return None if value is None else f"{100 * value:.2f}%"


def _sorted_chart(title: str, values: dict[str, Floats], by: str = "before") -> Chart:
    order = np.argsort(-np.nan_to_num(values[by]), kind="stable")
    curves = [
        Curve(words, list(range(1, len(order) + 1)), [float(v) for v in np.nan_to_num(values[suite][order])])
        for suite, words in _SHORT.items()
    ]
    return Chart(title, "problem", "share of solutions", curves)


_PATTERNS = {
    "all_success": "only successes",
    "success_unknown": "successes and unknown",
    "timeout": "timeouts, no failure",
    "timeout_memory": "timeouts or out of memory, no other failure",
    "failure": "some failure, syntax error or exception",
}


def _status_mix(connection: Connection) -> Section:
    """Share of solutions whose runs on the generated correctness tests show each pattern, averaged over problems."""
    found = _mix_shares(connection)
    present = {(suite, label) for suite, label, _ in found}
    measures = [
        Measure(
            f"{label}_{suite}_{pattern}",
            f"{label}, {SUITES[suite]}: {words}",
            found.get((suite, label, pattern), 0.0) if (suite, label) in present else None,
            None,
            "share",
        )
        for label in ("correct", "incorrect")
        for suite in ("raw", "timeout", "final")
        for pattern, words in _PATTERNS.items()
    ]
    note = (
        "Mean over problems of the share of solutions with each pattern on generated correctness tests. Incorrect "
        "solutions that the original tests catch are not run on generated ones, and the others only until their first "
        "outcome other than success, unless the build ran its controls exhaustively."
    )
    columns = [(label, suite) for label in ("correct", "incorrect") for suite in ("raw", "timeout", "final")]
    known = {measure.key: measure.ours_text for measure in measures}
    listing = Listing(
        "Share of solutions",
        ["pattern", *(f"{label}, {_SHORT[suite]}" for label, suite in columns)],
        [
            [words, *(known[f"{label}_{suite}_{pattern}"] for label, suite in columns)]
            for pattern, words in _PATTERNS.items()
        ],
    )
    return Section(
        "status_mix", "Execution-status mixes", "Figures 19, 20", measures, [listing], note=note, listed=False
    )


def _mix_shares(connection: Connection) -> dict[tuple[str, str, str], float]:
    """{(suite, label, pattern): mean share over problems}."""
    rows = connection.execute(
        """
        WITH removed AS (SELECT problem_id, entity_id AS test_id, reason FROM exclusions
                         WHERE stage = 'filter_correctness' AND entity = 'test'),
        runs AS (SELECT e.problem_id, e.solution_id, s.label, e.status, coalesce(r.reason, '') AS reason
                 FROM executions e JOIN survivors_synthesize_correctness_solutions s USING (problem_id, solution_id)
                 LEFT JOIN removed r USING (problem_id, test_id) WHERE e.campaign = 'correctness'),
        suites AS (SELECT 'raw' AS suite, * FROM runs UNION ALL
                   SELECT 'timeout', * FROM runs WHERE reason <> 'timeout_fraction' UNION ALL
                   SELECT 'final', * FROM runs WHERE reason = ''),
        patterns AS (
            SELECT suite, label, problem_id, solution_id,
                   CASE WHEN bool_or(status IN ('wrong_answer', 'runtime_exception', 'syntax_error', 'output_limit'))
                            THEN 'failure'
                        WHEN bool_or(status = 'out_of_memory') THEN 'timeout_memory'
                        WHEN bool_or(status = 'timeout') THEN 'timeout'
                        WHEN bool_or(status = 'infrastructure') THEN 'success_unknown' ELSE 'all_success' END AS pattern
            FROM suites GROUP BY ALL),
        counts AS (SELECT suite, label, problem_id, pattern, count(*) AS n FROM patterns GROUP BY ALL),
        sizes AS (SELECT suite, label, problem_id, sum(n) AS size FROM counts GROUP BY ALL),
        problems AS (SELECT suite, label, count(*) AS problems FROM sizes GROUP BY ALL)
        SELECT suite, label, pattern, sum(n / size) / any_value(problems) FROM counts
        JOIN sizes USING (suite, label, problem_id) JOIN problems USING (suite, label) GROUP BY suite, label, pattern
        """
    ).fetchall()
    return {(suite, label, pattern): share for suite, label, pattern, share in rows}
