"""Prompts as files: each has a version, and each prompt built from one carries the digest of what was sent.

A prompt file is Markdown with `version:` in its header and `$name` placeholders. `correctness` and `optimization`
ask for an input generator (paper Figure 14), `quality` for a verdict on a statement (paper B.2); `contract`,
`durations` and `survivor` are parts of the first two. Changing the words of a file means raising its version.
"""

import hashlib
import json
import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from string import Template

from dmc_optim.errors import ConfigError
from schemas.enums import Campaign

MAX_INPUT = "2 MB"
_HEADER = re.compile(r"---\nversion: (\d+)\n---\n")
_ROLE = re.compile(r"^# (system|user)\n", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Messages:
    """What is sent to the model: messages of a chat, and where they come from.

    template: name and version of every prompt file used, e.g. `correctness@1+contract@1`.
    """

    messages: tuple[dict[str, str], ...]
    template: str

    @property
    def digest(self) -> str:
        """First 16 hex digits of the SHA-256 of the messages."""
        return hashlib.sha256(json.dumps(self.messages).encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class Prompt:
    """One problem's prompt in a campaign. Sample i of it is attempt first_attempt + i.

    campaign: correctness or optimization; None for a prompt that asks for no generator.
    """

    problem_id: str
    name: str
    campaign: str | None
    messages: Messages
    prompt_solution_id: str = ""
    first_attempt: int = 0


@dataclass(frozen=True, slots=True)
class Part:
    """Text added to a generator prompt, and the prompt file it comes from."""

    text: str
    template: str


def template_digest(name: str) -> tuple[int, str]:
    """Version and first 16 hex digits of the SHA-256 of a prompt file."""
    version, _, digest = _load(name)
    return version, digest


@cache
def _load(name: str) -> tuple[int, str, str]:
    """(version, text without the header, digest) of a prompt file."""
    text = files(__name__).joinpath(f"{name}.md").read_text(encoding="utf-8")
    header = _HEADER.match(text)
    if header is None:
        raise ConfigError(f"prompt file {name}.md: begins without `version: N` between two lines of ---")
    return int(header.group(1)), text[header.end() :], hashlib.sha256(text.encode()).hexdigest()[:16]


def build_prompt(campaign: str, statement: str, solution: str, additions: Sequence[Part] = ()) -> Messages:
    """The messages that ask for an `InputGenerator` (paper B.4, Figure 14).

    campaign: correctness or optimization. statement: the full problem statement. solution: code of one verified
    solution. additions: parts made by `durations_part` and `survivor_part`. Raises ConfigError for another campaign.
    """
    if campaign not in (Campaign.CORRECTNESS, Campaign.OPTIMIZATION):
        raise ConfigError(f"no generator prompt for campaign {campaign!r}; known: correctness, optimization")
    contract = Template(_load("contract")[1]).substitute(max_input=MAX_INPUT)
    values = {
        "contract": contract,
        "statement": statement.strip(),
        "solution": fenced(solution, "python"),
        "additions": "\n".join(part.text for part in additions),
    }
    return _fill(campaign, values, ("contract", *(part.template for part in additions)))


def build_quality_prompt(statement: str) -> Messages:
    """The messages that ask for a verdict on a statement."""
    longest = max((len(run) for run in re.findall(r"=+", statement)), default=0)
    return _fill("quality", {"statement": statement.strip(), "rule": "=" * max(20, longest + 1)}, ())


def build_part(name: str, **values: str) -> Part:
    """Fill one of the partial prompt files (`durations`, `survivor`)."""
    return Part(Template(_load(name)[1]).substitute(values).rstrip() + "\n", name)


def fenced(code: str, language: str) -> str:
    """Code in a fence longer than any run of backticks inside it."""
    longest = max((len(run) for run in re.findall(r"`+", code)), default=0)
    fence = "`" * max(3, longest + 1)
    body = code.strip("\n")
    return f"{fence}{language}\n{body}\n{fence}"


def choose_solution(seed: int, problem_id: str, campaign: str, attempt: int, solutions: Sequence[str]) -> int:
    """Index of the verified solution shown in the prompt of an attempt: seeded, the same on every run."""
    return random.Random(f"{seed}/{problem_id}/{campaign}/{attempt}/prompt").randrange(len(solutions))


def _fill(name: str, values: dict[str, str], parts: Sequence[str]) -> Messages:
    version, text, _ = _load(name)
    pieces = _ROLE.split(text)[1:]
    messages = tuple(
        {"role": role, "content": Template(body).substitute(values).strip() + "\n"}
        for role, body in zip(pieces[::2], pieces[1::2], strict=True)
    )
    used = [f"{name}@{version}", *(f"{part}@{_load(part)[0]}" for part in parts)]
    return Messages(messages, "+".join(used))
