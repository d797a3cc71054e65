"""Table `statement_quality`: a model's judgement of each statement."""

import pyarrow as pa

from schemas.table import Column, ForeignKey, Table

STATEMENT_QUALITY = Table(
    name="statement_quality",
    key=("problem_id",),
    description="Verdicts of the optional statement model; empty when only the deterministic rules ran.",
    columns=(
        Column("problem_id", pa.string(), "The problem."),
        Column(
            "well_formed", pa.bool_(), "The text is readable; null when the model gave no usable answer.", nullable=True
        ),
        Column("complete", pa.bool_(), "Nothing needed to solve it is missing; null as above.", nullable=True),
        Column("unambiguous", pa.bool_(), "It has one reading; null as above.", nullable=True),
        Column("model", pa.string(), "Model that judged."),
        Column("reason", pa.string(), "The model's reason in its words.", nullable=True),
    ),
    foreign_keys=(ForeignKey(("problem_id",), "problems"),),
)
