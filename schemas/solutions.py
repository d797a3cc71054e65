"""Table `solutions`: every distinct solution ever ingested, with its source label."""

import pyarrow as pa

from schemas.enums import Label
from schemas.table import Column, ForeignKey, Table

SOLUTIONS = Table(
    name="solutions",
    key=("problem_id", "solution_id"),
    description="Distinct solutions in the configured languages. Code found under both labels of a problem is absent.",
    columns=(
        Column("problem_id", pa.string(), "The problem it was submitted to."),
        Column("solution_id", pa.string(), "First 16 hex digits of sha256(code), over the raw bytes."),
        Column("label", pa.string(), "Label in the source; executions never rewrite it.", accepted=tuple(Label)),
        Column("language", pa.string(), "Language of the code, e.g. `python3`."),
        Column("code", pa.string(), "The program."),
    ),
    foreign_keys=(ForeignKey(("problem_id",), "problems"),),
    rules=(("id of its code", "solution_id = left(sha256(code), 16)", "solution_id is the digest of the code"),),
)
