"""Statistics recomputed another way: plain Python over the rows of the small build."""

import statistics as plain
from collections import Counter
from dataclasses import asdict
from pathlib import Path

import duckdb
import numpy as np
import pytest

from dmc_optim.audit.connection import connect, derive_views
from dmc_optim.config import BuildConfig
from dmc_optim.report.funnel import PAPER_PROBLEMS
from dmc_optim.report.markdown import statistics_markdown
from dmc_optim.report.measures import Measure, Statistics, with_unit
from dmc_optim.report.statistics import compute_statistics
from dmc_optim.report.text import markdown_table, text_table
from dmc_optim.report.timing import GROUPS, test_durations
from schemas import TABLES
from tests.audit.small_build import SmallBuild

ORIGINAL = ("public", "private", "generated")


@pytest.fixture(scope="module")
def found(connection: duckdb.DuckDBPyConnection) -> Statistics:
    return compute_statistics(connection)


def group_of(category: str) -> str:
    return "original" if category in ORIGINAL else category


def mean_durations(rows: SmallBuild, problems: set[str]) -> dict[str, list[float]]:
    """Mean duration of each retained test by group, with timeouts at the limit."""
    categories = {(t["problem_id"], t["test_id"]): t["category"] for t in rows.tables["tests"]}
    runs: dict[tuple[str, str], list[float]] = {}
    for row in rows.tables["reference_durations"]:
        if row["problem_id"] in problems:
            duration = 10.0 if row["status"] == "timeout" else row["duration_s"]
            runs.setdefault((row["problem_id"], row["test_id"]), []).append(duration)
    means: dict[str, list[float]] = {group: [] for group in GROUPS}
    for key, durations in runs.items():
        means[group_of(categories[key])].append(plain.fmean(durations))
    return means


def test_funnel_stands_beside_table_10(found: Statistics, rows: SmallBuild) -> None:
    assert found["funnel.ingest"].ours == 8
    assert [found[f"funnel.{stage}"].paper for stage in PAPER_PROBLEMS] == list(PAPER_PROBLEMS.values())
    dropped = {m.key: m.ours for _, m in found.measures() if m.label.startswith("  dropped")}
    reasons = Counter(
        f"{row['stage']}_{row['reason']}" for row in rows.tables["exclusions"] if row["entity"] in ("problem", "row")
    )
    assert dropped == reasons


def test_acceptance(found: Statistics, rows: SmallBuild) -> None:
    for campaign in ("correctness", "optimization"):
        attempts = rows.rows("generator_attempts", campaign=campaign)
        accepted = [row for row in attempts if row["accepted"]]
        assert found[f"acceptance.{campaign}_accepted"].ours == len(accepted) / len(attempts)
        assert found[f"acceptance.{campaign}_tests"].ours == sum(row["n_tests"] for row in accepted)
        assert found[f"acceptance.{campaign}_with_tests"].ours == len({row["problem_id"] for row in accepted})
    assert found["acceptance.optimization_with_tests_share"].ours == 3 / 4
    assert found["acceptance.correctness_accepted"].paper == 0.73


def test_false_positives(found: Statistics, rows: SmallBuild) -> None:
    metrics = rows.rows("problem_metrics", campaign="correctness")
    for suite in ("before", "raw", "timeout", "final"):
        rates = [row[f"fp_{suite}"] for row in metrics]
        assert found[f"false_positives.mean_{suite}"].ours == pytest.approx(plain.fmean(rates))
        assert found[f"false_positives.median_{suite}"].ours == plain.median(rates)
    assert found["false_positives.over_5_before"].ours == sum(row["fp_before"] > 0.05 for row in metrics)
    assert found["false_positives.over_5_raw"].ours == 1
    assert (found["false_positives.lowered"].ours, found["false_positives.raised"].ours) == (3, 0)
    assert found["false_positives.cleared"].ours == 3
    assert found["correct_pass_rate.largest_drop"].ours == pytest.approx(4 / 6)
    assert found["correct_pass_rate.drop_50"].ours == 1
    assert found["correct_pass_rate.mean_final"].ours == pytest.approx((5 / 6 + 4) / 5)


def test_status_mixes_are_shares_that_add_up(found: Statistics) -> None:
    for label in ("correct", "incorrect"):
        for suite in ("raw", "timeout", "final"):
            prefix = f"status_mix.{label}_{suite}_"
            own = [m.ours for section, m in found.measures() if f"{section.key}.{m.key}".startswith(prefix)]
            assert sum(own) == pytest.approx(1.0)
    # One of six correct solutions of train/0 fails one retained test; the other four problems are clean.
    assert found["status_mix.correct_final_failure"].ours == pytest.approx((1 / 6) / 5)
    assert found["status_mix.correct_raw_failure"].ours == pytest.approx((4 / 6) / 5)


def test_solution_counts_follow_the_ledger(found: Statistics, rows: SmallBuild) -> None:
    totals = {
        (row["stage"], row["label"]): row["n_out"]
        for row in rows.tables["attrition"]
        if row["entity"] == "solution" and row["reason"] == "total"
    }
    assert found["solutions.validate_correct"].ours == totals["validate", "correct"]
    assert found["solutions.validate_correct"].paper == 938_227
    assert found["solutions.incorrect_kept"].ours == pytest.approx(
        totals["filter_correctness", "incorrect"] / totals["validate", "incorrect"]
    )


def test_original_inputs_with_two_outputs_are_counted(small: Path, found: Statistics, rows: SmallBuild) -> None:
    original = [row for row in rows.tables["tests"] if row["generator_attempt"] is None]
    assert found["original_tests.given"].ours == len(original)
    assert found["original_tests.contradicting"].ours == 0
    again = connect(str(small))
    again.execute("CREATE TABLE own AS SELECT * FROM tests")
    again.execute(
        "INSERT INTO own BY NAME SELECT * REPLACE ('z' AS test_id, 'other' AS output) FROM own "
        "WHERE problem_id = 'train/0' AND generator_attempt IS NULL LIMIT 1"
    )
    again.execute("CREATE OR REPLACE VIEW tests AS SELECT * FROM own")
    changed = compute_statistics(again)
    assert changed["original_tests.contradicting"].ours == 1
    assert changed["original_tests.contradicting_problems"].ours == 1


def test_filterability_shares(found: Statistics, rows: SmallBuild) -> None:
    for group in GROUPS:
        own = rows.rows("filterability", category=group)
        duration = [row["duration_filterable"] for row in own]
        length = [row["length_filterable"] for row in own]
        pairs = list(zip(duration, length, strict=True))
        assert found[f"filterability.{group}_duration"].ours == sum(duration) / len(own)
        assert found[f"filterability.{group}_both"].ours == sum(d and p for d, p in pairs) / len(own)
        assert found[f"filterability.{group}_neither"].ours == sum(not d and not p for d, p in pairs) / len(own)
    assert found["filterability.optimization_duration"].paper == 0.482


def test_pooled_durations_and_tails(found: Statistics, rows: SmallBuild) -> None:
    train = {row["problem_id"] for row in rows.rows("splits", split="train")}
    every = {row["problem_id"] for row in rows.tables["splits"]}
    for scope, problems in (("train", train), ("cleaned", every)):
        means = mean_durations(rows, problems)
        for group in GROUPS:
            d = means[group]
            assert found[f"durations_{scope}.{group}_tests"].ours == len(d)
            assert found[f"durations_{scope}.{group}_mean"].ours == pytest.approx(plain.fmean(d))
            p95 = plain.quantiles(d, n=100, method="inclusive")[94]
            assert found[f"durations_{scope}.{group}_p95"].ours == pytest.approx(p95)
            assert found[f"durations_{scope}.{group}_over_1"].ours == sum(x > 1 for x in d) / len(d)
    assert found["durations_train.optimization_p99"].paper == 3.710
    assert found["durations_cleaned.optimization_p99"].paper is None
    slow = [sum(x > 1 for x in mean_durations(rows, {p})["optimization"]) / 15 for p in sorted(every)]
    assert found["tails_cleaned.optimization_tenth_1"].ours == sum(share >= 0.1 for share in slow) / len(slow)
    assert found["tails_train.optimization_tenth_0.5"].paper == 0.394


def test_timeouts_count_as_the_limit(connection: duckdb.DuckDBPyConnection, rows: SmallBuild) -> None:
    short, long = (test_durations(connection, "train", limit) for limit in (10.0, 100.0))
    raised = np.flatnonzero(~np.isclose(long.d, short.d))  # sums in another order differ in the last digit
    assert len(raised) == 1  # one test of train/0 has one timeout among five references
    assert long.d[raised[0]] - short.d[raised[0]] == pytest.approx(90 / 5)


def test_charts_are_monotone_tails(found: Statistics) -> None:
    (section,) = (section for section in found.sections if section.key == "durations_train")
    for curve in section.charts[0].curves:
        assert list(curve.y) == sorted(curve.y, reverse=True)
        assert all(0 <= y <= 1 for y in curve.y)


def test_a_build_that_has_only_begun_has_a_funnel_and_no_invented_figures() -> None:
    connection = duckdb.connect()
    build = SmallBuild()
    build.tables = {name: build.tables[name] if name == "problems" else [] for name in TABLES}
    total = {"stage": "ingest", "entity": "problem", "label": "", "reason": "total", "n_in": 0, "n_created": 9}
    build.tables["attrition"] = [total | {"n_out": 8, "n_dropped": 1}]
    import pyarrow as pa

    for name, table in TABLES.items():
        connection.register(name, pa.Table.from_pylist(build.tables[name], schema=table.schema))
    derive_views(connection, {"config": asdict(BuildConfig())})
    found = compute_statistics(connection)
    assert found["funnel.ingest"].ours == 8
    unmeasured = ("false_positives.mean_raw", "executions.saved", "acceptance.correctness_accepted", "pools.train")
    known = {f"{section.key}.{measure.key}": measure.ours for section, measure in found.measures()}
    assert {name: known.get(name) for name in unmeasured} == dict.fromkeys(unmeasured)


def test_markdown_holds_ours_beside_the_paper_s(found: Statistics) -> None:
    text = statistics_markdown(found, ["pools", "filterability", "unknown"], level=4)
    assert text.startswith("#### Pools and splits (Table 10, B.8)")
    assert "| RL pool | 2 | 1,302 |" in text
    assert "Generator attempts" not in text


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0.0827, "share", "8.27%"),
        (0.1921, "points", "19.21 pp"),
        (0.0881, "s", "0.0881 s"),
        (1234.5678, "s", "1,234.6 s"),
        (430215, "count", "430,215"),
        (36.0, "chars", "36 chars"),
        (1.5, "usd", "$1.50"),
        (None, "share", "–"),
        (float("nan"), "s", "–"),
    ],
)
def test_units(value: float | None, unit: str, text: str) -> None:
    assert with_unit(value, unit) == text
    assert Measure("k", "l", value, None, unit).ours_text == text


def test_tables_align_numbers_cut_long_cells_and_escape() -> None:
    lines = text_table(["name", "n"], [["a", 1], ["b" * 200, 12345]]).splitlines()
    assert lines[2].endswith("     1")
    assert lines[3].endswith("…  12,345")
    assert markdown_table(["a"], [["x|y"], [None]]).splitlines()[2:] == ["| x\\|y |", "| – |"]
    assert text_table(["a"], []) == "a\n─"


def test_keys_are_unique_and_unknown_ones_raise(found: Statistics, small: Path) -> None:
    keys = [f"{section.key}.{measure.key}" for section, measure in found.measures()]
    assert len(keys) == len(set(keys))
    with pytest.raises(KeyError):
        found["funnel.nothing"]
