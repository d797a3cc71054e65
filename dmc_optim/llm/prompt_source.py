"""Where a campaign's prompts come from: the tables of a build, or a JSON-lines file of prompts.

Neither needs Beam or DuckDB, so that a machine with GPUs needs only this package, pyarrow and an HTTP client. The
file form is for a machine that does not even see the tables: one attempt a line with `problem_id` or `name`,
`campaign`, `attempt` and `messages`, or `statement` and `solution` instead of the messages.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dmc_optim.artifacts.layout import Layout
from dmc_optim.errors import ArtifactError, SourceError
from dmc_optim.llm.prompts import Messages, Prompt, build_prompt, choose_solution
from dmc_optim.llm.recorded import CAMPAIGNS, read_lines
from schemas.enums import Campaign, Entity, Label, Stage

POOL_OF = {Campaign.CORRECTNESS: Stage.VALIDATE, Campaign.OPTIMIZATION: Stage.FILTER_CORRECTNESS}
"""The stage whose survivors a campaign asks about (paper Table 12, column Pool)."""


def prompts_of_build(layout: Layout, campaign: Campaign, attempts: int | None = None) -> Iterator[Prompt]:
    """One prompt an attempt for every problem of the campaign's pool, exactly as `dmc-optim build` asks.

    attempts: per problem; default: what the build is configured for. Reads one shard at a time. Raises ArtifactError
    when the build has not come as far as the campaign's pool.
    """
    manifest = layout.manifest()
    pool = POOL_OF[campaign]
    if layout.read_json(layout.stage_file(pool)) is None:
        raise ArtifactError(
            f"{layout.out}: stage {pool} is not complete, so the {campaign} campaign has no problems yet;"
            f" run `dmc-optim build --through {pool}` first"
        )
    config = manifest["config"]
    wanted = config["synthesis"]["attempts"] if attempts is None else attempts
    for shard in range(manifest["shards"]):
        yield from prompts_of_shard(layout, shard, campaign, config["seed"], wanted)


def prompts_of_shard(layout: Layout, shard: int, campaign: Campaign, seed: int, attempts: int) -> Iterator[Prompt]:
    """Prompts of one shard: the statement and one seeded verified solution an attempt (paper B.4)."""
    order = [stage.value for stage in Stage]
    until = tuple(order[: order.index(POOL_OF[campaign]) + 1])
    dropped = {
        (row["entity"], row["problem_id"], row["entity_id"])
        for row in layout.rows("exclusions", stages=until, shard=shard, columns=["entity", "problem_id", "entity_id"])
    }
    codes: dict[str, dict[str, str]] = {}
    columns = ["problem_id", "solution_id", "label", "code"]
    for row in layout.rows("solutions", stages=until, shard=shard, columns=columns):
        key = (Entity.SOLUTION.value, row["problem_id"], row["solution_id"])
        if row["label"] == Label.CORRECT and key not in dropped:
            codes.setdefault(row["problem_id"], {})[row["solution_id"]] = row["code"]
    problems = layout.rows("problems", stages=until, shard=shard, columns=["problem_id", "name", "statement"])
    for problem in sorted(problems, key=lambda row: str(row["problem_id"])):
        problem_id = problem["problem_id"]
        verified = sorted(codes.get(problem_id, ()))
        if (Entity.PROBLEM.value, problem_id, problem_id) in dropped or not verified:
            continue
        for attempt in range(attempts):
            chosen = verified[choose_solution(seed, problem_id, campaign, attempt, verified)]
            messages = build_prompt(campaign, problem["statement"], codes[problem_id][chosen])
            yield Prompt(problem_id, problem["name"], campaign, messages, chosen, first_attempt=attempt)


def write_prompts(prompts: Iterator[Prompt], path: str | Path) -> int:
    """Write prompts as a JSON-lines file; how many."""
    count = 0
    try:
        with Path(path).open("w", encoding="utf-8") as file:
            for prompt in prompts:
                row = {
                    "problem_id": prompt.problem_id or None,
                    "name": prompt.name or None,
                    "campaign": prompt.campaign,
                    "attempt": prompt.first_attempt,
                    "prompt_solution_id": prompt.prompt_solution_id,
                    "template": prompt.messages.template,
                    "messages": list(prompt.messages.messages),
                }
                file.write(json.dumps(row) + "\n")
                count += 1
    except OSError as error:
        raise SourceError(f"{path}: cannot be written ({error.strerror}); choose another place") from error
    return count


def read_prompts(path: str | Path) -> Iterator[Prompt]:
    """Prompts of a JSON-lines file, one at a time. Raises SourceError with file, line and field."""
    for _, number, line in read_lines(str(path)):
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise SourceError(f"{path}:{number}: not a JSON object ({error})") from error
        yield _prompt_of_row(row, f"{path}:{number}")


def _prompt_of_row(row: Any, where: str) -> Prompt:
    if not isinstance(row, dict):
        raise SourceError(f"{where}: not a JSON object; write one object a line")
    problem_id, name = _text(row, "problem_id", where), _text(row, "name", where)
    if not problem_id and not name:
        raise SourceError(f"{where}: neither `problem_id` nor `name`; add one of them")
    campaign, attempt = row.get("campaign"), row.get("attempt", 0)
    if campaign not in CAMPAIGNS:
        raise SourceError(f"{where}: `campaign` is {campaign!r}; it must be correctness or optimization")
    if not isinstance(attempt, int) or isinstance(attempt, bool) or attempt < 0:
        raise SourceError(f"{where}: `attempt` is {attempt!r}; it must be an integer from 0")
    if row.get("messages") is not None:
        messages = _messages(row["messages"], _text(row, "template", where), where)
    else:
        statement, solution = _text(row, "statement", where), _text(row, "solution", where)
        if not statement or not solution:
            raise SourceError(f"{where}: give `messages`, or `statement` and `solution`")
        messages = build_prompt(campaign, statement, solution)
    return Prompt(problem_id, name, campaign, messages, _text(row, "prompt_solution_id", where), attempt)


def _text(row: dict[str, Any], field: str, where: str) -> str:
    value = row.get(field)
    if value is not None and not isinstance(value, str):
        raise SourceError(f"{where}: `{field}` is no string")
    return value or ""


def _messages(value: Any, template: str, where: str) -> Messages:
    fits = (
        isinstance(value, list)
        and value
        and all(
            isinstance(m, dict) and isinstance(m.get("role"), str) and isinstance(m.get("content"), str) for m in value
        )
    )
    if not fits:
        raise SourceError(f"{where}: `messages` must be a list of objects with `role` and `content`")
    return Messages(tuple({"role": m["role"], "content": m["content"]} for m in value), template)
