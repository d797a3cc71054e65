"""Table `splits`: pool and side of every problem of the cleaned corpus."""

import pyarrow as pa

from schemas.enums import Pool, Split
from schemas.table import Column, ForeignKey, Table

SPLITS = Table(
    name="splits",
    key=("problem_id",),
    description="One row for every problem of the cleaned corpus.",
    columns=(
        Column("problem_id", pa.string(), "The problem."),
        Column(
            "pool", pa.string(), "Decided by duration filterability of its optimization tests.", accepted=tuple(Pool)
        ),
        Column("split", pa.string(), "Side of the seeded resplit; `none` outside it.", accepted=tuple(Split)),
    ),
    foreign_keys=(ForeignKey(("problem_id",), "problems"),),
)
