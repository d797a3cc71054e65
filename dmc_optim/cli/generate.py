"""`dmc-optim generate`: ask a language model for input generators, and report what it gave."""

import json
import sys
import time
from collections.abc import Iterator
from itertools import groupby, islice
from pathlib import Path
from typing import Any

import click

from dmc_optim.errors import ConfigError


@click.group()
def generate() -> None:
    """Ask a language model for input generators; report what a build's attempts gave.

    \b
    Examples:
      dmc-optim generate record out --campaign correctness --generator openai:http://gpu:8000#qwen
      dmc-optim generate report out
    """


@generate.command()
@click.argument("source", metavar="DIR|PROMPTS.jsonl")
@click.option("--campaign", type=click.Choice(["correctness", "optimization"]), help="Which campaign (with a DIR).")
@click.option(
    "--generator", required=True, metavar="SPEC", help="openai:URL[,URL…]#MODEL, vllm:MODEL or recorded:FILE."
)
@click.option("--out", metavar="FILE", help="Recorded file to append to; default: DIR/completions/CAMPAIGN.jsonl.")
@click.option("--attempts", type=click.IntRange(min=1), help="Attempts a problem (with a DIR); default: the build's.")
@click.option("--limit-problems", type=click.IntRange(min=1), metavar="N", help="Only the first N problems.")
@click.option("--concurrency", type=click.IntRange(min=1), default=64, show_default=True, help="Requests in flight.")
@click.option("--temperature", type=click.FloatRange(min=0), default=1.0, show_default=True, help="Sampling.")
@click.option(
    "--top-p", type=click.FloatRange(min=0, max=1, min_open=True), default=1.0, show_default=True, help="Nucleus."
)
@click.option("--max-tokens", type=click.IntRange(min=1), default=4096, show_default=True, help="Of one answer.")
@click.option("--extra", metavar="JSON", help="More fields of the request, e.g. a chat template's arguments.")
@click.option("--engine-args", metavar="JSON", help="Arguments of vllm.LLM (with vllm:MODEL).")
@click.option("--revision", default="", help="Revision of the weights; part of the cache key.")
@click.option("--seed", type=int, help="Base seed; default: the build's, or 0.")
@click.option("--tries", type=click.IntRange(min=1), default=6, show_default=True, help="Of one request in this run.")
@click.option(
    "--timeout-s", type=click.FloatRange(min=0, min_open=True), default=600.0, show_default=True, help="Of one try."
)
@click.option("--price-prompt", type=click.FloatRange(min=0), default=0.0, help="USD a million tokens read.")
@click.option("--price-completion", type=click.FloatRange(min=0), default=0.0, help="USD a million tokens written.")
@click.option("--json", "as_json", is_flag=True, help="Print the run's figures as JSON.")
def record(**options: Any) -> None:
    """Run a campaign's prompts and write a file for `build --generator recorded:FILE`.

    SOURCE is a build's directory (its tables are read with pyarrow; Beam and DuckDB are not needed) or a file made by
    `generate prompts`. Answers are appended as they arrive: the same command goes on where it stopped and asks again
    for what failed. Exit 1 when some attempts are still without an answer.

    \b
    Examples:
      dmc-optim build --source dmc.parquet --through validate --out out
      dmc-optim generate record out --campaign correctness --generator openai:http://a:8000,http://b:8000#qwen
      dmc-optim build --source dmc.parquet --generator recorded:out/completions/correctness.jsonl --out out
    """
    from dmc_optim.llm.backends import Sampling
    from dmc_optim.llm.campaign import Price, RetryPolicy, run_campaign
    from dmc_optim.llm.spec import VllmSpec, make_backend, parse_generator_spec

    spec = parse_generator_spec(options["generator"])
    prompts, out, seed = _source(options)
    extra, engine = _object(options["extra"], "--extra"), _object(options["engine_args"], "--engine-args")
    if engine and not isinstance(spec, VllmSpec):
        raise ConfigError("--engine-args: only with --generator vllm:MODEL")
    report = run_campaign(
        prompts,
        make_backend(spec, options["revision"], timeout_s=options["timeout_s"], engine_args=engine),
        out,
        k=1,
        concurrency=options["concurrency"],
        sampling=Sampling(options["temperature"], options["top_p"], options["max_tokens"], extra),
        seed=seed if options["seed"] is None else options["seed"],
        retry=RetryPolicy(tries=options["tries"]),
        price=Price(options["price_prompt"], options["price_completion"]),
        on_answer=None if options["as_json"] else _Ticker(),
    )
    if options["as_json"]:
        click.echo(json.dumps(report.to_dict() | {"file": out}, indent=1))
    else:
        for line in report.lines():
            click.echo(line)
        click.echo(f"Next: dmc-optim build … --generator recorded:{out}")
    if report.failed:
        sys.exit(1)


@generate.command()
@click.argument("directory", metavar="DIR")
@click.option("--campaign", type=click.Choice(["correctness", "optimization"]), required=True, help="Which campaign.")
@click.option("--out", required=True, metavar="FILE", help="JSON-lines file to write.")
@click.option("--attempts", type=click.IntRange(min=1), help="Attempts a problem; default: the build's.")
@click.option("--limit-problems", type=click.IntRange(min=1), metavar="N", help="Only the first N problems.")
def prompts(directory: str, campaign: str, out: str, attempts: int | None, limit_problems: int | None) -> None:
    """Write a campaign's prompts to a file, for a machine that does not see the build.

    \b
    Example:
      dmc-optim generate prompts out --campaign optimization --out prompts.jsonl
      dmc-optim generate record prompts.jsonl --generator vllm:MODEL --out optimization.jsonl
    """
    from dmc_optim.artifacts.layout import Layout
    from dmc_optim.llm.prompt_source import prompts_of_build, write_prompts
    from schemas.enums import Campaign

    found = _first_problems(prompts_of_build(Layout(directory), Campaign(campaign), attempts), limit_problems)
    click.echo(f"{write_prompts(found, out)} prompts in {out}")


@generate.command()
@click.argument("directory", metavar="DIR")
@click.option(
    "--problems", type=click.IntRange(min=0), default=20, show_default=True, help="Problems shown, worst first."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON, all problems in it.")
def report(directory: str, problems: int, as_json: bool) -> None:
    """What a build's generator attempts gave (paper Tables 11 and 12), and why the others gave nothing.

    \b
    Example:
      dmc-optim generate report out
    """
    from dmc_optim.llm.generation_report import generation_report, report_text

    found = generation_report(directory)
    click.echo(json.dumps(found, indent=1) if as_json else report_text(found, problems))


def _source(options: dict[str, Any]) -> tuple[Iterator[Any], str, int]:
    """Prompts, file to write, base seed."""
    from dmc_optim.artifacts.layout import Layout
    from dmc_optim.llm.prompt_source import prompts_of_build, read_prompts
    from schemas.enums import Campaign

    source, out, limit = options["source"], options["out"], options["limit_problems"]
    if "://" not in source and Path(source).is_file():
        for name in ("campaign", "attempts"):
            if options[name] is not None:
                raise ConfigError(f"--{name}: the rows of {source} say it; use it with a build's directory")
        if out is None:
            raise ConfigError("--out: say which file to append the answers to")
        return _first_problems(read_prompts(source), limit), out, 0
    if out is None and "://" in source:
        raise ConfigError("--out: answers are appended to a local file; say which")
    layout = Layout(source)
    manifest = layout.manifest()
    if options["campaign"] is None:
        raise ConfigError("--campaign: say correctness or optimization")
    campaign = Campaign(options["campaign"])
    found = prompts_of_build(layout, campaign, options["attempts"])
    return (
        _first_problems(found, limit),
        out or layout.path("completions", f"{campaign}.jsonl"),
        manifest["config"]["seed"],
    )


def _first_problems(found: Iterator[Any], limit: int | None) -> Iterator[Any]:
    """Prompts of the first problems, which lie together."""
    for _, group in islice(groupby(found, key=lambda prompt: (prompt.problem_id, prompt.name)), limit):
        yield from group


def _object(text: str | None, option: str) -> dict[str, Any]:
    try:
        value = json.loads(text) if text else {}
    except ValueError as error:
        raise ConfigError(f"{option}: not JSON ({error})") from error
    if not isinstance(value, dict):
        raise ConfigError(f"{option}: must be a JSON object")
    return value


class _Ticker:
    """A line on stderr every few seconds while answers come."""

    def __init__(self, interval_s: float = 10.0) -> None:
        self._interval_s, self._next = interval_s, time.monotonic() + interval_s

    def __call__(self, so_far: Any) -> None:
        now = time.monotonic()
        if now >= self._next:
            self._next = now + self._interval_s
            click.echo(f"{so_far.answered} answered, {so_far.failed} failed, {so_far.already} were there", err=True)
