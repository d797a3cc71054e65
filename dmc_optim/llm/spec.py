"""The `--generator` argument: which model answers.

recorded:FILE.jsonl          answers recorded earlier
openai:URL[,URL…]#MODEL      OpenAI-compatible servers of one model
vllm:MODEL                   `vllm.LLM` in this process
"""

import asyncio
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

from dmc_optim.errors import ConfigError
from dmc_optim.llm.backends import Backend
from dmc_optim.llm.backends.inprocess import NO_VLLM, InProcessBackend
from dmc_optim.llm.backends.openai import OpenAIBackend, base_url
from dmc_optim.llm.backends.replay import ReplayBackend
from dmc_optim.llm.recorded import RecordedCompletions

FORMS = "recorded:FILE.jsonl, openai:URL#MODEL or vllm:MODEL"


@dataclass(frozen=True, slots=True)
class RecordedSpec:
    """Answers in a file."""

    path: str


@dataclass(frozen=True, slots=True)
class OpenAISpec:
    """Servers of one model."""

    urls: tuple[str, ...]
    model: str


@dataclass(frozen=True, slots=True)
class VllmSpec:
    """A model loaded here."""

    model: str


GeneratorSpec = RecordedSpec | OpenAISpec | VllmSpec


def parse_generator_spec(text: str) -> GeneratorSpec:
    """Read a `--generator` argument. Raises ConfigError that says what is missing; touches no file or network."""
    kind, colon, rest = text.partition(":")
    if not colon or kind not in ("recorded", "openai", "vllm"):
        raise ConfigError(f"--generator {text!r}: not one of {FORMS}")
    if not rest.strip():
        raise ConfigError(f"--generator {text!r}: nothing after {kind!r}; write {FORMS}")
    if kind == "recorded":
        return RecordedSpec(rest)
    if kind == "vllm":
        return VllmSpec(rest)
    addresses, _, model = rest.partition("#")
    if not model:
        raise ConfigError(f"--generator {text!r}: no model name; write openai:{addresses}#MODEL")
    return OpenAISpec(tuple(base_url(address.strip()) for address in addresses.split(",")), model)


def make_backend(
    spec: GeneratorSpec, revision: str = "", *, timeout_s: float = 600.0, engine_args: dict[str, Any] | None = None
) -> Backend:
    """The backend of a specification, not yet opened.

    timeout_s bounds one answer of a server; engine_args are further arguments of `vllm.LLM`. Raises SourceError for
    a recorded file that cannot be used.
    """
    if isinstance(spec, RecordedSpec):
        return ReplayBackend(RecordedCompletions.load(spec.path), revision)
    if isinstance(spec, VllmSpec):
        return InProcessBackend(spec.model, revision, options=engine_args)
    return OpenAIBackend(spec.urls, spec.model, revision, timeout_s=timeout_s)


def probe(spec: GeneratorSpec) -> None:
    """Say at once, before hours of other work, that a model cannot be asked; loads no weights.

    Raises what opening the backend raises.
    """

    async def open_and_close(backend: OpenAIBackend) -> None:
        await backend.open()
        await backend.close()

    if isinstance(spec, OpenAISpec):
        asyncio.run(open_and_close(OpenAIBackend(spec.urls, spec.model)))
    if isinstance(spec, VllmSpec) and find_spec("vllm") is None:
        raise ConfigError(f"vllm:{spec.model}: {NO_VLLM}")
