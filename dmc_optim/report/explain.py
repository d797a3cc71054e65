"""Drop reasons in words: what was found, and what it was compared with."""

from schemas.enums import AttemptReason, Reason, Stage

_TEMPLATES: dict[str, str] = {
    Reason.MALFORMED_ROW: "the row could not be read",
    Reason.FILE_IO: "the problem reads or writes a named file",
    Reason.OTHER_LANGUAGE: "its language is not among the configured ones",
    Reason.CONTRADICTORY_LABEL: "the same code is listed as correct and as incorrect",
    Reason.DUPLICATE: "an exact duplicate lives on",
    Reason.BENCHMARK_EXACT: "an evaluation benchmark has the same statement",
    Reason.BENCHMARK_NEAR: "similarity {value} to a benchmark's statement, {threshold} counts as the same",
    Reason.STATEMENT_EMPTY: "the statement is empty",
    Reason.STATEMENT_SHORT: "the statement has {value} characters, {threshold} are needed",
    Reason.STATEMENT_IMAGES_ONLY: "the statement is nothing but images",
    Reason.STATEMENT_REJECTED: "the statement model refused it",
    Reason.CORRECT_ONLY: "{value} incorrect solutions, {threshold} needed",
    Reason.INCORRECT_ONLY: "{value} correct solutions, {threshold} needed",
    Reason.NEITHER: "no solution of either label",
    Reason.FAILED_ORIGINAL_TESTS: "{value} of the original tests failed, {threshold} allowed",
    Reason.NO_TESTS: "{value} original tests, {threshold} needed",
    Reason.NO_CORRECT_LEFT: "{value} verified-correct solutions left, {threshold} needed",
    Reason.NO_INCORRECT_LEFT: "{value} incorrect solutions left, {threshold} needed",
    Reason.TIMEOUT_FRACTION: "{value%} of the verified-correct solutions time out on it, {threshold%} allowed",
    Reason.FAILURE_FRACTION: "{value%} of the verified-correct solutions fail on it, {threshold%} allowed",
    Reason.FAILS_SUITE: "it fails {value} tests of the filtered suite, {threshold} allowed",
    Reason.PASSES_SUITE: "an incorrect solution that fails {value} tests of the filtered suite, {threshold} needed",
    Reason.TOO_FEW_CORRECT: "{value} correct solutions left, {threshold} needed",
    Reason.TOO_FEW_INCORRECT: "{value} incorrect solutions left, {threshold} needed",
    Reason.CORRECT_DROP_RATE: "{value%} of the entering correct solutions were lost, {threshold%} allowed",
    Reason.FALSE_POSITIVE_RATE: "{value%} of the entering incorrect solutions pass the suite, {threshold%} allowed",
    Reason.NO_CORRECTNESS_TESTS: "no generated correctness test is left",
    Reason.NO_OPTIMIZATION_TESTS: "no generated optimization test is left",
    Reason.TOO_FEW_TESTS: "{value} optimization tests, {threshold} needed for a spread of durations",
    Reason.ZERO_MEDIAN: "the median duration is zero",
    Reason.LOW_CV: "robust CV {value}, {threshold} needed (Eq. 6)",
    Reason.BELOW_RESOLUTION: "the middle half of the durations spans {value} s, {threshold} s needed",
    Reason.PROBLEM_DROPPED: "its problem was dropped",
    Reason.TOTAL: "the stage's sum over all reasons",
    AttemptReason.NO_COMPLETION: "no answer was recorded",
    AttemptReason.NO_CODE: "the answer holds no code",
    AttemptReason.NO_CLASS: "the code has no class InputGenerator",
    AttemptReason.NOT_PARSEABLE: "the code is not valid Python",
    AttemptReason.TRUNCATED: "the answer was cut off",
    AttemptReason.GENERATOR_CRASHED: "the generator crashed",
    AttemptReason.WRONG_TYPE: "a call returned something other than a string",
    AttemptReason.EMPTY_INPUT: "a call returned an empty input",
    AttemptReason.INPUT_TOO_LARGE: "a call returned an input over the size limit",
    AttemptReason.GENERATOR_TIMEOUT: "the generator took too long",
    AttemptReason.TOO_FEW_SOLUTIONS: "too few verified solutions could take part",
    AttemptReason.NO_CONSENSUS: "no two solutions agreed on all outputs",
    AttemptReason.AMBIGUOUS_CONSENSUS: "two equally large groups of solutions disagree",
    AttemptReason.VERIFICATION_FAILED: "the re-run of an agreeing solution did not succeed",
    AttemptReason.INFRASTRUCTURE: "the execution service failed; it is asked again when the stage runs again",
}

NEXT_STEP: dict[str, str] = {
    Stage.INGEST: "read the source",
    Stage.DEDUP: "compare with benchmarks, judge statements, cluster twins",
    Stage.CONTROLS: "need correct and incorrect solutions",
    Stage.VALIDATE: "re-execute on the original tests",
    Stage.SYNTHESIZE_CORRECTNESS: "generate correctness tests",
    Stage.FILTER_CORRECTNESS: "filter them, reclassify solutions, gate problems",
    Stage.SYNTHESIZE_OPTIMIZATION: "generate optimization tests",
    Stage.FILTER_OPTIMIZATION: "filter them, gate problems",
    Stage.COMPLETE: "need both generated suites (cleaned corpus)",
    Stage.FILTERABILITY: "need a spread of durations (RL pool)",
    Stage.SPLIT: "split by cluster",
    Stage.DATASETS: "write reference durations and datasets",
}


def meaning(reason: str) -> str:
    """The sentence with `value` and `threshold` named instead of filled in."""
    text = _TEMPLATES[reason]
    for name in ("value", "threshold"):
        text = text.replace(f"{{{name}%}}", f"{{{name}}}").replace(f"{{{name}}}", f"`{name}`")
    return text


def explain(
    reason: str,
    value: float | None = None,
    threshold: float | None = None,
    detail: str | None = "",
    most: float | None = None,
) -> str:
    """One sentence, ending in the detail when there is one. most: of several drops, whose least value is `value`."""
    text = _TEMPLATES.get(reason, reason)
    for name, figure in (("value", value), ("threshold", threshold)):
        upper = most if name == "value" and most != value else None
        for slot, write in ((f"{{{name}}}", _plain), (f"{{{name}%}}", _share)):
            text = text.replace(slot, write(figure) + ("" if upper is None else f" to {write(upper)}"))
    return f"{text} ({detail})" if detail else text


def _plain(figure: float | None) -> str:
    if figure is None:
        return "?"
    return f"{figure:g}" if figure == round(figure) else f"{figure:.4g}"


def _share(figure: float | None) -> str:
    return "?" if figure is None else f"{100 * figure:.4g}%"
