"""The table of stages: what each writes and depends on. `pipeline.wiring` has the transform of each.

It drives build and resume, and knows no Beam, so that a rerun on a complete build is quick. `version` goes up when
a rule changes its results.
"""

from dataclasses import dataclass

from schemas.enums import Stage


@dataclass(frozen=True)
class StageSpec:
    """One stage. config: fields of BuildConfig that decide its content. executes: it runs programs."""

    stage: Stage
    title: str
    writes: tuple[str, ...]
    config: tuple[str, ...]
    version: int = 1
    executes: bool = False


LEDGER = ("exclusions", "attrition")

STAGES: dict[Stage, StageSpec] = {
    spec.stage: spec
    for spec in (
        StageSpec(
            Stage.INGEST,
            "readable rows",
            ("problems", "solutions", "tests", *LEDGER),
            ("ingest",),
        ),
        StageSpec(
            Stage.DEDUP,
            "no benchmark twin, usable statement",
            ("clusters", "statement_quality", *LEDGER),
            ("dedup",),
        ),
        StageSpec(
            Stage.CONTROLS,
            "correct and incorrect solutions",
            LEDGER,
            (),
        ),
        StageSpec(
            Stage.VALIDATE,
            "still both after re-execution",
            ("executions", *LEDGER),
            ("execution",),
            executes=True,
        ),
        StageSpec(
            Stage.SYNTHESIZE_CORRECTNESS,
            "correctness tests made",
            ("tests", "consensus", "generator_attempts", "generation_usage", *LEDGER),
            ("execution", "synthesis"),
            executes=True,
        ),
        StageSpec(
            Stage.FILTER_CORRECTNESS,
            "correctness gates",
            ("executions", "problem_metrics", *LEDGER),
            ("execution", "filter_correctness"),
            executes=True,
        ),
        StageSpec(
            Stage.SYNTHESIZE_OPTIMIZATION,
            "optimization tests made",
            ("tests", "consensus", "generator_attempts", "generation_usage", *LEDGER),
            ("execution", "synthesis"),
            executes=True,
        ),
        StageSpec(
            Stage.FILTER_OPTIMIZATION,
            "optimization gates",
            ("executions", "problem_metrics", *LEDGER),
            ("execution", "filter_optimization"),
            executes=True,
        ),
        StageSpec(
            Stage.COMPLETE,
            "both kinds of generated tests: cleaned corpus",
            LEDGER,
            (),
        ),
        StageSpec(
            Stage.FILTERABILITY,
            "duration filterable: RL pool",
            ("filterability", *LEDGER),
            ("filterability", "execution"),
        ),
        StageSpec(
            Stage.SPLIT,
            "train and test",
            ("splits", *LEDGER),
            ("split",),
        ),
        StageSpec(
            Stage.DATASETS,
            "reference durations, published configurations",
            ("reference_durations", *LEDGER),
            (),
        ),
    )
}
