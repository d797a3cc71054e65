"""`vllm.LLM` in this process: no server to start, one machine. Needs the extra `vllm`; imported only when opened."""

import asyncio
import os
import time
from collections.abc import Callable
from typing import Any

from dmc_optim.errors import ConfigError, GenerationError, GenerationRejectedError
from dmc_optim.llm.backends import Completion, CompletionRequest

NO_VLLM = "vLLM is not installed here; pip install 'dmc-optim[vllm]', or use openai:URL#MODEL"
_Waiting = tuple[CompletionRequest, "asyncio.Future[Completion]"]


class InProcessBackend:
    """Gathers the requests that are waiting into batches of at most `max_batch` and runs each through the engine.

    The engine runs in the thread of the event loop: while it works, every worker waits for it anyway.
    model: name or directory. options: further arguments of `vllm.LLM`, e.g. {"tensor_parallel_size": 4}.
    The model's own chat template is used. Raises ConfigError when vLLM or the model cannot be loaded.
    """

    def __init__(self, model: str, revision: str = "", *, max_batch: int = 256, options: dict[str, Any] | None = None):
        self.model, self.revision = model, revision
        self._max_batch, self._options = max_batch, options or {}
        self._engine: Any = None
        self._params: Callable[..., Any] | None = None
        self._queue: asyncio.Queue[_Waiting] | None = None
        self._runner: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Load the model; minutes for a large one."""
        self._load()
        self._queue = asyncio.Queue()
        self._runner = asyncio.create_task(self._run())

    def _load(self) -> None:
        os.environ.setdefault("VLLM_LOGGING_STREAM", "ext://sys.stderr")  # stdout is for our figures
        try:
            from vllm import LLM, SamplingParams
        except ImportError as error:
            raise ConfigError(f"vllm:{self.model}: {NO_VLLM} ({error})") from error
        try:
            revision = {"revision": self.revision} if self.revision else {}
            self._engine = LLM(model=self.model, **revision, **self._options)
        except Exception as error:
            raise ConfigError(f"vllm:{self.model}: the model cannot be loaded ({_line(error)})") from error
        self._params = SamplingParams

    async def complete(self, request: CompletionRequest) -> Completion:
        """One answer, out of the batch that this request joins."""
        if self._queue is None:
            raise GenerationError("the backend is not open")
        future: asyncio.Future[Completion] = asyncio.get_running_loop().create_future()
        self._queue.put_nowait((request, future))
        return await future

    async def _run(self) -> None:
        assert self._queue is not None
        while True:
            batch = [await self._queue.get()]
            await asyncio.sleep(0.01)  # let the other workers put theirs
            while len(batch) < self._max_batch and not self._queue.empty():
                batch.append(self._queue.get_nowait())
            outcomes = self._generate([request for request, _ in batch])
            for (_, future), outcome in zip(batch, outcomes, strict=True):
                if future.done():
                    continue
                if isinstance(outcome, Completion):
                    future.set_result(outcome)
                else:
                    future.set_exception(outcome)

    def _generate(self, requests: list[CompletionRequest]) -> list[Completion | GenerationError]:
        """Answers in order. The engine refuses a whole batch for one bad prompt, so that batch is run one by one."""
        started = time.monotonic()
        try:
            outputs = self._chat(requests)
        except ValueError as error:
            if len(requests) == 1:
                return [GenerationRejectedError(f"vllm:{self.model}: {_line(error)}")]
            return [outcome for request in requests for outcome in self._generate([request])]
        except Exception as error:
            return [GenerationError(f"vllm:{self.model}: the engine failed ({_line(error)})") for _ in requests]
        latency_s = time.monotonic() - started
        return [
            Completion(
                output.outputs[0].text,
                "",
                output.outputs[0].finish_reason or "",
                len(output.prompt_token_ids or ()),
                len(output.outputs[0].token_ids),
                latency_s,
            )
            for output in outputs
        ]

    def _chat(self, requests: list[CompletionRequest]) -> list[Any]:
        assert self._params is not None
        params = [
            self._params(
                temperature=request.sampling.temperature,
                top_p=request.sampling.top_p,
                max_tokens=request.sampling.max_tokens,
                seed=request.seed,
            )
            for request in requests
        ]
        messages = [list(request.prompt.messages.messages) for request in requests]
        result: list[Any] = self._engine.chat(messages, params, use_tqdm=False, **requests[0].sampling.extra)
        return result

    async def close(self) -> None:
        """Stop the engine and free its memory."""
        if self._runner is not None:
            self._runner.cancel()
            await asyncio.gather(self._runner, return_exceptions=True)
        self._runner = self._queue = self._engine = None


def _line(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return text if len(text) <= 200 else text[:199] + "…"
