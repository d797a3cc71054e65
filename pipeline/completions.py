"""Live models before the stage that needs them: their answers become a recorded file, and the stage reads that.

So the acceptance loop has one path only, and a killed campaign asks again only for what is missing.
"""

from collections.abc import Callable, Iterator
from typing import Any

import apache_beam as beam

from dmc_optim.errors import ConfigError, GenerationError, SourceError
from dmc_optim.llm.adaptive import MeasuredInput, Spread, durations_part, shown_survivor, survivor_part
from dmc_optim.llm.backends import Sampling
from dmc_optim.llm.campaign import Price, run_campaign
from dmc_optim.llm.prompt_source import prompts_of_shard
from dmc_optim.llm.prompts import Part, Prompt, build_prompt, choose_solution
from dmc_optim.llm.recorded import RecordedCompletions
from dmc_optim.llm.spec import GeneratorSpec, make_backend
from schemas.enums import Campaign, Label
from transforms.adaptive import PlanAgain, plans
from transforms.context import StageContext
from transforms.dedup import store_verdicts
from transforms.survivors import survivors
from transforms.synthesize import CAMPAIGNS, RunAttempts


def completions_for(
    context: StageContext,
    generator: GeneratorSpec | None,
    say: Callable[[str], None],
    run_now: Callable[[beam.PTransform], None],
) -> RecordedCompletions | None:
    """A live model's answers for a synthesis stage: the campaign's file, after asking for what it lacks.

    With the adaptive option, the first attempts are run here (`run_now`), and what falls short is asked again.
    """
    if generator is None:
        return None
    recorded = _ask(context, generator, prompts(context, CAMPAIGNS[context.stage]), say)
    if context.config.synthesis.adaptive_attempts and recorded is not None:
        run_now(RunAttempts(context, recorded))
        run_now(PlanAgain(context))
        recorded = _ask(context, generator, prompts_again(context), say)
    return recorded


def _ask(
    context: StageContext, generator: GeneratorSpec, wanted: Iterator[Prompt], say: Callable[[str], None]
) -> RecordedCompletions | None:
    """The campaign's file when everything wanted is in it; None when not one prompt has an answer.

    Raises GenerationError while answers are missing that the model may still give. A request refused for good (a
    prompt beyond the context) stays without an answer.
    """
    settings = context.config.generation
    campaign = CAMPAIGNS[context.stage]
    path = _store(context, f"{campaign}.jsonl")
    report = run_campaign(
        wanted,
        make_backend(generator, timeout_s=settings.timeout_s),
        path,
        k=1,
        concurrency=settings.concurrency,
        sampling=Sampling(settings.temperature, settings.top_p, settings.max_tokens),
        seed=context.config.seed,
        price=Price(settings.price_prompt_usd, settings.price_completion_usd),
    )
    for line in report.lines():
        say(line)
    missing = report.failed - report.failures["rejected"]
    if missing:
        raise GenerationError(
            f"{missing} of {report.wanted} attempts have no answer yet, the others are kept; run the same command again"
            f" to ask for them, or --generator recorded:{path} to go on without them"
        )
    try:
        return RecordedCompletions.load(path)
    except SourceError:
        return None  # not one answer: every attempt is missing, and the stage says so


def _store(context: StageContext, name: str) -> str:
    """Where answers are appended: a local file, as no object store lets one append."""
    out = context.layout.out
    if "://" in out and not out.startswith("file://"):
        raise ConfigError(
            f"--out {out}: answers of a live model are appended to a local file; use `dmc-optim generate record"
            " --out FILE` and then --generator recorded:FILE, or build into a local directory"
        )
    return context.layout.path("completions", name)


def prompts(context: StageContext, campaign: Campaign) -> Iterator[Prompt]:
    """One prompt an attempt: the statement and one seeded verified solution (paper B.4)."""
    for shard in range(context.shards):
        attempts = context.config.synthesis.attempts
        yield from prompts_of_shard(context.layout, shard, campaign, context.config.seed, attempts)


def prompts_again(context: StageContext) -> Iterator[Prompt]:
    """The second round of the adaptive option: the same prompt with what was measured, a new solution each time."""
    campaign, seed, settings = CAMPAIGNS[context.stage], context.config.seed, context.config.synthesis
    for plan in plans(context):
        pid = plan["problem_id"]
        shard = context.shard_of(pid)
        selection: dict[str, Any] = {"stages": context.earlier, "shard": shard, "problem_id": pid}
        problem = context.layout.rows("problems", **selection)[0]
        codes = {row["solution_id"]: row["code"] for row in context.layout.rows("solutions", **selection)}
        verified = survivors(context, shard)[pid].solutions_of(Label.CORRECT)
        for extra in range(settings.adaptive_attempts):
            attempt = settings.attempts + extra
            chosen = verified[choose_solution(seed, pid, campaign, attempt, verified)]
            part = _part(context, plan, extra, codes)
            messages = build_prompt(campaign, problem["statement"], codes[chosen], [part])
            yield Prompt(pid, problem["name"], campaign, messages, chosen, first_attempt=attempt)


def _part(context: StageContext, plan: dict[str, Any], extra: int, codes: dict[str, str]) -> Part:
    """What a plan says in the prompt of one further attempt."""
    if "survivors" in plan:
        shown = shown_survivor(context.config.seed, plan["problem_id"], extra, plan["survivors"])
        return survivor_part(codes[shown])
    measured = [MeasuredInput(*row) for row in plan["measured"]]
    wanted = context.config.filterability
    return durations_part(measured, Spread(**plan["spread"]), wanted.robust_cv, wanted.min_iqr_s)


def judge_for(context: StageContext, judge: GeneratorSpec | None, say: Callable[[str], None]) -> bool:
    """Store a model's verdict on every statement; False when no model is configured."""
    if judge is None:
        return False
    from dmc_optim.llm.quality import judge_statements

    rows = context.layout.rows("problems", stages=context.earlier, columns=["problem_id", "statement"])
    statements = {row["problem_id"]: row["statement"] for row in rows}
    path = _store(context, "statement_quality.jsonl")
    settings = context.config.generation
    backend = make_backend(judge, timeout_s=settings.timeout_s)
    verdicts, lines = judge_statements(statements, backend, path, concurrency=settings.concurrency)
    for line in lines:
        say(line)
    store_verdicts(context, verdicts)
    return True
