"""Table `attrition`: how many entered, left and were dropped, for every stage, entity, label and reason."""

import pyarrow as pa

from schemas.enums import AttemptReason, Category, Entity, Label, Reason, Stage
from schemas.table import Column, Table

_LABELS = ", ".join(f"'{label}'" for label in Label)
_CATEGORIES = ", ".join(f"'{category}'" for category in Category)

ATTRITION = Table(
    name="attrition",
    key=("stage", "entity", "label", "reason"),
    description=(
        "For each (stage, entity, label) one row with reason `total` (n_in + n_created = n_out + n_dropped, "
        "n_dropped being the sum over reasons) and one row a reason with its n_dropped alone."
    ),
    columns=(
        Column("stage", pa.string(), "Stage that counts.", accepted=tuple(Stage)),
        Column("entity", pa.string(), "What is counted.", accepted=tuple(Entity)),
        Column(
            "label",
            pa.string(),
            "Label of solutions, category of tests, else the empty string.",
            accepted=("", *Label, *Category),
        ),
        Column("reason", pa.string(), "Reason of the drop, or `total`.", accepted=(*Reason, *AttemptReason)),
        Column("n_in", pa.int64(), "How many entered the stage; null except in the total.", nullable=True, minimum=0),
        Column("n_out", pa.int64(), "How many survived it; null except in the total.", nullable=True, minimum=0),
        Column("n_created", pa.int64(), "How many it made; null except in the total.", nullable=True, minimum=0),
        Column("n_dropped", pa.int64(), "How many it dropped for this reason (in the total: for any).", minimum=0),
    ),
    rules=(
        (
            "only totals count survivors",
            f"(reason = '{Reason.TOTAL}') = (n_in IS NOT NULL) AND (n_in IS NULL) = (n_out IS NULL) "
            "AND (n_in IS NULL) = (n_created IS NULL)",
            "n_in, n_out and n_created are given exactly in the total",
        ),
        ("conservation", "n_in + n_created = n_out + n_dropped", "what enters or is made either leaves or is dropped"),
        (
            "label of its entity",
            f"CASE entity WHEN 'solution' THEN label IN ({_LABELS}) "
            f"WHEN 'test' THEN label IN ({_CATEGORIES}) ELSE label = '' END",
            "solutions count by label, tests by category, the others under ''",
        ),
    ),
)
