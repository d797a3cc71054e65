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


class TestGroup(StrEnum):
    """Test categories as statistics group them; `original` pools public, private and generated (paper Table 21)."""

    __test__ = False  # not a pytest class

    ORIGINAL = "original"
    CORRECTNESS = "correctness"
    OPTIMIZATION = "optimization"


class Reason(StrEnum):
    """Why something was dropped (`exclusions.reason`, `attrition.reason`).

    Each comment says what `value` and `threshold` of the exclusions row mean; "–" means that both are null.
    Why a generator attempt was rejected is in `AttemptReason`.
    """

    # ingest
    MALFORMED_ROW = "malformed_row"  # row: –; detail names the column and what is wrong with it
    FILE_IO = "file_io"  # problem reads or writes a named file: –; detail names the file
    OTHER_LANGUAGE = "other_language"  # solution: –; detail is the language
    CONTRADICTORY_LABEL = "contradictory_label"  # solution under both labels of one problem: –
    DUPLICATE = "duplicate"  # solution or test collapsed into its twin; attrition only
    # dedup
    BENCHMARK_EXACT = "benchmark_exact"  # problem: similarity 1, threshold 1; detail names the benchmark row
    BENCHMARK_NEAR = "benchmark_near"  # problem: Jaccard similarity, least similarity that counts; detail as above
    STATEMENT_EMPTY = "statement_empty"  # problem: characters, least number of characters
    STATEMENT_SHORT = "statement_short"  # problem: characters, least number of characters
    STATEMENT_IMAGES_ONLY = "statement_images_only"  # problem: characters that are no image, least number
    STATEMENT_REJECTED = "statement_rejected"  # problem refused by the model: –; detail is its reason
    # controls
    CORRECT_ONLY = "correct_only"  # problem without incorrect solutions: how many, least number
    INCORRECT_ONLY = "incorrect_only"  # problem without correct solutions: how many, least number
    NEITHER = "neither"  # problem without solutions: how many, least number
    # validate
    FAILED_ORIGINAL_TESTS = "failed_original_tests"  # correct solution: failed tests, most allowed; detail: which
    NO_TESTS = "no_tests"  # problem without original tests: how many, least number
    NO_CORRECT_LEFT = "no_correct_left"  # problem: verified-correct solutions, least number
    NO_INCORRECT_LEFT = "no_incorrect_left"  # problem: incorrect solutions, least number
    # filter_correctness, filter_optimization
    TIMEOUT_FRACTION = "timeout_fraction"  # test: share of verified-correct solutions that time out, most allowed
    FAILURE_FRACTION = "failure_fraction"  # test: share of verified-correct solutions that fail, most allowed
    FAILS_SUITE = "fails_suite"  # correct solution: failed tests of the filtered suite, most allowed; detail: which
    PASSES_SUITE = "passes_suite"  # incorrect solution: failed tests of the filtered suite, least number
    TOO_FEW_CORRECT = "too_few_correct"  # problem: correct solutions left, least number
    TOO_FEW_INCORRECT = "too_few_incorrect"  # problem: incorrect solutions left, least number
    CORRECT_DROP_RATE = "correct_drop_rate"  # problem: share of entering correct solutions lost, most allowed
    FALSE_POSITIVE_RATE = "false_positive_rate"  # problem: share of entering incorrect ones that pass, most allowed
    # complete
    NO_CORRECTNESS_TESTS = "no_correctness_tests"  # problem: retained correctness tests, least number
    NO_OPTIMIZATION_TESTS = "no_optimization_tests"  # problem: retained optimization tests, least number
    # filterability (also `filterability.reason`)
    TOO_FEW_TESTS = "too_few_tests"  # problem: tests, least number
    ZERO_MEDIAN = "zero_median"  # problem: median of the mean durations in s, null
    LOW_CV = "low_cv"  # problem: robust CV (Eq. 6), least robust CV
    BELOW_RESOLUTION = "below_resolution"  # problem: interquartile range in s, least range in s
    # attrition only
    PROBLEM_DROPPED = "problem_dropped"  # solution or test of a problem that the stage dropped
    TOTAL = "total"  # the stage's sum over all reasons


ATTRITION_ONLY = (Reason.DUPLICATE, Reason.PROBLEM_DROPPED, Reason.TOTAL)
"""Reasons that `attrition` counts and `exclusions` does not list (pipeline page, "A drop is data")."""

FILTERABILITY_REASONS = (Reason.TOO_FEW_TESTS, Reason.ZERO_MEDIAN, Reason.LOW_CV, Reason.BELOW_RESOLUTION)
"""Why a test group is not duration filterable, in the order in which they are tried."""

SOURCES = ("unknown", "codechef", "codeforces", "hackerearth", "codejam", "atcoder", "aizu")
"""Names of CodeContests' integer `source` codes, by code."""

DIFFICULTIES = ("unknown", "easy", "medium", "hard", "harder", "hardest", "external", *"abcdefghijklmnopqrstuv")
"""Names of CodeContests' integer `difficulty` codes, by code (letters are Codeforces problem indices)."""


class AttemptReason(StrEnum):
    """Why a generator attempt gave no tests (column `reason` of `generator_attempts`).

    The first group is found by reading the answer, the second by the acceptance loop (paper Table 11, steps 3-6).
    """

    NO_COMPLETION = "no_completion"  # nothing was recorded for this attempt
    NO_CODE = "no_code"  # an answer, but no code in it
    NO_CLASS = "no_class"  # code, but no class InputGenerator
    NOT_PARSEABLE = "not_parseable"  # the code with the class is not valid Python
    TRUNCATED = "truncated"  # the answer ends in the middle of its code or of its reasoning

    GENERATOR_CRASHED = "generator_crashed"  # the class raised, was killed, or lacks a method
    WRONG_TYPE = "wrong_type"  # a call returned something other than a string
    EMPTY_INPUT = "empty_input"
    INPUT_TOO_LARGE = "input_too_large"
    GENERATOR_TIMEOUT = "generator_timeout"
    TOO_FEW_SOLUTIONS = "too_few_solutions"  # fewer than two verified solutions could take part
    NO_CONSENSUS = "no_consensus"  # no two solutions gave the same 15 outputs
    AMBIGUOUS_CONSENSUS = "ambiguous_consensus"  # two equally large groups disagree
    VERIFICATION_FAILED = "verification_failed"  # the re-run of an agreeing solution did not succeed
    INFRASTRUCTURE = "infrastructure"  # not decided: the service failed; asked again when the stage is


class CalibrationFamily(StrEnum):
    """Shapes of the stored-to-fresh duration correction (paper Table 32)."""

    MULTIPLICATIVE = "multiplicative"
    POWER_LAW = "power_law"
    AFFINE = "affine"
    QUADRATIC = "quadratic"


class RewardFamily(StrEnum):
    """How correctness, gate and quality are composed into one reward (paper D.4)."""

    CORRECTNESS_ONLY = "correctness_only"
    OPTIMIZATION_ONLY = "optimization_only"
    COLLAPSED = "collapsed"
    TWO_GATE = "two_gate"
    ADDITIVE_BLEND = "additive_blend"
    MULTITASK = "multitask"
