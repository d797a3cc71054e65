"""Bodies in, results out: reading with bounds, and the response that follows a job while it runs."""

import asyncio
from collections.abc import AsyncIterator

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from dmc_optim.ces.service.ledger import Job
from dmc_optim.ces.service.node import Node
from dmc_optim.ces.service.problems import Problem, too_large
from dmc_optim.ces.service.wire import BEAT_LINE, CONTENT_TYPE

_SEND_BYTES = 256 * 1024


def announced_length(request: Request, limit: int, what: str, action: str) -> int:
    """Content-Length of a body; 0 when it comes in chunks. Problem 413 when it is over the limit."""
    header = request.headers.get("content-length", "0")
    length = int(header) if header.isascii() and header.isdigit() else 0
    if length > limit:
        raise too_large(what, limit, action)
    return length


async def read_parts(request: Request, limit: int, stall_s: float, what: str, action: str) -> AsyncIterator[bytes]:
    """The pieces of a body as they arrive. Problem 413 beyond the limit, 408 when nothing comes for stall_s."""
    total = 0
    parts = request.stream()
    while True:
        try:
            async with asyncio.timeout(stall_s):
                part = await anext(parts, None)
        except TimeoutError:
            raise Problem(
                408, "body_stalled", f"no byte of the body came for {stall_s:g} s", "send the request again"
            ) from None
        except ClientDisconnect:
            raise Problem(400, "disconnected", "the client left while it sent the body", "send it again") from None
        if part is None:
            return
        total += len(part)
        if total > limit:
            raise too_large(what, limit, action)
        if part:
            yield part


class ResultStream(Response):
    """The lines of a job from position `start` on, sent as they come; leaving it may cancel the job.

    A beat is sent when there is nothing else, so the client can tell a slow program from a dead node.
    """

    media_type = CONTENT_TYPE

    def __init__(self, node: Node, job: Job, start: int) -> None:
        super().__init__()
        del self.headers["content-length"]
        self.headers["Idempotency-Key"] = job.request_id
        self.headers["Cache-Control"] = "no-store"
        self.headers["X-Accel-Buffering"] = "no"  # a proxy that gathers the answer would hold back results
        self._node = node
        self._job = job
        self._position = start
        self._event = asyncio.Event()
        self._gone = False
        node.follow(job, self._event)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send until the job has ended or the client is gone."""
        watch = asyncio.create_task(self._watch_client(receive))
        try:
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            await self._send_lines(send)
        except (OSError, TimeoutError):
            pass  # the client is gone or has stopped reading: either way nobody follows any more
        finally:
            watch.cancel()
            self._node.unfollow(self._job, self._event)

    async def _send_lines(self, send: Send) -> None:
        settings = self._node.settings
        while not self._gone:
            self._event.clear()
            ended = self._job.settled
            lines, at = self._job.journal.read(max(0, self._position - self._job.base), _SEND_BYTES)
            more = at < len(self._job.journal)
            if ended and not more:
                await self._send(send, lines + self._job.closing, last=True)
                return
            if lines:
                self._position = self._job.base + at
                await self._send(send, lines)
            if more:
                continue
            try:
                async with asyncio.timeout(settings.heartbeat_s):
                    await self._event.wait()
            except TimeoutError:
                await self._send(send, BEAT_LINE)

    async def _send(self, send: Send, body: bytes, last: bool = False) -> None:
        async with asyncio.timeout(self._node.settings.stall_s):
            await send({"type": "http.response.body", "body": body, "more_body": not last})

    async def _watch_client(self, receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        self._gone = True
        self._event.set()
