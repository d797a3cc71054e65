"""A fault-injecting OpenAI-compatible server on the loopback address, for tests and for bench/bench_llm.py.

    python -m tests.llm.fake_server --slots 64 --latency-s 1 --fault busy=0.1 --fault drop=0.05

It prints its port on the first line. Answers depend on messages and seed alone. Faults are drawn from the request
and the number of its try, so that a run can be repeated; a request stops being disturbed after `--max-faults`.
"""

import argparse
import asyncio
import hashlib
import json
import random
import time
from collections import Counter
from collections.abc import Callable

FAULTS = ("busy", "server_error", "drop", "drop_midway", "empty_choices", "endless", "flood", "garbage", "half_json")
MODEL = "fake-model"


def default_answer(messages: list[dict], seed: int) -> str:
    mark = hashlib.sha256(json.dumps([messages, seed]).encode()).hexdigest()[:12]
    return f"```python\nclass InputGenerator:\n    def edge(self):\n        return {mark!r}\n```"


class FakeServer:
    """slots requests are answered at a time, each after latency_s; others wait, or get 429 beyond `queue` waiting."""

    def __init__(
        self,
        slots: int = 64,
        latency_s: float = 0.0,
        queue: int | None = None,
        faults: dict[str, float] | None = None,
        max_faults: int = 3,
        seed: int = 0,
        model: str = MODEL,
        key: str = "",
        answer: Callable[[list[dict], int], str] = default_answer,
    ) -> None:
        self.slots, self.latency_s, self.queue, self.model, self.key = slots, latency_s, queue, model, key
        self.faults, self.max_faults, self.seed, self.answer = faults or {}, max_faults, seed, answer
        self.tries: Counter[str] = Counter()
        self.sent: Counter[str] = Counter()
        self.busy_s = 0.0
        self.first = self.last = 0.0
        self.waiting = self.working = self.full = 0
        self._free = asyncio.Semaphore(slots)
        self._server: asyncio.Server | None = None

    async def start(self, port: int = 0) -> int:
        self._server = await asyncio.start_server(self._connection, "127.0.0.1", port, limit=1 << 22)
        return self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        assert self._server is not None
        self._server.close()

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while await self._one(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError, TimeoutError):
            pass
        finally:
            writer.close()

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Serve one request; False when the connection is to be closed."""
        head = await reader.readuntil(b"\r\n\r\n")
        request, *fields = head.decode("latin-1").split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (f.partition(":") for f in fields) if name}
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        method, path, _ = request.split(" ")
        if self.key and headers.get("authorization") != f"Bearer {self.key}":
            return await self._send(writer, 401, {"error": {"message": "bad key"}})
        if (method, path) == ("GET", "/v1/models"):
            return await self._send(writer, 200, {"data": [{"id": self.model}]})
        if (method, path) == ("GET", "/stats"):
            return await self._send(writer, 200, self.stats())
        if (method, path) != ("POST", "/v1/chat/completions"):
            return await self._send(writer, 404, {"error": {"message": f"no {path} here"}})
        return await self._chat(writer, json.loads(body))

    def stats(self) -> dict:
        wall = self.last - self.first
        share = self.busy_s / (self.slots * wall) if wall else None
        return {"sent": dict(self.sent), "busy_s": self.busy_s, "wall_s": wall, "busy_share": share}

    def _fault(self, request: dict) -> str:
        identity = hashlib.sha256(json.dumps([request["messages"], request["seed"]]).encode()).hexdigest()
        self.tries[identity] += 1
        if self.tries[identity] > self.max_faults:
            return ""
        draw = random.Random(f"{self.seed}/{identity}/{self.tries[identity]}").random()
        for name, share in self.faults.items():
            draw -= share
            if draw < 0:
                return name
        return ""

    async def _chat(self, writer: asyncio.StreamWriter, request: dict) -> bool:
        if request["model"] != self.model:
            return await self._send(writer, 404, {"error": {"message": f"no model {request['model']}"}})
        if len(json.dumps(request["messages"])) > 1_000_000:
            return await self._send(writer, 400, {"error": {"message": "maximum context length is 1000000"}})
        fault = self._fault(request)
        self.sent[fault or "answer"] += 1
        if fault == "busy" or (self.queue is not None and self.waiting >= self.queue):
            self.sent["busy"] += fault != "busy"
            return await self._send(writer, 429, {"error": {"message": "slow down"}}, "Retry-After: 0.01\r\n")
        if fault == "server_error":
            return await self._send(writer, 503, {"error": {"message": "overloaded"}})
        if fault in ("drop", "drop_midway"):
            if fault == "drop_midway":
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n{")
                await writer.drain()
            return False
        if fault in ("endless", "flood"):
            return await self._endless(writer, fault)
        if fault in ("garbage", "half_json"):
            return await self._send_bytes(
                writer, 200, b"\xff\xfe<html>" if fault == "garbage" else b'{"choices": [{"me'
            )
        await self._work()
        choice = {"message": {"content": self.answer(request["messages"], request["seed"])}, "finish_reason": "stop"}
        usage = {"prompt_tokens": 100, "completion_tokens": 50}
        return await self._send(writer, 200, {"choices": [] if fault == "empty_choices" else [choice], "usage": usage})

    async def _work(self) -> None:
        self.waiting += 1
        try:
            async with self._free:
                self.waiting -= 1
                self.working += 1
                self.full += self.working == self.slots
                started = time.monotonic()
                self.first = self.first or started
                try:
                    await asyncio.sleep(self.latency_s)
                finally:
                    self.working -= 1
                    self.last = time.monotonic()
                    self.busy_s += self.last - started
        finally:
            self.waiting = max(0, self.waiting)

    async def _endless(self, writer: asyncio.StreamWriter, fault: str) -> bool:
        piece = b"x" * (1 if fault == "endless" else 65536)
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        while True:
            writer.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
            await writer.drain()
            await asyncio.sleep(0.02 if fault == "endless" else 0)

    async def _send(self, writer: asyncio.StreamWriter, status: int, value: dict, extra: str = "") -> bool:
        return await self._send_bytes(writer, status, json.dumps(value).encode(), extra)

    async def _send_bytes(self, writer: asyncio.StreamWriter, status: int, body: bytes, extra: str = "") -> bool:
        head = f"HTTP/1.1 {status} Said\r\nContent-Type: application/json\r\n{extra}Content-Length: {len(body)}\r\n\r\n"
        writer.write(head.encode() + body)
        await writer.drain()
        return True


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--slots", type=int, default=64)
    parser.add_argument("--latency-s", type=float, default=0.0)
    parser.add_argument("--max-faults", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--fault", action="append", default=[], help=f"NAME=SHARE, of {', '.join(FAULTS)}")
    args = parser.parse_args()
    faults = {name: float(share) for name, _, share in (f.partition("=") for f in args.fault)}

    async def serve() -> None:
        server = FakeServer(args.slots, args.latency_s, None, faults, args.max_faults, args.seed)
        print(await server.start(args.port), flush=True)
        await asyncio.Event().wait()

    asyncio.run(serve())


if __name__ == "__main__":
    main()
