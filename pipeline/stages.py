"""The table of stages: what each reads, writes, depends on, and the transform that does it.

It drives the build, `status`, the funnel and the docs. `version` goes up when a rule changes its results.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import apache_beam as beam

from dmc_optim.artifacts.source import SourceRange
from dmc_optim.llm.recorded import RecordedCompletions
from schemas.enums import Stage
from transforms import complete, controls, filterability
from transforms.context import StageContext
from transforms.datasets import Datasets, stored_memberships
from transforms.dedup import DecideStatement, Dedup
from transforms.filter_round import FilterRound
from transforms.ingest import Ingest
from transforms.split import SplitPool
from transforms.stage import DecideStage
from transforms.synthesize import Synthesize
from transforms.validate import Validate


@dataclass(frozen=True)
class StageInputs:
    """What comes from outside the output directory: source rows, benchmarks, completions, statement verdicts."""

    ranges: list[SourceRange] = field(default_factory=list)
    benchmarks: tuple[str, ...] = ()
    completions: RecordedCompletions | None = None
    verdicts: dict[str, dict[str, Any]] | None = None


@dataclass(frozen=True)
class StageSpec:
    """One stage. config: fields of BuildConfig that decide its content. executes: it runs programs."""

    stage: Stage
    title: str
    writes: tuple[str, ...]
    config: tuple[str, ...]
    transform: Callable[[StageContext, StageInputs], beam.PTransform]
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
            lambda context, inputs: Ingest(context, inputs.ranges),
        ),
        StageSpec(
            Stage.DEDUP,
            "no benchmark twin, usable statement",
            ("clusters", "statement_quality", *LEDGER),
            ("dedup",),
            lambda context, inputs: Dedup(context, DecideStatement(inputs.benchmarks, inputs.verdicts)),
        ),
        StageSpec(
            Stage.CONTROLS,
            "correct and incorrect solutions",
            LEDGER,
            (),
            lambda context, inputs: DecideStage(context, controls.decide),
        ),
        StageSpec(
            Stage.VALIDATE,
            "still both after re-execution",
            ("executions", *LEDGER),
            ("execution",),
            lambda context, inputs: Validate(context),
            executes=True,
        ),
        StageSpec(
            Stage.SYNTHESIZE_CORRECTNESS,
            "correctness tests made",
            ("tests", "consensus", "generator_attempts", "generation_usage", *LEDGER),
            ("execution", "synthesis"),
            lambda context, inputs: Synthesize(context, inputs.completions),
            executes=True,
        ),
        StageSpec(
            Stage.FILTER_CORRECTNESS,
            "correctness gates",
            ("executions", "problem_metrics", *LEDGER),
            ("execution", "filter_correctness"),
            lambda context, inputs: FilterRound(context),
            executes=True,
        ),
        StageSpec(
            Stage.SYNTHESIZE_OPTIMIZATION,
            "optimization tests made",
            ("tests", "consensus", "generator_attempts", "generation_usage", *LEDGER),
            ("execution", "synthesis"),
            lambda context, inputs: Synthesize(context, inputs.completions),
            executes=True,
        ),
        StageSpec(
            Stage.FILTER_OPTIMIZATION,
            "optimization gates",
            ("executions", "problem_metrics", *LEDGER),
            ("execution", "filter_optimization"),
            lambda context, inputs: FilterRound(context),
            executes=True,
        ),
        StageSpec(
            Stage.COMPLETE,
            "both kinds of generated tests: cleaned corpus",
            LEDGER,
            (),
            lambda context, inputs: DecideStage(context, complete.decide),
        ),
        StageSpec(
            Stage.FILTERABILITY,
            "duration filterable: RL pool",
            ("filterability", *LEDGER),
            ("filterability", "execution"),
            lambda context, inputs: DecideStage(context, filterability.decide),
        ),
        StageSpec(
            Stage.SPLIT,
            "train and test",
            ("splits", *LEDGER),
            ("split",),
            lambda context, inputs: SplitPool(context),
        ),
        StageSpec(
            Stage.DATASETS,
            "reference durations, published configurations",
            ("reference_durations", *LEDGER),
            (),
            lambda context, inputs: Datasets(context, stored_memberships(context)),
        ),
    )
}
