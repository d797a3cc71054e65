"""Table `tests`: every distinct original test, and every generated test ever accepted."""

import pyarrow as pa

from schemas.enums import ORIGINAL_CATEGORIES, Category
from schemas.table import Column, ForeignKey, Table

GENERATOR_METHODS = ("edge", "small", "large", "sample")
_ORIGINAL = ", ".join(f"'{category}'" for category in ORIGINAL_CATEGORIES)

TESTS = Table(
    name="tests",
    key=("problem_id", "test_id"),
    description="Distinct (input, output) pairs. Exact duplicates collapse into the first category.",
    columns=(
        Column("problem_id", pa.string(), "The problem it tests."),
        Column("test_id", pa.string(), "First 16 hex digits of sha256(input NUL output), over the raw bytes."),
        Column("category", pa.string(), "Where the test comes from.", accepted=tuple(Category)),
        Column("input", pa.string(), "Standard input."),
        Column("output", pa.string(), "Expected standard output; for generated tests the consensus output."),
        Column("n_chars", pa.int64(), "Characters of input and output together.", minimum=0),
        Column(
            "generator_attempt",
            pa.int64(),
            "Attempt of the campaign named by `category` that made it; null for original tests.",
            nullable=True,
            minimum=0,
        ),
        Column(
            "generator_method",
            pa.string(),
            "Method of the attempt's class that made it; null for original tests.",
            nullable=True,
            accepted=GENERATOR_METHODS,
        ),
    ),
    foreign_keys=(
        ForeignKey(("problem_id",), "problems"),
        ForeignKey(
            ("problem_id", "category", "generator_attempt"),
            "generator_attempts",
            ("problem_id", "campaign", "attempt"),
        ),
    ),
    rules=(
        (
            "id of its texts",
            "test_id = left(sha256(input || chr(0) || output), 16)",
            "test_id is the digest of input, NUL, output",
        ),
        ("length", "n_chars = length(input) + length(output)", "n_chars counts the characters of both texts"),
        (
            "attempt of generated tests",
            f"(category IN ({_ORIGINAL})) = (generator_attempt IS NULL) "
            "AND (generator_attempt IS NULL) = (generator_method IS NULL)",
            "original tests have no generator attempt and method, generated ones have both",
        ),
    ),
)
