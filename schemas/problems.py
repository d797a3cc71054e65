"""Table `problems`: one row for every readable problem ever ingested."""

import pyarrow as pa

from schemas.enums import DIFFICULTIES, SOURCES
from schemas.table import Column, Table

PROBLEMS = Table(
    name="problems",
    key=("problem_id",),
    description="Every readable problem of the source, dropped later or not.",
    columns=(
        Column(
            "problem_id", pa.string(), "`<split>/<row index in that split>`, e.g. `train/532`; limits never renumber."
        ),
        Column("name", pa.string(), "Title as the source gives it."),
        Column("source", pa.string(), "Site the problem comes from.", accepted=SOURCES),
        Column(
            "source_split", pa.string(), "Split of the source corpus: the file name's stem without its shard suffix."
        ),
        Column("statement", pa.string(), "Full problem statement, the source's `description`."),
        Column("difficulty", pa.string(), "The source's difficulty class.", accepted=DIFFICULTIES),
        Column("cf_contest_id", pa.int64(), "Codeforces contest; 0 or null where the source has none.", nullable=True),
        Column("cf_index", pa.string(), "Index of the problem in its Codeforces contest.", nullable=True),
        Column("cf_rating", pa.int64(), "Codeforces rating; 0 or null where the source has none.", nullable=True),
        Column("cf_tags", pa.list_(pa.string()), "Codeforces tags.", nullable=True),
        Column(
            "time_limit_s",
            pa.float64(),
            "Time limit stated by the source, in seconds; executions use the configured limit.",
            nullable=True,
            minimum=0,
        ),
        Column(
            "memory_limit_bytes",
            pa.int64(),
            "Memory limit stated by the source, in bytes; 0 or null where it has none.",
            nullable=True,
            minimum=0,
        ),
    ),
    rules=(
        (
            "id of its split",
            "regexp_full_match(problem_id, '.+/[0-9]+') AND starts_with(problem_id, source_split || '/')",
            "problem_id is the source split, a slash and a row index",
        ),
    ),
)
