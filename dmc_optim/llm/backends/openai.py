"""OpenAI-compatible HTTP servers: one or many replicas of one model, each asked as much as it can take.

Standing behind this is normally `vllm serve`. Every answer is bounded in time and in size, so a server that never
ends its answer, or sends garbage, costs one failed try and nothing else.
"""

import asyncio
import json
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import httpx2

from dmc_optim.errors import ConfigError, GenerationBusyError, GenerationError, GenerationRejectedError
from dmc_optim.llm.backends import Completion, CompletionRequest

MIB = 1 << 20
KEY_VARIABLES = ("DMC_OPTIM_API_KEY", "OPENAI_API_KEY")


@dataclass(slots=True)
class _Endpoint:
    """One server. Passed over until `rest_until` after a failure that was the server's."""

    url: str
    in_flight: int = 0
    failures: int = 0
    rest_until: float = 0.0


class OpenAIBackend:
    """Chat completions from one or several servers of the same model.

    urls: base addresses, with or without `/v1`. The API key comes from the environment (DMC_OPTIM_API_KEY or
    OPENAI_API_KEY) and is never written down. timeout_s bounds one whole answer, max_bytes its size. A server that
    fails rests for 1, 2, 4 … at most `longest_rest_s` seconds, if another one is there to take its place.
    """

    def __init__(
        self,
        urls: Sequence[str],
        model: str,
        revision: str = "",
        *,
        timeout_s: float = 600.0,
        check_timeout_s: float = 10.0,
        max_bytes: int = 16 * MIB,
        longest_rest_s: float = 30.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if not urls:
            raise ConfigError("no server address; write openai:URL#model")
        self.model, self.revision = model, revision
        self._endpoints = [_Endpoint(base_url(url)) for url in urls]
        self._timeout_s, self._check_timeout_s, self._max_bytes = timeout_s, check_timeout_s, max_bytes
        self._longest_rest_s, self._clock = longest_rest_s, clock
        self._client: httpx2.AsyncClient | None = None

    async def open(self) -> None:
        """Ask every server for its models; at least one must answer and every one that answers must have ours."""
        key = next((os.environ[name] for name in KEY_VARIABLES if os.environ.get(name)), None)
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        limits = httpx2.Limits(max_connections=None, max_keepalive_connections=None, keepalive_expiry=30.0)
        timeout = httpx2.Timeout(self._timeout_s, connect=self._check_timeout_s)
        here = all(httpx2.URL(endpoint.url).host in ("127.0.0.1", "localhost", "::1") for endpoint in self._endpoints)
        self._client = httpx2.AsyncClient(headers=headers, limits=limits, timeout=timeout, trust_env=not here)
        answers = await asyncio.gather(*(self._check(endpoint) for endpoint in self._endpoints))
        if not any(answer is None for answer in answers):
            await self.close()
            raise GenerationError("; ".join(answer for answer in answers if answer))

    async def _check(self, endpoint: _Endpoint) -> str | None:
        """None when the server offers the model (or does not list models); a line when it is not there."""
        assert self._client is not None
        url = f"{endpoint.url}/models"
        try:
            response = await self._client.get(url, timeout=self._check_timeout_s)
        except httpx2.HTTPError as error:
            endpoint.rest_until = self._clock() + self._longest_rest_s
            return f"{endpoint.url}: no server answers ({_what(error)}); start it with `vllm serve {self.model}`"
        if response.status_code in (401, 403):
            raise ConfigError(f"{endpoint.url}: refuses the API key; set {KEY_VARIABLES[0]} in the environment")
        if response.status_code != 200:
            return None
        try:
            offered = [entry["id"] for entry in response.json()["data"]]
        except (ValueError, LookupError, TypeError):
            raise ConfigError(f"{endpoint.url}: not an OpenAI-compatible server (no model list at {url})") from None
        if self.model not in offered:
            names = ", ".join(offered[:5]) or "none"
            raise ConfigError(f"{endpoint.url}: has no model {self.model!r}; it offers {names}: write openai:URL#NAME")
        return None

    async def complete(self, request: CompletionRequest) -> Completion:
        """One answer from the least busy server that is not resting."""
        endpoint = self._pick()
        endpoint.in_flight += 1
        started = self._clock()
        try:
            async with asyncio.timeout(self._timeout_s):
                status, headers, body = await self._post(endpoint, self._body(request))
        except TimeoutError:
            self._failed(endpoint)
            message = f"{endpoint.url}: no whole answer within {self._timeout_s:g} s"
            raise GenerationBusyError(message, "timeout") from None
        except httpx2.HTTPError as error:
            self._failed(endpoint)
            raise GenerationBusyError(f"{endpoint.url}: {_what(error)}", "connection") from error
        finally:
            endpoint.in_flight -= 1
        if status != 200:
            raise self._refusal(endpoint, status, headers, body)
        endpoint.failures = 0
        return _read_answer(endpoint.url, body, self._clock() - started)

    async def _post(self, endpoint: _Endpoint, body: bytes) -> tuple[int, Any, bytes]:
        """Status, headers and body; GenerationBusyError once the body outgrows the limit."""
        if self._client is None:
            raise GenerationError("the backend is not open")
        pieces: list[bytes] = []
        size = 0
        url, headers = f"{endpoint.url}/chat/completions", {"Content-Type": "application/json"}
        async with self._client.stream("POST", url, content=body, headers=headers) as reply:
            async for piece in reply.aiter_bytes():
                size += len(piece)
                if size > self._max_bytes:
                    self._failed(endpoint)
                    raise GenerationBusyError(f"{endpoint.url}: answer over {self._max_bytes} bytes", "too_long")
                pieces.append(piece)
            return reply.status_code, reply.headers, b"".join(pieces)

    def _body(self, request: CompletionRequest) -> bytes:
        sampling = request.sampling
        body = {
            "model": self.model,
            "messages": list(request.prompt.messages.messages),
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "max_tokens": sampling.max_tokens,
            "seed": request.seed,
            "n": 1,
            "stream": False,
        }
        return json.dumps(body | sampling.extra).encode()

    def _pick(self) -> _Endpoint:
        now = self._clock()
        awake = [endpoint for endpoint in self._endpoints if endpoint.rest_until <= now]
        return min(awake or self._endpoints, key=lambda e: (e.in_flight, e.rest_until))

    def _failed(self, endpoint: _Endpoint) -> None:
        endpoint.failures += 1
        endpoint.rest_until = self._clock() + min(self._longest_rest_s, 2.0 ** min(endpoint.failures - 1, 10))

    def _refusal(self, endpoint: _Endpoint, status: int, headers: Any, body: bytes) -> Exception:
        """The error an HTTP status stands for."""
        said = _message(body)
        if status in (401, 403):
            return ConfigError(f"{endpoint.url}: refuses the API key; set {KEY_VARIABLES[0]} in the environment")
        if status == 404:
            return ConfigError(f"{endpoint.url}: no such model or address ({said}); is it openai:URL#{self.model}?")
        if status == 429:
            return GenerationBusyError(f"{endpoint.url}: too many requests", "busy", _retry_after(headers))
        if status >= 500 or status in (408, 409, 425):
            self._failed(endpoint)
            return GenerationBusyError(f"{endpoint.url}: status {status} {said}", "server_error", _retry_after(headers))
        return GenerationRejectedError(f"{endpoint.url}: refuses the request, status {status}: {said}")

    async def close(self) -> None:
        """Close the connections."""
        if self._client is not None:
            await self._client.aclose()
            self._client = None


def base_url(url: str) -> str:
    """The address with its API version: `http://host:8000` means `http://host:8000/v1`."""
    url = url.rstrip("/")
    try:
        parsed = httpx2.URL(url)
    except httpx2.InvalidURL as error:
        raise ConfigError(f"{url}: not a valid address ({error}); write openai:http://HOST:PORT#model") from error
    if parsed.scheme not in ("http", "https") or not parsed.host:
        raise ConfigError(f"{url}: not an http address; write openai:http://HOST:PORT#model")
    return url if parsed.path not in ("", "/") else f"{url}/v1"


def _read_answer(url: str, body: bytes, latency_s: float) -> Completion:
    """The first choice of a chat completion; GenerationBusyError when there is none in the body."""
    try:
        answer = json.loads(body)
        choices = answer["choices"]
        if not choices:
            raise GenerationBusyError(f"{url}: an answer without choices", "empty_choices")
        message = choices[0]["message"]
        text = message.get("content") or ""
        reasoning = message.get("reasoning_content") or message.get("reasoning") or ""
        finish = choices[0].get("finish_reason") or ""
        if not (isinstance(text, str) and isinstance(reasoning, str) and isinstance(finish, str)):
            raise TypeError("content is no string")
        usage = answer.get("usage") or {}
        tokens = [n if isinstance(n := usage.get(k), int) else None for k in ("prompt_tokens", "completion_tokens")]
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise GenerationBusyError(f"{url}: not a chat completion ({_what(error)})", "garbage") from error
    return Completion(text, reasoning, finish, tokens[0], tokens[1], latency_s)


def _retry_after(headers: Any) -> float | None:
    try:
        return max(0.0, float(headers.get("retry-after", "")))
    except ValueError:
        return None


def _message(body: bytes) -> str:
    """What the server said about its refusal, in one short line."""
    try:
        value = json.loads(body)
        error = value.get("error", value)
        text = error.get("message") if isinstance(error, dict) else error
    except (ValueError, AttributeError, RecursionError):
        text = body[:500].decode(errors="replace")
    line = " ".join(str(text or "no explanation").split())
    return line if len(line) <= 160 else line[:159] + "…"


def _what(error: BaseException) -> str:
    text = " ".join(str(error).split())[:120]
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
