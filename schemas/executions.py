"""Table `executions`: one row for every (solution, test) pair that was run."""

import pyarrow as pa

from schemas.enums import Campaign, Status
from schemas.table import Column, ForeignKey, Table

EXECUTIONS = Table(
    name="executions",
    key=("problem_id", "solution_id", "test_id", "campaign"),
    description="The final run of every executed pair; a pair without a row was not run.",
    columns=(
        Column("problem_id", pa.string(), "The problem."),
        Column("solution_id", pa.string(), "The solution that was run."),
        Column("test_id", pa.string(), "The test that it was run on."),
        Column("campaign", pa.string(), "Round that asked for the run.", accepted=tuple(Campaign)),
        Column("status", pa.string(), "Outcome; `infrastructure` is never a verdict.", accepted=tuple(Status)),
        Column(
            "duration_s",
            pa.float64(),
            "The program's own time in seconds on the configured clock, baseline subtracted; null for infrastructure.",
            nullable=True,
            minimum=0,
        ),
        Column(
            "duration_std_s",
            pa.float64(),
            "Standard deviation over the repetitions, in seconds; null with a single one.",
            nullable=True,
            minimum=0,
        ),
        Column("repetitions", pa.int64(), "Timed runs behind duration_s.", minimum=0),
        Column(
            "cpu_s", pa.float64(), "User and system time of the process tree, in seconds.", nullable=True, minimum=0
        ),
        Column(
            "wall_s", pa.float64(), "Elapsed time in seconds, waiting in a queue excluded.", nullable=True, minimum=0
        ),
        Column("peak_memory_bytes", pa.int64(), "Peak memory of the process tree, in bytes.", nullable=True, minimum=0),
        Column("node", pa.string(), "Execution node."),
        Column(
            "epoch",
            pa.int64(),
            "Service-state epoch of the node; durations of two epochs are not comparable.",
            minimum=0,
        ),
        Column("tier", pa.string(), "Isolation tier that the run had."),
        Column("interpreter", pa.string(), "Interpreter that ran the program."),
        Column("retries", pa.int64(), "Times the pair was tried again after an infrastructure outcome.", minimum=0),
    ),
    foreign_keys=(
        ForeignKey(("problem_id", "solution_id"), "solutions"),
        ForeignKey(("problem_id", "test_id"), "tests"),
    ),
    rules=(
        (
            "verdicts have a duration",
            "(status = 'infrastructure') = (duration_s IS NULL)",
            "duration_s is null exactly for infrastructure outcomes",
        ),
    ),
)
