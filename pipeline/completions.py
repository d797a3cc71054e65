"""Live models before the stage that needs them: their answers become a recorded file, and the stage reads that.

So the acceptance loop has one path only, and a killed campaign asks again only for what is missing.
"""

from collections.abc import Callable, Iterator
from typing import Any

from dmc_optim.errors import SourceError
from dmc_optim.llm.campaign import CampaignReport, run_campaign
from dmc_optim.llm.prompts import Prompt, build_prompt, choose_solution
from dmc_optim.llm.recorded import RecordedCompletions
from dmc_optim.llm.spec import GeneratorSpec, RecordedSpec, make_backend
from schemas.enums import Campaign, Label
from transforms.context import StageContext
from transforms.survivors import survivors
from transforms.synthesize import CAMPAIGNS


def completions_for(
    context: StageContext, generator: GeneratorSpec | None, say: Callable[[str], None]
) -> RecordedCompletions | None:
    """Answers for a synthesis stage: the recorded file, or the campaign's file after asking for what it lacks."""
    if generator is None:
        return None
    if isinstance(generator, RecordedSpec):
        return RecordedCompletions.load(generator.path)
    campaign = CAMPAIGNS[context.stage]
    path = context.layout.path("completions", f"{campaign}.jsonl")
    context.layout.fs.makedirs(context.layout.path("completions"), exist_ok=True)
    report: CampaignReport = run_campaign(
        prompts(context, campaign), make_backend(generator), path, k=1, seed=context.config.seed
    )
    for line in report.lines():
        say(line)
    try:
        return RecordedCompletions.load(path)
    except SourceError:
        return None  # not one answer: every attempt is missing, and the stage says so


def prompts(context: StageContext, campaign: Campaign) -> Iterator[Prompt]:
    """One prompt an attempt: the statement and one seeded verified solution (paper B.4)."""
    for shard in range(context.shards):
        for state in survivors(context, shard).values():
            pid = state.problem_id
            selection: dict[str, Any] = {"stages": context.earlier, "shard": shard, "problem_id": pid}
            problem = context.layout.rows("problems", **selection)[0]
            codes = {row["solution_id"]: row["code"] for row in context.layout.rows("solutions", **selection)}
            verified = state.solutions_of(Label.CORRECT)
            for attempt in range(context.config.synthesis.attempts):
                chosen = verified[choose_solution(context.config.seed, pid, campaign, attempt, verified)]
                messages = build_prompt(campaign, problem["statement"], codes[chosen])
                yield Prompt(pid, problem["name"], campaign, messages, chosen, first_attempt=attempt)


def verdicts_for(
    context: StageContext, judge: GeneratorSpec | None, say: Callable[[str], None]
) -> dict[str, dict[str, Any]] | None:
    """A model's verdict on every statement, by problem; None when no model is configured."""
    if judge is None:
        return None
    from dmc_optim.llm.quality import judge_statements

    rows = context.layout.rows("problems", stages=context.earlier, columns=["problem_id", "statement"])
    statements = {row["problem_id"]: row["statement"] for row in rows}
    path = context.layout.path("completions", "statement_quality.jsonl")
    context.layout.fs.makedirs(context.layout.path("completions"), exist_ok=True)
    verdicts, lines = judge_statements(statements, make_backend(judge), path)
    for line in lines:
        say(line)
    return verdicts
