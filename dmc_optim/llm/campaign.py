"""A campaign: ask for k samples of every prompt, keep what comes, go on where the last run stopped.

Answers are appended to a `recorded:` file as they arrive (llm.store). A run asks only for what the file lacks, so
a campaign killed at any instant and started again ends with the attempts of an undisturbed one. A failure is
never kept: the next run asks again.
"""

import asyncio
import random
import resource
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from dmc_optim.errors import ConfigError, GenerationBusyError, GenerationError, GenerationRejectedError
from dmc_optim.llm.backends import Backend, Completion, CompletionRequest, Sampling
from dmc_optim.llm.prompts import Prompt
from dmc_optim.llm.recorded import RowKey
from dmc_optim.llm.store import CompletionStore

MAX_EXAMPLES = 5
SPARE_FILES = 128


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Tries of one request, and pauses between them: first_s · 2^n up to longest_s, at least what the server asks.

    give_up_after_s: the campaign stops when for so long not one answer came and only failures did.
    """

    tries: int = 6
    first_s: float = 0.5
    longest_s: float = 60.0
    give_up_after_s: float = 900.0

    def pause_s(self, failed_tries: int, asked_s: float | None, rng: random.Random) -> float:
        """Seconds to wait after so many failed tries; drawn from the upper half, so that a storm spreads out."""
        step = min(self.longest_s, self.first_s * 2.0 ** min(failed_tries - 1, 30))
        return max(asked_s or 0.0, step * rng.uniform(0.5, 1.0))


@dataclass(frozen=True, slots=True)
class Price:
    """Price of a million tokens, in US dollars."""

    prompt: float = 0.0
    completion: float = 0.0

    def of(self, completion: Completion) -> float:
        """Cost of one answer; tokens that the server does not report cost nothing."""
        tokens = (completion.prompt_tokens or 0) * self.prompt + (completion.completion_tokens or 0) * self.completion
        return tokens / 1e6


@dataclass(frozen=True, slots=True)
class Failure:
    """A request that got no answer in this run."""

    problem_id: str
    campaign: str
    attempt: int
    reason: str
    detail: str


@dataclass(slots=True)
class CampaignReport:
    """What one run of a campaign did. Times in seconds; tokens and cost of this run's answers only."""

    model: str
    wanted: int = 0
    already: int = 0
    answered: int = 0
    failed: int = 0
    retries: Counter[str] = field(default_factory=Counter)
    failures: Counter[str] = field(default_factory=Counter)
    examples: list[Failure] = field(default_factory=list)
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost_usd: float = 0.0
    latency_s: float = 0.0
    wall_s: float = 0.0

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return asdict(self) | {"retries": dict(self.retries), "failures": dict(self.failures)}

    def lines(self) -> list[str]:
        """The report for a person; says what to do when something is missing."""
        rate = (
            f", {self.completion_tokens / self.wall_s:.0f} tokens/s" if self.wall_s and self.completion_tokens else ""
        )
        lines = [
            f"{self.model}: {self.wanted} attempts wanted, {self.already} already there, {self.answered} answered,"
            f" {self.failed} without an answer ({self.wall_s:.1f} s{rate})"
        ]
        if self.prompt_tokens or self.completion_tokens:
            cost = f", {self.cost_usd:.2f} USD" if self.cost_usd else ""
            lines.append(f"tokens: {self.prompt_tokens} read, {self.completion_tokens} written{cost}")
        if self.retries:
            lines.append("tried again: " + ", ".join(f"{n} × {kind}" for kind, n in sorted(self.retries.items())))
        for failure in self.examples:
            lines.append(f"no answer: {failure.problem_id} {failure.campaign} {failure.attempt}: {failure.detail}")
        if self.failed:
            lines.append("run the same command again: it asks only for what is missing")
        return lines


def run_campaign(prompts: Iterable[Prompt], backend: Backend, store_path: str | Path, **options: Any) -> CampaignReport:
    """Run `Campaign` to its end in a fresh event loop; the blocking form for scripts, stages and commands."""
    return asyncio.run(Campaign(backend, store_path, **options).run(prompts))


class Campaign:
    """Asks `k` samples of every prompt with at most `concurrency` requests in flight; memory does not grow.

    seed: base seed; sample i has seed + i. on_answer is called after every answer with the running report.
    sleep, clock and jitter_seed exist for tests. `run` raises ConfigError (wrong model, key or file) and
    GenerationError (no server, or none answering any more); single failures are in the report.
    """

    def __init__(
        self,
        backend: Backend,
        store_path: str | Path,
        *,
        k: int = 10,
        concurrency: int = 64,
        sampling: Sampling | None = None,
        seed: int = 0,
        retry: RetryPolicy | None = None,
        price: Price | None = None,
        on_answer: Callable[[CampaignReport], None] | None = None,
        on_failure: Callable[[Failure], None] | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[Any]] = asyncio.sleep,
        jitter_seed: int = 0,
    ) -> None:
        self._backend, self._store = backend, CompletionStore(store_path)
        self._k, self._concurrency, self._seed = k, concurrency, seed
        self._sampling, self._retry, self._price = sampling or Sampling(), retry or RetryPolicy(), price or Price()
        self._on_answer, self._on_failure = on_answer, on_failure
        self._clock, self._sleep = clock, sleep
        self._rng = random.Random(jitter_seed)
        self._report = CampaignReport(backend.model)

    async def run(self, prompts: Iterable[Prompt]) -> CampaignReport:
        """Ask for everything that is missing. The backend is opened only when something is."""
        started = self._last_answer = self._clock()
        with self._store:
            missing = self._missing(prompts)
            first = next(missing, None)
            if first is not None:
                allow_connections(self._concurrency)
                await self._backend.open()
                try:
                    await self._ask_all(first, missing)
                finally:
                    await self._backend.close()
        self._report.wall_s = self._clock() - started
        return self._report

    def _missing(self, prompts: Iterable[Prompt]) -> Iterator[CompletionRequest]:
        """Requests whose answer the store lacks, in order; nothing is held but the one in hand."""
        for prompt in prompts:
            for attempt in range(prompt.first_attempt, prompt.first_attempt + self._k):
                self._report.wanted += 1
                request = CompletionRequest(prompt, attempt, self._seed + attempt, self._sampling)
                if self._store.settle(_row_key(request), self._key(request)):
                    self._report.already += 1
                else:
                    yield request

    async def _ask_all(self, first: CompletionRequest, rest: Iterator[CompletionRequest]) -> None:
        """Workers share one iterator; the first error that concerns every request ends them all."""

        def requests() -> Iterator[CompletionRequest]:
            yield first
            yield from rest

        shared = requests()
        workers = [asyncio.create_task(self._worker(shared)) for _ in range(self._concurrency)]
        try:
            await asyncio.gather(*workers)
        finally:
            for worker in workers:
                worker.cancel()
            await asyncio.gather(*workers, return_exceptions=True)

    async def _worker(self, requests: Iterator[CompletionRequest]) -> None:
        for request in requests:
            try:
                completion = await self._ask(request)
            except (GenerationBusyError, GenerationRejectedError) as error:
                self._note_failure(request, error)
                continue
            self._keep(request, completion)

    async def _ask(self, request: CompletionRequest) -> Completion:
        """One answer, tried again after a pause when the server is busy or failing."""
        for failed in range(1, self._retry.tries + 1):
            try:
                return await self._backend.complete(request)
            except GenerationBusyError as error:
                if self._clock() - self._last_answer > self._retry.give_up_after_s:
                    raise GenerationError(
                        f"{error}; no answer at all for {self._retry.give_up_after_s:g} s, so the campaign stops:"
                        f" {self._report.answered} answers are kept, run the same command again to go on"
                    ) from error
                if failed == self._retry.tries:
                    raise
                self._report.retries[error.kind] += 1
                await self._sleep(self._retry.pause_s(failed, error.retry_after_s, self._rng))
        raise AssertionError("unreachable: the last try returns or raises")

    def _keep(self, request: CompletionRequest, completion: Completion) -> None:
        """Append the answer to the store and count it."""
        report, prompt = self._report, request.prompt
        cost = self._price.of(completion)
        usage = {
            "prompt_tokens": completion.prompt_tokens,
            "completion_tokens": completion.completion_tokens,
            "latency_s": round(completion.latency_s, 4),
            "cost_usd": cost,
        }
        fields = {
            "name": prompt.name or None,
            "completion": completion.text,
            "reasoning": completion.reasoning,
            "finish_reason": completion.finish_reason,
            "model": self._backend.model,
            "seed": request.seed,
            "prompt_solution_id": prompt.prompt_solution_id,
            "prompt_digest": prompt.messages.digest,
            "usage": usage,
        }
        self._store.add(_row_key(request), self._key(request), fields)
        self._last_answer = self._clock()
        report.answered += 1
        report.prompt_tokens += completion.prompt_tokens or 0
        report.completion_tokens += completion.completion_tokens or 0
        report.cost_usd += cost
        report.latency_s += completion.latency_s
        if self._on_answer is not None:
            self._on_answer(report)

    def _note_failure(self, request: CompletionRequest, error: GenerationBusyError | GenerationRejectedError) -> None:
        """Count a request that stays without an answer in this run."""
        report, prompt = self._report, request.prompt
        reason = error.kind if isinstance(error, GenerationBusyError) else "rejected"
        who = prompt.problem_id or prompt.name
        failure = Failure(who, prompt.campaign or "statement", request.attempt, reason, str(error))
        report.failed += 1
        report.failures[reason] += 1
        if len(report.examples) < MAX_EXAMPLES:
            report.examples.append(failure)
        if self._on_failure is not None:
            self._on_failure(failure)

    def _key(self, request: CompletionRequest) -> str:
        return request.key(self._backend.model, self._backend.revision)


def allow_connections(n: int) -> None:
    """Raise the soft limit of open files so that n connections fit. ConfigError when the hard limit forbids it."""
    needed = n + SPARE_FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return
    if hard != resource.RLIM_INFINITY and hard < needed:
        raise ConfigError(f"{n} requests in flight need {needed} open files, this system allows {hard}; ask for fewer")
    resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))


def _row_key(request: CompletionRequest) -> RowKey:
    prompt = request.prompt
    name = "" if prompt.problem_id else prompt.name
    return RowKey(prompt.problem_id, name, prompt.campaign, request.attempt)
