"""How often rare infrastructure failures reach a rollout, and what discarding would cost (paper C.5, C.6, Table 27)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from dmc_optim.ces.fallback import Policy, decision_table, exposure
from dmc_optim.errors import ArtifactError, ConfigError
from dmc_optim.studies.charts import Axis, Line, line_chart
from dmc_optim.studies.report import Column, Figure, StudyReport, Table
from schemas.enums import RewardFamily

PAPER_RATES = (0.02, 0.005, 0.001, 0.0001, 0.00001)
PAPER_TESTS = (10, 30, 50, 100, 150)
PAPER_TOTAL = 80

# Table 27 in percent, as printed.
PAPER_TABLE_27 = {
    0.02: (18.3, 45.5, 63.6, 86.7, 95.2),
    0.005: (4.9, 14.0, 22.2, 39.4, 52.9),
    0.001: (1.0, 3.0, 4.9, 9.5, 13.9),
    0.0001: (0.1, 0.3, 0.5, 1.0, 1.5),
    0.00001: (0.01, 0.03, 0.05, 0.10, 0.15),
}


@dataclass(frozen=True)
class FallbackStudyConfig:
    """rates: failures of one test (f). tests: correctness tests of a problem (n). total: all tests of a problem."""

    rates: Sequence[float] = PAPER_RATES
    tests: Sequence[int] = PAPER_TESTS
    total: int = PAPER_TOTAL


@dataclass(frozen=True)
class MeasuredFailures:
    """What a build recorded. executions: all; retried: those that the service lost at least once; unresolved: those
    that ended without a verdict. correctness_tests, total_tests: mean number a retained problem, None without any."""

    executions: int
    retried: int
    unresolved: int
    correctness_tests: float | None
    total_tests: float | None


_FAILURES_SQL = """
    SELECT count(*), count(*) FILTER (retries > 0 OR status = 'infrastructure'),
           count(*) FILTER (status = 'infrastructure') FROM executions
"""
_TESTS_SQL = """
    WITH retained AS (SELECT DISTINCT problem_id, test_id FROM reference_durations),
         problems AS (SELECT count(DISTINCT problem_id) AS n FROM retained)
    SELECT count(*) FILTER (t.category <> 'optimization') / any_value(problems.n),
           count(*) / any_value(problems.n)
    FROM retained JOIN tests t USING (problem_id, test_id), problems
"""


def measure_failures(out: str) -> MeasuredFailures:
    """Failure counts of an artifact's executions. Raises ArtifactError when it is no build or holds none."""
    from dmc_optim.audit.connection import connect

    with connect(out) as connection:
        executions, retried, unresolved = connection.execute(_FAILURES_SQL).fetchall()[0]
        correctness, total = connection.execute(_TESTS_SQL).fetchall()[0]
    if not executions:
        raise ArtifactError(f"{out}: no executions there; name no directory to get the formulas alone")
    return MeasuredFailures(executions, retried, unresolved, correctness, total)


def fallback_report(config: FallbackStudyConfig, measured: MeasuredFailures | None = None) -> StudyReport:
    """Table 27, discard rates, the decision table and, given a build, its own exposure."""
    _check(config)
    exposures = [
        {"rate": f, **{f"n={n}": float(exposure(f, n)) for n in config.tests}, "paper": _paper_row(f, config.tests)}
        for f in config.rates
    ]
    discards = [{"rate": f, "total": config.total, "discarded": float(exposure(f, config.total))} for f in config.rates]
    tables = [
        Table(
            "exposure", "Chance that a correct rollout reaches fallback (Eq. 7, Table 27)", _columns(config), exposures
        ),
        Table(
            "discard",
            f"Trajectories lost by discarding at the first fallback, {config.total} tests (C.6)",
            (Column("rate", "Failure rate f", ".3%"), Column("discarded", "Discarded", ".1%")),
            discards,
        ),
    ]
    summary: dict[str, Any] = {}
    facts = []
    if measured is not None:
        summary = _measured(measured)
        facts = [
            ("executions of this build", f"{measured.executions:,}"),
            ("lost at least once by the service", _percent(summary["rate_before_retries"])),
            ("without a verdict in the end", _percent(summary["rate_after_retries"])),
            ("correct rollouts that would reach fallback", _percent(summary["exposure_after_retries"])),
        ]
    tables.append(Table("decisions", "What is done with a pair (C.4)", _DECISION_COLUMNS, _decisions(), True))
    return StudyReport(
        title="How often does fallback matter?",
        lead=(
            "A failure rate that looks negligible for one test is not negligible for a rollout of many. The chance "
            "that at least one of n tests gets no verdict from the service is 1 − (1 − f)^n, with independent failures."
        ),
        settings={"rates": list(config.rates), "tests": list(config.tests), "total": config.total},
        facts=facts,
        tables=tables,
        figures=[_figure(config)],
        main_table="exposure",
        summary=summary,
    )


_DECISION_COLUMNS = (
    Column("category", "Test"),
    Column("service", "Service says"),
    Column("attempts", "Attempts", "d"),
    Column("local", "Local run says"),
    Column("action", "Next"),
    Column("verdict", "Verdict"),
    Column("duration", "Duration"),
    Column("source", "From"),
    Column("families", "May end the trajectory for"),
)


def _decisions() -> list[dict[str, Any]]:
    """The decision table with reward families folded: they only say whether a trajectory may end."""
    rows: dict[tuple[Any, ...], dict[str, Any]] = {}
    for row in decision_table(Policy()):
        situation = tuple(row[key] for key in ("category", "service", "attempts", "local"))
        folded = rows.setdefault(situation, {**row, "stopping": []})
        if row["may_stop_early"]:
            folded["stopping"].append(row["family"])
    for folded in rows.values():
        stopping = folded.pop("stopping")
        folded["families"] = ", ".join(stopping) if len(stopping) < len(RewardFamily) else "all"
        del folded["family"], folded["may_stop_early"]
    return list(rows.values())


def _columns(config: FallbackStudyConfig) -> list[Column]:
    return [
        Column("rate", "Failure rate f", ".3%"),
        *(Column(f"n={n}", f"n = {n}", ".2%") for n in config.tests),
        Column("paper", "Paper (%)"),
    ]


def _paper_row(rate: float, tests: Sequence[int]) -> str | None:
    if rate not in PAPER_TABLE_27 or tuple(tests) != PAPER_TESTS:
        return None
    digits = 1 if rate >= 1e-4 else 2
    return " / ".join(f"{value:.{digits}f}" for value in PAPER_TABLE_27[rate])


def _measured(measured: MeasuredFailures) -> dict[str, Any]:
    before, after = measured.retried / measured.executions, measured.unresolved / measured.executions
    return {
        "executions": measured.executions,
        "rate_before_retries": before,
        "rate_after_retries": after,
        "correctness_tests": measured.correctness_tests,
        "total_tests": measured.total_tests,
        "exposure_before_retries": _exposure(before, measured.correctness_tests),
        "exposure_after_retries": _exposure(after, measured.correctness_tests),
        "discard_after_retries": _exposure(after, measured.total_tests),
    }


def _exposure(rate: float, n_tests: float | None) -> float | None:
    return None if n_tests is None else float(exposure(rate, n_tests))


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{share:.4%}"


def _figure(config: FallbackStudyConfig) -> Figure:
    most = max(200, *config.tests, config.total)
    grid = sorted({round(1.12**k) for k in range(60) if 1.12**k <= most} | {most})
    lines = [
        Line(f"f = {rate:.3%}", grid, 100 * exposure(rate, grid), colour % 8, marks=False)
        for colour, rate in enumerate(config.rates[:8])
    ]
    chart = line_chart("At least one failure", lines, Axis("tests n", log=True), Axis("rollouts (%)", 0.0, 100.0))
    return Figure("Exposure by number of tests", "Eq. 7 over the number of tests, one line a failure rate.", [chart])


def _check(config: FallbackStudyConfig) -> None:
    if not config.rates or not all(0 <= rate <= 1 for rate in config.rates):
        raise ConfigError("--rate takes shares between 0 and 1 (2% is 0.02)")
    if not config.tests or not all(n >= 1 for n in config.tests) or config.total < 1:
        raise ConfigError("--tests and --total take numbers of tests, at least 1")
