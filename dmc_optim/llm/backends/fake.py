"""A backend that answers from a function: tests, and the scripted models that measure the adaptive option."""

import asyncio
from collections.abc import Callable

from dmc_optim.errors import GenerationError
from dmc_optim.llm.backends import Completion, CompletionRequest


class FakeBackend:
    """Answers every request with `answer(request)`: a string, a Completion, or an error to raise.

    A pure `answer` makes the campaign deterministic. calls counts requests, peak the most at one time.
    """

    def __init__(
        self,
        answer: Callable[[CompletionRequest], str | Completion | GenerationError],
        model: str = "fake",
        revision: str = "",
        latency_s: float = 0.0,
    ) -> None:
        self._answer, self.model, self.revision, self._latency_s = answer, model, revision, latency_s
        self.calls = self.peak = self._now = 0

    async def open(self) -> None:
        """Nothing to check."""

    async def complete(self, request: CompletionRequest) -> Completion:
        """The function's answer, after the latency."""
        self.calls += 1
        self._now += 1
        self.peak = max(self.peak, self._now)
        try:
            await asyncio.sleep(self._latency_s)
            answer = self._answer(request)
        finally:
            self._now -= 1
        if isinstance(answer, Exception):
            raise answer
        return answer if isinstance(answer, Completion) else Completion(answer, finish_reason="stop")

    async def close(self) -> None:
        """Nothing to release."""
