"""The arithmetic of `dmc-optim plan`: what a build would run at most, and what it is expected to run.

Upper bounds follow from the rules alone (sums over problems of solutions × tests). An expected figure is the bound
of this source times the share of its own bound that a finished build did, part by part. For that build's source the
two bounds are the same and the prediction is what the build did; elsewhere it is an estimate.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from dmc_optim.config import BuildConfig
from schemas.enums import Campaign, Stage
from transforms.generator_run import schedule


class Work(StrEnum):
    """What a stage runs."""

    CORRECT = "correct solutions"
    CONTROLS = "negative controls"
    GENERATORS = "generator calls"
    CONSENSUS = "consensus runs"
    VERIFICATION = "verification runs"
    ADAPTIVE = "controls between attempts"


Part = tuple[Stage, Work]
SYNTHESIS = (Stage.SYNTHESIZE_CORRECTNESS, Stage.SYNTHESIZE_OPTIMIZATION)
FILTERS = (Stage.FILTER_CORRECTNESS, Stage.FILTER_OPTIMIZATION)
EXECUTING = (Stage.VALIDATE, SYNTHESIS[0], FILTERS[0], SYNTHESIS[1], FILTERS[1])
LABELS = (Work.CORRECT, Work.CONTROLS)


@dataclass(frozen=True)
class ProblemCounts:
    """One problem: solutions of the configured languages by label, distinct original tests and their characters.

    Solutions may be fractions, where a share of the source's is known to be duplicates.
    """

    correct: float
    incorrect: float
    tests: int
    test_chars: int = 0
    uses_files: bool = False

    @property
    def candidate(self) -> bool:
        """Whether the rules of the first stages keep it, as far as counts tell."""
        return not self.uses_files and min(self.correct, self.incorrect, self.tests) > 0

    def limited(self, most: int | None, distinct: tuple[float, float] = (1.0, 1.0)) -> "ProblemCounts":
        """Under `--limit-solutions`, and with the shares of distinct code (correct, incorrect)."""
        own = (self.correct * distinct[0], self.incorrect * distinct[1])
        correct, incorrect = own if most is None else (min(own[0], most), min(own[1], most))
        return ProblemCounts(correct, incorrect, self.tests, self.test_chars, self.uses_files)


@dataclass(frozen=True)
class Totals:
    """parts: executions, and attempts of one campaign, over the candidate problems; the rest over all problems."""

    problems: int = 0
    candidates: int = 0
    attempts: float = 0
    parts: Mapping[Part, float] = field(default_factory=dict)
    solutions: float = 0
    tests: int = 0
    test_chars: int = 0


def upper_bound(problems: Iterable[ProblemCounts], config: BuildConfig) -> Totals:
    """Executions at most, infrastructure retries and repetitions apart.

    Every solution on every original test; every attempt answered and accepted, 15 distinct new tests each; nobody
    dropped before the last stage; no control that ends early. Attempts with fewer solutions than must agree run
    nothing (paper Table 11, step 5).
    """
    execution, synthesis = config.execution, config.synthesis
    attempts = synthesis.attempts + synthesis.adaptive_attempts
    parts: defaultdict[Part, float] = defaultdict(float)
    found = list(problems)
    candidates = [p for p in found if p.candidate]
    for problem in candidates:
        parts[Stage.VALIDATE, Work.CORRECT] += problem.correct * problem.tests
        parts[Stage.VALIDATE, Work.CONTROLS] += problem.incorrect * problem.tests
        if math.ceil(problem.correct) < synthesis.min_agreeing:  # a fraction is a share of duplicates, no program
            continue
        for synthesize, judge, campaign in zip(
            SYNTHESIS, FILTERS, (Campaign.CORRECTNESS, Campaign.OPTIMIZATION), strict=True
        ):
            new = attempts * len(schedule(campaign, synthesis.calls_per_method))
            first = campaign is Campaign.CORRECTNESS
            parts[synthesize, Work.GENERATORS] += new
            parts[synthesize, Work.CONSENSUS] += new * min(problem.correct, synthesis.verification_pool)
            parts[synthesize, Work.VERIFICATION] += new
            if first and synthesis.adaptive_attempts:
                parts[synthesize, Work.ADAPTIVE] += new * problem.incorrect
            parts[judge, Work.CORRECT] += new * problem.correct
            if first or execution.exhaustive_controls:
                parts[judge, Work.CONTROLS] += new * problem.incorrect
    return Totals(
        problems=len(found),
        candidates=len(candidates),
        attempts=len(candidates) * attempts,
        parts=dict(parts),
        solutions=sum(p.correct + p.incorrect for p in found),
        tests=sum(p.tests for p in found),
        test_chars=sum(p.test_chars for p in found),
    )


@dataclass(frozen=True)
class StageMeasure:
    """One executing stage of a finished build. slots_recorded: else slots is the least that its rows allow."""

    problems: int
    seconds: float
    slots: int
    slots_recorded: bool = True


@dataclass(frozen=True)
class TableMeasure:
    """A table on disk. overhead_bytes: footers and page indexes, which go with files and not with rows."""

    rows: int
    data_bytes: int
    files: int
    overhead_bytes: int


@dataclass(frozen=True)
class Measured:
    """What a finished build did. bound: of its own source, from its tables; parts and attempts: what it ran.

    cpu_s: program time by part, where stored rows say it. distinct: shares of the listed solutions that are not
    duplicates (correct, incorrect). new_tests: generated tests kept, and new_test_chars their characters.
    other_seconds: of the stages that execute nothing. fake: its times measure no program.
    """

    config: BuildConfig
    bound: Totals
    parts: Mapping[Part, float]
    attempts: Mapping[Stage, int]
    accepted: Mapping[Stage, int]
    cpu_s: Mapping[Part, float]
    stages: Mapping[Stage, StageMeasure]
    tables: Mapping[str, TableMeasure]
    rows: int
    shards: int
    distinct: tuple[float, float] = (1.0, 1.0)
    distinct_known: bool = True
    new_tests: Mapping[Stage, int] = field(default_factory=dict)
    new_test_chars: int = 0
    other_language: int = 0
    dataset_bytes: int = 0
    other_seconds: float = 0.0
    fake: bool = False

    def answered(self, stage: Stage) -> float | None:
        """Share of a synthesis stage's prompts that had an answer; None where no problem got there."""
        synthesis = self.config.synthesis
        prompts = self.stages[stage].problems * (synthesis.attempts + synthesis.adaptive_attempts)
        return self.attempts[stage] / prompts if prompts else None


@dataclass(frozen=True)
class PartPlan:
    """Executions of one kind. seconds: slot time each, of it cpu_s in the program; None where nothing measures it."""

    stage: Stage
    work: Work
    at_most: float
    expected: float | None = None
    cpu_s: float | None = None
    seconds: float | None = None

    @property
    def core_seconds(self) -> float | None:
        """Slot time of all of them: a slot is a core that programs have to themselves."""
        if self.expected is None or (self.expected and self.seconds is None):
            return None
        return self.expected * (self.seconds or 0.0)


def plan_parts(
    bound: Totals, config: BuildConfig, likely: Totals, like: Measured | None, *, all_attempts: bool = False
) -> list[PartPlan]:
    """All parts in the order of the stages. likely: the bound without the duplicates that `like` leads one to expect.

    all_attempts: every prompt gets an answer, whatever share of them had one in that build.
    """
    plans = []
    for (stage, work), at_most in sorted(bound.parts.items(), key=lambda item: EXECUTING.index(item[0][0])):
        if like is None:
            plans.append(PartPlan(stage, work, at_most))
            continue
        share = _share(stage, work, config, like)
        if share is not None and all_attempts:
            share *= more_answers(stage, like)
        expected = None if share is None else min(likely.parts.get((stage, work), 0.0) * share, at_most)
        cpu_s, seconds = seconds_each(stage, work, config, like)
        plans.append(PartPlan(stage, work, at_most, expected, cpu_s, seconds))
    return plans


def _share(stage: Stage, work: Work, config: BuildConfig, like: Measured) -> float | None:
    """What the build did of its own bound; None where its source had nothing of the kind."""
    exhaustive = config.execution.exhaustive_controls and not like.config.execution.exhaustive_controls
    if work is Work.CONTROLS and exhaustive:
        work = Work.CORRECT  # nothing ends early: as many of them as of those that always run to the end
    of = like.bound.parts.get((stage, work), 0.0)
    return like.parts.get((stage, work), 0.0) / of if of else None


def more_answers(stage: Stage, like: Measured) -> float:
    """Attempts with all prompts answered, per attempt that had an answer in the build; 1 for stages before them."""
    if stage is Stage.VALIDATE:
        return 1.0
    answered = like.answered(SYNTHESIS[FILTERS.index(stage)] if stage in FILTERS else stage)
    return 1 / answered if answered else 1.0


def seconds_each(stage: Stage, work: Work, config: BuildConfig, like: Measured) -> tuple[float | None, float | None]:
    """(program's CPU seconds, slot seconds) of one execution.

    Slot seconds of a stage: its time × its slots, interpreter starts, sandboxes, reading and waiting included; what
    is over the programs' CPU is spread evenly over its executions.
    """
    own = {key: n for key, n in like.parts.items() if key[0] is stage and n}
    total = sum(own.values())
    if like.fake or not total:
        return None, None
    repeated = config.execution.repetitions / like.config.execution.repetitions if stage not in SYNTHESIS else 1.0
    known = sum(like.cpu_s.get(key, 0.0) for key in own)
    measure = like.stages[stage]
    over = max(0.0, measure.seconds * measure.slots - known) / total
    if stage in SYNTHESIS:
        return None, over
    has_own = (stage, work) in own
    cpu_s = like.cpu_s.get((stage, work), 0.0) / own[stage, work] if has_own else known / total
    return cpu_s * repeated, (cpu_s + over) * repeated


def stage_problems(stage: Stage, bound: Totals, like: Measured) -> float | None:
    """Problems expected to enter a stage."""
    of = like.bound.candidates
    return bound.candidates * like.stages[stage].problems / of if of else None


def expected_attempts(stage: Stage, bound: Totals, like: Measured, *, all_attempts: bool = False) -> float | None:
    """Answered prompts that a synthesis stage is expected to have."""
    if not like.bound.attempts:
        return None
    attempts = bound.attempts * like.attempts[stage] / like.bound.attempts
    return attempts * (more_answers(stage, like) if all_attempts else 1.0)
