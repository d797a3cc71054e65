"""Table `consensus`: what the verification pool answered to each generator attempt."""

import pyarrow as pa

from schemas.enums import Campaign, Status
from schemas.table import Column, ForeignKey, Table

GENERATED_CAMPAIGNS = (Campaign.CORRECTNESS, Campaign.OPTIMIZATION)

CONSENSUS = Table(
    name="consensus",
    key=("problem_id", "campaign", "attempt", "solution_id"),
    description="One row for each verified solution that ran an attempt's inputs before expected outputs existed.",
    columns=(
        Column("problem_id", pa.string(), "The problem."),
        Column("campaign", pa.string(), "Generation campaign.", accepted=GENERATED_CAMPAIGNS),
        Column("attempt", pa.int64(), "Attempt of that campaign, from 0.", minimum=0),
        Column("solution_id", pa.string(), "The verified solution that was run."),
        Column(
            "status",
            pa.string(),
            "`success` when all its runs exit normally within the limit, else the first other outcome.",
            accepted=tuple(Status),
        ),
        Column(
            "outputs_sha256",
            pa.string(),
            "Digest of its list of outputs under the build's comparator; null when it did not take part.",
            nullable=True,
        ),
        Column("agreed", pa.bool_(), "It belongs to the agreeing group that gave the expected outputs."),
    ),
    foreign_keys=(
        ForeignKey(("problem_id", "campaign", "attempt"), "generator_attempts"),
        ForeignKey(("problem_id", "solution_id"), "solutions"),
    ),
    rules=(
        (
            "only normal exits take part",
            "(status = 'success') = (outputs_sha256 IS NOT NULL)",
            "a solution takes part exactly when all its runs exit normally",
        ),
        ("agreement needs outputs", "NOT agreed OR outputs_sha256 IS NOT NULL", "an agreeing solution has outputs"),
    ),
)
