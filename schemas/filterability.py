"""Table `filterability`: how far durations spread over each problem's tests (paper Eq. 6)."""

import pyarrow as pa

from schemas.enums import FILTERABILITY_REASONS, TestGroup
from schemas.table import Column, ForeignKey, Table

FILTERABILITY = Table(
    name="filterability",
    key=("problem_id", "category"),
    description="Per problem of the cleaned corpus and test group: is there a spread of durations to rank by?",
    columns=(
        Column("problem_id", pa.string(), "The problem."),
        Column(
            "category",
            pa.string(),
            "Test group; `original` pools the three original categories.",
            accepted=tuple(TestGroup),
        ),
        Column("n_tests", pa.int64(), "Retained tests of the group that have a mean duration.", minimum=0),
        Column("robust_cv", pa.float64(), "IQR / median of the mean durations (Eq. 6).", nullable=True, minimum=0),
        Column(
            "iqr_s", pa.float64(), "Interquartile range of the mean durations, in seconds.", nullable=True, minimum=0
        ),
        Column("median_s", pa.float64(), "Median of the mean durations, in seconds.", nullable=True, minimum=0),
        Column(
            "pearson_r",
            pa.float64(),
            "Pearson correlation of n_chars and mean duration; null when either is constant.",
            nullable=True,
        ),
        Column("duration_filterable", pa.bool_(), "Robust CV and IQR reach their thresholds."),
        Column("length_filterable", pa.bool_(), "Pearson r reaches its threshold (tracked, not required)."),
        Column(
            "censored_share",
            pa.float64(),
            "Share of the durations that are the time limit because the run timed out.",
            nullable=True,
            minimum=0,
            maximum=1,
        ),
        Column(
            "reason",
            pa.string(),
            "Why it is not duration filterable; null when it is.",
            nullable=True,
            accepted=FILTERABILITY_REASONS,
        ),
    ),
    foreign_keys=(ForeignKey(("problem_id",), "problems"),),
    rules=(
        (
            "not filterable for a reason",
            "duration_filterable = (reason IS NULL)",
            "a reason exactly when not filterable",
        ),
        ("correlation", "pearson_r BETWEEN -1.000001 AND 1.000001", "a correlation lies in [-1, 1]"),
    ),
)
