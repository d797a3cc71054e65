"""Servers and links that misbehave as told: for the client's tests."""

import json
import random
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

INFO = json.dumps({"protocol": 1, "slots": 2, "node": "crooked"}).encode()


def http(status: str, body: bytes, *headers: str, length: int | None = None) -> bytes:
    """The bytes of a whole response; `length` may lie about the body."""
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body) if length is None else length}", *headers, "", ""]
    return "\r\n".join(lines).encode() + body


def stream(*lines: dict[str, Any] | bytes, length: int | None = None) -> bytes:
    """A 200 with these lines as its body."""
    body = b"".join(line if isinstance(line, bytes) else json.dumps(line).encode() + b"\n" for line in lines)
    return http("200 OK", body, "Content-Type: application/x-ndjson", length=length)


GOOD_INFO = http("200 OK", INFO, "Content-Type: application/json")


class CrookedServer:
    """Answers /v1/info properly, then each execution with the next of `answers`, then with the truth.

    An answer is bytes sent as they are, after which the connection is closed. truth: the results, sent from the
    position asked for; without it the last answer is given for ever. requests: what was asked, heads only.
    """

    def __init__(self, *answers: bytes, truth: tuple[dict[str, Any], ...] = (), info: bytes = GOOD_INFO) -> None:
        self._answers = list(answers)
        self._truth = truth
        self._info = info
        self.requests: list[str] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._serve, daemon=True).start()

    @property
    def executions(self) -> list[str]:
        return [head for head in self.requests if head.startswith("POST /v1/execute")]

    def close(self) -> None:
        self._listener.close()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        with connection:
            connection.settimeout(20)
            data = b""
            while b"\r\n\r\n" not in data:
                part = connection.recv(65536)
                if not part:
                    return
                data += part
            head, _, body = data.partition(b"\r\n\r\n")
            length = next(
                (int(h.split(b":")[1]) for h in head.split(b"\r\n") if h.lower().startswith(b"content-length")), 0
            )
            while len(body) < length and (part := connection.recv(65536)):
                body += part
            self.requests.append(head.decode())
            if not head.startswith(b"POST /v1/execute"):
                connection.sendall(self._info)
                return
            connection.sendall(self._next(head.decode()))

    def _next(self, head: str) -> bytes:
        if self._answers and (self._truth or len(self._answers) > 1):
            return self._answers.pop(0)
        if not self._truth:
            return self._answers[0]
        start = int(head.split("resume_from=")[1].split()[0]) if "resume_from=" in head else 0
        return stream(*self._truth[start:], {"end": {"results": len(self._truth), "stopped": False}})


class ChaoticLink:
    """A TCP relay to a node that cuts connections after a random number of answered bytes, `cuts` times in all."""

    def __init__(self, target: str, cuts: int, most_bytes: int, seed: int) -> None:
        host, port = target.removeprefix("http://").split(":")
        self._target = (host, int(port))
        self._rng = random.Random(seed)
        self._most = most_bytes
        self._lock = threading.Lock()
        self.cuts_left = cuts
        self.connections = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        self._listener.close()

    def _serve(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
                far = socket.create_connection(self._target)
            except OSError:
                return
            self.connections += 1
            budget = self._rng.randrange(self._most)
            threading.Thread(target=self._relay, args=(near, far, lambda n: n), daemon=True).start()
            threading.Thread(target=self._relay, args=(far, near, self._cutter(budget)), daemon=True).start()

    def _cutter(self, budget: int) -> Callable[[int], int]:
        left = budget

        def allow(size: int) -> int:
            nonlocal left
            left -= size
            if left >= 0:
                return size
            with self._lock:
                if self.cuts_left == 0:
                    return size
                self.cuts_left -= 1
            return size + left  # fewer than asked: the relay cuts there

        return allow

    @staticmethod
    def _relay(source: socket.socket, sink: socket.socket, allow: Callable[[int], int]) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                allowed = max(0, allow(len(data)))
                sink.sendall(data[:allowed])
                if allowed < len(data):
                    break
        for end in (source, sink):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
