"""Closed vocabularies shared by every table, stage and report.

Each value is what is written to disk; renaming one is a major schema change.
"""

from enum import StrEnum


class Stage(StrEnum):
    """Stage keys, in build order (values of `stage` in every table)."""

    INGEST = "ingest"
    DEDUP = "dedup"
    CONTROLS = "controls"
    VALIDATE = "validate"
    SYNTHESIZE_CORRECTNESS = "synthesize_correctness"
    FILTER_CORRECTNESS = "filter_correctness"
    SYNTHESIZE_OPTIMIZATION = "synthesize_optimization"
    FILTER_OPTIMIZATION = "filter_optimization"
    COMPLETE = "complete"
    FILTERABILITY = "filterability"
    SPLIT = "split"
    DATASETS = "datasets"


class Status(StrEnum):
    """Detailed outcome of one execution (paper Appendix C; Eq. 9 maps it to three)."""

    SUCCESS = "success"
    TIMEOUT = "timeout"
    WRONG_ANSWER = "wrong_answer"
    RUNTIME_EXCEPTION = "runtime_exception"
    SYNTAX_ERROR = "syntax_error"
    OUT_OF_MEMORY = "out_of_memory"
    OUTPUT_LIMIT = "output_limit"
    INFRASTRUCTURE = "infrastructure"

    @property
    def outcome(self) -> "Outcome | None":
        """The three-way outcome of Eq. 9; None for infrastructure, which is never a verdict."""
        if self is Status.INFRASTRUCTURE:
            return None
        if self is Status.SUCCESS:
            return Outcome.SUCCESS
        if self is Status.TIMEOUT:
            return Outcome.TIMEOUT
        return Outcome.FAILURE


class Outcome(StrEnum):
    """Three-way outcome used by environments and rewards (Eq. 9)."""

    SUCCESS = "success"
    TIMEOUT = "timeout"
    FAILURE = "failure"


class Label(StrEnum):
    """Label a solution carries in the source corpus."""

    CORRECT = "correct"
    INCORRECT = "incorrect"


class Category(StrEnum):
    """Where a test comes from; the first three are the original tests."""

    PUBLIC = "public"
    PRIVATE = "private"
    GENERATED = "generated"
    CORRECTNESS = "correctness"
    OPTIMIZATION = "optimization"


ORIGINAL_CATEGORIES = (Category.PUBLIC, Category.PRIVATE, Category.GENERATED)


class Campaign(StrEnum):
    """Which round of executions a row belongs to."""

    ORIGINAL = "original"
    CORRECTNESS = "correctness"
    OPTIMIZATION = "optimization"


class Entity(StrEnum):
    """What an exclusions or attrition row counts."""

    ROW = "row"
    PROBLEM = "problem"
    SOLUTION = "solution"
    TEST = "test"
    ATTEMPT = "attempt"


class Pool(StrEnum):
    """Membership decided by duration filterability (paper B.7)."""

    RL = "rl"
    COMPLEMENT = "complement"


class Split(StrEnum):
    """Side of the seeded resplit; `none` outside the RL pool."""

    TRAIN = "train"
    TEST = "test"
    NONE = "none"
