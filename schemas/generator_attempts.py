"""Table `generator_attempts`: every input generator asked for, and what became of it."""

import pyarrow as pa

from schemas.consensus import GENERATED_CAMPAIGNS
from schemas.enums import AttemptReason
from schemas.table import Column, ForeignKey, Table

GENERATOR_ATTEMPTS = Table(
    name="generator_attempts",
    key=("problem_id", "campaign", "attempt"),
    description="Independent generator attempts of both campaigns (paper Table 11).",
    columns=(
        Column("problem_id", pa.string(), "The problem."),
        Column("campaign", pa.string(), "Generation campaign.", accepted=GENERATED_CAMPAIGNS),
        Column("attempt", pa.int64(), "Attempt, from 0.", minimum=0),
        Column("prompt_solution_id", pa.string(), "Verified solution shown in the prompt.", nullable=True),
        Column("model", pa.string(), "Model that answered, or `recorded`."),
        Column("seed", pa.int64(), "Sampling seed asked for.", nullable=True),
        Column("completion", pa.string(), "The answer as given; null when there was none.", nullable=True),
        Column("accepted", pa.bool_(), "Its tests entered the suite."),
        Column(
            "reason",
            pa.string(),
            "Why it was rejected; null when accepted.",
            nullable=True,
            accepted=tuple(AttemptReason),
        ),
        Column("n_tests", pa.int64(), "Tests it gave before duplicates collapse; 0 when rejected.", minimum=0),
        Column(
            "n_agreeing",
            pa.int64(),
            "Size of the largest agreeing group; null when none was run.",
            nullable=True,
            minimum=0,
        ),
    ),
    foreign_keys=(
        ForeignKey(("problem_id",), "problems"),
        ForeignKey(("problem_id", "prompt_solution_id"), "solutions", ("problem_id", "solution_id")),
    ),
    rules=(
        (
            "rejected for a reason",
            "accepted = (reason IS NULL)",
            "a rejected attempt has a reason, an accepted one none",
        ),
        ("rejected gives no tests", "accepted = (n_tests > 0)", "an accepted attempt has tests, a rejected one none"),
        ("two must agree", "NOT accepted OR n_agreeing >= 2", "at least two solutions agreed on an accepted attempt"),
    ),
)
