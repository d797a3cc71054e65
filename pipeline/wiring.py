"""Which transform does a stage, and what it gets from outside the output directory."""

from collections.abc import Callable
from dataclasses import dataclass, field

import apache_beam as beam

from dmc_optim.artifacts.source import SourceRange
from dmc_optim.llm.recorded import RecordedCompletions
from schemas.enums import Stage
from transforms import complete, controls, filterability
from transforms.context import StageContext
from transforms.datasets import Datasets
from transforms.dedup import DecideStatement, Dedup
from transforms.filter_round import FilterRound
from transforms.ingest import Ingest
from transforms.split import SplitPool
from transforms.stage import DecideStage
from transforms.synthesize import Synthesize
from transforms.validate import Validate


@dataclass(frozen=True)
class StageInputs:
    """What comes from outside the output directory: source rows, benchmarks, completions.

    judged: whether a model's verdicts on the statements are stored (`transforms.dedup.store_verdicts`).
    """

    ranges: list[SourceRange] = field(default_factory=list)
    benchmarks: tuple[str, ...] = ()
    completions: RecordedCompletions | None = None
    judged: bool = False


Wire = Callable[[StageContext, StageInputs], beam.PTransform]

WIRING: dict[Stage, Wire] = {
    Stage.INGEST: lambda context, inputs: Ingest(context, inputs.ranges),
    Stage.DEDUP: lambda context, inputs: Dedup(context, DecideStatement(inputs.benchmarks, inputs.judged)),
    Stage.CONTROLS: lambda context, inputs: DecideStage(context, controls.decide),
    Stage.VALIDATE: lambda context, inputs: Validate(context),
    Stage.SYNTHESIZE_CORRECTNESS: lambda context, inputs: Synthesize(context, inputs.completions),
    Stage.FILTER_CORRECTNESS: lambda context, inputs: FilterRound(context),
    Stage.SYNTHESIZE_OPTIMIZATION: lambda context, inputs: Synthesize(context, inputs.completions),
    Stage.FILTER_OPTIMIZATION: lambda context, inputs: FilterRound(context),
    Stage.COMPLETE: lambda context, inputs: DecideStage(context, complete.decide),
    Stage.FILTERABILITY: lambda context, inputs: DecideStage(context, filterability.decide),
    Stage.SPLIT: lambda context, inputs: SplitPool(context),
    Stage.DATASETS: lambda context, inputs: Datasets(context),
}
