"""Generation backends: how a completion is asked for, whoever answers.

    openai     an OpenAI-compatible HTTP server, any number of them (`vllm serve` behind it)
    inprocess  `vllm.LLM` in this process
    replay     answers recorded earlier
    fake       answers from a function, for tests

A backend answers one request at a time or says why not; retrying, caching and writing down are `llm.campaign`'s.
"""

import hashlib
import json
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol, runtime_checkable

from dmc_optim.llm.prompts import Prompt


@dataclass(frozen=True, slots=True)
class Sampling:
    """How a completion is drawn. Temperature 1 and no top-p truncation, as the paper samples (Section 4).

    extra: further fields of the request body, e.g. {"chat_template_kwargs": {"enable_thinking": false}}.
    """

    temperature: float = 1.0
    top_p: float = 1.0
    max_tokens: int = 4096
    extra: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CompletionRequest:
    """One sample of one prompt. seed = base seed + attempt, so that n samples equal n single requests."""

    prompt: Prompt
    attempt: int
    seed: int
    sampling: Sampling

    def key(self, model: str, revision: str) -> str:
        """Hexadecimal SHA-256 of everything that decides the answer: prompt, sampling, model, revision, sample."""
        said = [self.prompt.messages.messages, asdict(self.sampling), model, revision, self.attempt, self.seed]
        return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Completion:
    """What came back. Token counts are None where the server does not say; latency in seconds."""

    text: str
    reasoning: str = ""
    finish_reason: str = ""
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    latency_s: float = 0.0


@runtime_checkable
class Backend(Protocol):
    """Anything that answers completion requests.

    `open` checks quickly that answers can be had: ConfigError for a wrong model name or key, GenerationError for a
    server that is not there. `complete` raises GenerationBusyError (ask again), GenerationRejectedError (never for
    this request) or ConfigError (never for any request).
    """

    @property
    def model(self) -> str:
        """Name of the model, as it is written into every row."""

    @property
    def revision(self) -> str:
        """Revision of the weights, or '' when unknown; part of the cache key."""

    async def open(self) -> None:
        """Check that answers can be had."""

    async def complete(self, request: CompletionRequest) -> Completion:
        """One answer."""

    async def close(self) -> None:
        """Release connections and devices."""
