"""Table `problem_metrics`: what each filtering round measured and did, per problem."""

import pyarrow as pa

from schemas.consensus import GENERATED_CAMPAIGNS
from schemas.table import Column, ForeignKey, Table


def _rate(name: str, doc: str) -> Column:
    return Column(name, pa.float64(), doc, nullable=True, minimum=0, maximum=1)


def _count(name: str, doc: str) -> Column:
    return Column(name, pa.int64(), doc, minimum=0)


_FP = "Share of the entering incorrect solutions that pass"
_PASS = "Share of the entering correct solutions that pass"

PROBLEM_METRICS = Table(
    name="problem_metrics",
    key=("problem_id", "campaign"),
    description=(
        "One row for every problem that entered the campaign's filters. Rates are null when not measured: no entering "
        "solution of that label, or controls that were not run."
    ),
    columns=(
        Column("problem_id", pa.string(), "The problem."),
        Column("campaign", pa.string(), "The filtering round.", accepted=GENERATED_CAMPAIGNS),
        _count("n_correct_in", "Correct solutions that enter the round."),
        _count("n_correct_out", "Correct solutions that pass the filtered suite."),
        _count("n_incorrect_in", "Incorrect solutions that enter the round."),
        _count("n_incorrect_out", "Incorrect solutions that stay as negative controls."),
        _rate("fp_before", f"{_FP} the suite that enters the round."),
        _rate("fp_raw", f"{_FP} with all of the campaign's accepted tests added."),
        _rate("fp_timeout", f"{_FP} after the timeout filter."),
        _rate("fp_final", f"{_FP} the filtered suite (the false-positive rate of the gate)."),
        _rate("correct_pass_before", f"{_PASS} the suite that enters the round."),
        _rate("correct_pass_raw", f"{_PASS} with all of the campaign's accepted tests added."),
        _rate("correct_pass_timeout", f"{_PASS} after the timeout filter."),
        _rate("correct_pass_final", f"{_PASS} the filtered suite."),
        _count("tests_in", "The campaign's accepted tests, duplicates collapsed."),
        _count("tests_removed_timeout", "Tests that the timeout filter removed."),
        _count("tests_removed_failure", "Tests that the exception/failure filter removed."),
    ),
    foreign_keys=(ForeignKey(("problem_id",), "problems"),),
    rules=(
        (
            "no more out than in",
            "n_correct_out <= n_correct_in AND n_incorrect_out <= n_incorrect_in "
            "AND tests_removed_timeout + tests_removed_failure <= tests_in",
            "a filter makes nothing",
        ),
        (
            "removing tests never lowers a pass rate",
            "fp_raw <= fp_before AND fp_raw <= fp_timeout AND fp_timeout <= fp_final AND fp_final <= fp_before",
            "the pass set is monotone in the tests: raw <= timeout <= final <= before",
        ),
        (
            "correct pass rates are monotone",
            "correct_pass_raw <= correct_pass_before AND correct_pass_raw <= correct_pass_timeout "
            "AND correct_pass_timeout <= correct_pass_final AND correct_pass_final <= correct_pass_before",
            "the pass set is monotone in the tests: raw <= timeout <= final <= before",
        ),
    ),
)
