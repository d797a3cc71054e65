"""Table `reference_durations`: measured times of the reference solutions, what speed is ranked against."""

import pyarrow as pa

from schemas.enums import Status
from schemas.table import Column, ForeignKey, Table

REFERENCE_DURATIONS = Table(
    name="reference_durations",
    key=("problem_id", "test_id", "solution_id"),
    description="Every retained correct solution on every retained test of every problem of the cleaned corpus.",
    columns=(
        Column("problem_id", pa.string(), "The problem."),
        Column("test_id", pa.string(), "Retained test."),
        Column("solution_id", pa.string(), "Reference solution."),
        Column(
            "duration_s",
            pa.float64(),
            "The program's own time in seconds; null when it could not be measured.",
            nullable=True,
            minimum=0,
        ),
        Column(
            "duration_std_s", pa.float64(), "Standard deviation over the repetitions, in s.", nullable=True, minimum=0
        ),
        Column("repetitions", pa.int64(), "Timed runs behind duration_s.", minimum=0),
        Column("status", pa.string(), "Outcome; a timeout's duration is a lower bound.", accepted=tuple(Status)),
        Column("epoch", pa.int64(), "Service-state epoch of the measurement.", minimum=0),
    ),
    foreign_keys=(
        ForeignKey(("problem_id", "test_id"), "tests"),
        ForeignKey(("problem_id", "solution_id"), "solutions"),
    ),
)
