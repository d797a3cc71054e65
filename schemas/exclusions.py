"""Table `exclusions`: everything that was dropped, with the figure that decided."""

import pyarrow as pa

from schemas.enums import ATTRITION_ONLY, AttemptReason, Entity, Reason, Stage
from schemas.table import Column, ForeignKey, Table

EXCLUSION_REASONS = (*(reason for reason in Reason if reason not in ATTRITION_ONLY), *AttemptReason)

EXCLUSIONS = Table(
    name="exclusions",
    key=("stage", "entity", "problem_id", "entity_id"),
    description=(
        "One row for everything dropped by a decision. Collapsed duplicates, and the solutions and tests of a dropped "
        "problem, are counted in `attrition` only."
    ),
    columns=(
        Column("stage", pa.string(), "Stage that decided.", accepted=tuple(Stage)),
        Column("entity", pa.string(), "What was dropped.", accepted=tuple(Entity)),
        Column("problem_id", pa.string(), "The problem concerned; for a malformed row the id that it would have had."),
        Column(
            "entity_id",
            pa.string(),
            "solution_id or test_id; the attempt's number in decimal; for problems and rows, problem_id again.",
        ),
        Column("reason", pa.string(), "Why, machine readable.", accepted=EXCLUSION_REASONS),
        Column(
            "value", pa.float64(), "The figure that decided (its meaning is listed with the reason).", nullable=True
        ),
        Column("threshold", pa.float64(), "What it was compared with.", nullable=True),
        Column("detail", pa.string(), "A few words: which test, which benchmark row, which column."),
    ),
    foreign_keys=(
        ForeignKey(("problem_id",), "problems", where="t.entity <> 'row'"),
        ForeignKey(
            ("problem_id", "entity_id"),
            "solutions",
            ("problem_id", "solution_id"),
            where=f"t.entity = 'solution' AND t.stage <> '{Stage.INGEST}'",
        ),
        ForeignKey(("problem_id", "entity_id"), "tests", ("problem_id", "test_id"), where="t.entity = 'test'"),
    ),
    rules=(
        (
            "problems name themselves",
            "entity NOT IN ('problem', 'row') OR entity_id = problem_id",
            "entity_id of a problem or row is its problem_id",
        ),
    ),
)
