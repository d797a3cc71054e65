"""One call to one endpoint: bytes out, results in, and each failure as what it means for the caller.

Fault                   the endpoint or the way to it failed; trying again is right
MissingBlobs            it lacks contents; upload them and ask again
ServiceBusyError        it refused for load or because it starts or stops; ask later, or another
ServiceRejectedError    it refused the request itself; asking again will not help
"""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import httpx2

from dmc_optim.ces.client.contents import Parcel
from dmc_optim.ces.client.policy import RetryPolicy
from dmc_optim.ces.client.pool import Endpoint
from dmc_optim.ces.service.wire import CONTENT_TYPE, PROTOCOL, WireError, decode_line, decode_result
from dmc_optim.ces.types import Result
from dmc_optim.errors import ServiceBusyError, ServiceRejectedError

_LONGEST_LINE = 256 << 20
_LONGEST_RETRY_AFTER_S = 60.0


class Fault(Exception):
    """The endpoint, or the way to it, failed."""


class MissingBlobs(Exception):
    """The endpoint lacks contents that the request names by hash."""

    def __init__(self, hashes: list[str]) -> None:
        super().__init__(f"{len(hashes)} contents are missing")
        self.hashes = hashes


class Halt:
    """Ends the exchanges of one caller from another thread: their sockets are shut, their waits are cut short."""

    def __init__(self) -> None:
        self._event = threading.Event()
        self._lock = threading.Lock()
        self._sockets: set[socket.socket] = set()

    @property
    def called(self) -> bool:
        """Whether it was called."""
        return self._event.is_set()

    def call(self) -> None:
        """End everything that watches this halt."""
        with self._lock:
            self._event.set()
            for open_socket in self._sockets:
                _shut(open_socket)

    def wait(self, seconds: float) -> bool:
        """Sleep, or return True at once when called."""
        return self._event.wait(seconds)

    @contextmanager
    def watching(self, response: httpx2.Response) -> Iterator[None]:
        """Have the response's socket shut by a call."""
        stream = response.extensions.get("network_stream")
        open_socket = stream.get_extra_info("socket") if stream is not None else None
        if open_socket is None:
            yield
            return
        with self._lock:
            self._sockets.add(open_socket)
            if self._event.is_set():
                _shut(open_socket)
        try:
            yield
        finally:
            with self._lock:
                self._sockets.discard(open_socket)


def _shut(open_socket: socket.socket) -> None:
    with suppress(OSError):  # closed already
        open_socket.shutdown(socket.SHUT_RDWR)


class Exchange:
    """Calls over pooled connections. Thread-safe.

    token: bearer token, or None. Raises ServiceRejectedError from any call that the service will never take.
    """

    def __init__(self, token: str | None, policy: RetryPolicy) -> None:
        timeout = httpx2.Timeout(policy.read_s, connect=policy.connect_s, write=policy.write_s, pool=None)
        self._http = httpx2.Client(
            headers={} if token is None else {"Authorization": f"Bearer {token}"},
            timeout=timeout,
            limits=httpx2.Limits(max_connections=None, max_keepalive_connections=256, keepalive_expiry=30.0),
            trust_env=False,  # a proxy meant for the web must not stand between a build and its service
        )

    def close(self) -> None:
        """Close every connection."""
        self._http.close()

    def info(self, endpoint: Endpoint) -> dict[str, Any]:
        """What the node says of itself. Raises ServiceRejectedError when it is not a service of our protocol."""
        response = self._call(endpoint, "GET", "/v1/info")
        try:
            facts = response.json()
            protocol, slots = facts["protocol"], int(facts["slots"])
        except (ValueError, KeyError, TypeError) as error:
            raise ServiceRejectedError(f"{endpoint.url} is not an execution service; check the address") from error
        if protocol != PROTOCOL:
            raise ServiceRejectedError(
                f"{endpoint.url} speaks protocol {protocol}, this client {PROTOCOL}; install the same version on both"
            )
        endpoint.slots = max(1, slots)
        return dict(facts)

    def upload(self, endpoint: Endpoint, parcel: Parcel) -> None:
        """Bring the parcel's blobs to the node, those that it lacks."""
        if not endpoint.known.unknown(list(parcel.blobs)):
            return
        with endpoint.upload_lock:  # a second thread with the same input waits, and then need not send it
            unknown = endpoint.known.unknown(list(parcel.blobs))
            if not unknown:
                return
            answer = self._call(endpoint, "POST", "/v1/blobs/missing", json={"hashes": unknown})
            try:
                missing = [digest for digest in answer.json()["missing"] if digest in parcel.blobs]
            except (ValueError, KeyError, TypeError) as error:
                raise Fault(f"{endpoint.url} gave no list of missing blobs") from error
            for digest in missing:
                kind = {"Content-Type": "application/octet-stream"}
                self._call(endpoint, "PUT", f"/v1/blobs/{digest}", content=parcel.blobs[digest], headers=kind)
            endpoint.known.add(unknown)

    def results(self, endpoint: Endpoint, parcel: Parcel, body: bytes, start: int, halt: Halt) -> Iterator[Result]:
        """The results of a request from position `start` on, as they arrive; ends only after a complete answer."""
        headers = {
            **_host(endpoint),
            "Content-Type": "application/json",
            "Idempotency-Key": parcel.request.request_id,
            "Accept": CONTENT_TYPE,
        }
        params = {"resume_from": start} if start else None
        url = f"{endpoint.url}/v1/execute"
        try:
            with self._http.stream("POST", url, params=params, content=body, headers=headers) as response:
                if response.status_code != 200:
                    response.read()
                    raise refusal(endpoint.url, response)
                if not response.headers.get("content-type", "").startswith(CONTENT_TYPE):
                    raise Fault(f"{endpoint.url} answered with something else than results")
                with halt.watching(response):
                    yield from _read_results(response, parcel, start)
        except httpx2.TransportError as error:
            raise Fault(f"{endpoint.url}: {_words(error)}") from error
        except WireError as error:
            raise Fault(f"{endpoint.url}: {error}") from error

    def _call(self, endpoint: Endpoint, method: str, path: str, **arguments: Any) -> httpx2.Response:
        headers = {**_host(endpoint), **arguments.pop("headers", {})}
        try:
            response = self._http.request(method, endpoint.url + path, headers=headers, **arguments)
        except httpx2.TransportError as error:
            raise Fault(f"{endpoint.url}: {_words(error)}") from error
        if response.status_code not in (200, 201):
            raise refusal(endpoint.url, response)
        return response


def _read_results(response: httpx2.Response, parcel: Parcel, start: int) -> Iterator[Result]:
    tests = parcel.request.tests
    position = start
    lines = _lines(response)
    for line in lines:
        record = decode_line(line)
        if "beat" in record:
            continue
        if "error" in record:
            error = record["error"] if isinstance(record["error"], dict) else {}
            raise WireError(f"the answer broke off: {error.get('code')}: {error.get('message')}")
        if "end" in record:
            end = record["end"] if isinstance(record["end"], dict) else {}
            if end.get("results") != position or (position < len(tests) and not end.get("stopped")):
                raise WireError(f"the answer ends after {position} of {len(tests)} results, saying {end}")
            for _ in lines:  # to the body's own end: only then can the connection be used again
                pass
            return
        if record.get("i") != position or position >= len(tests) or record.get("test_id") != tests[position].id:
            raise WireError(f"the result of test {position} was due, not {record!r:.80}")
        result = decode_result(record)
        position += 1
        yield result
    raise WireError(f"the answer was cut off after {position} of {len(tests)} results")


def _lines(response: httpx2.Response) -> Iterator[bytes]:
    rest: list[bytes] = []
    size = 0
    for part in response.iter_bytes():
        *whole, tail = part.split(b"\n")
        if whole:
            yield b"".join([*rest, whole[0]])
            yield from whole[1:]
            rest, size = [], 0
        if tail:
            rest.append(tail)
            size += len(tail)
        if size > _LONGEST_LINE:
            raise WireError(f"a line of the answer is over {_LONGEST_LINE} bytes")


def refusal(url: str, response: httpx2.Response) -> Exception:
    """A status other than 200 as the exception that says what it means. The body must have been read."""
    status = response.status_code
    try:
        error = response.json()["error"]
        words = f"{error['message']}; {error['action']}"
    except (ValueError, KeyError, TypeError):
        error, words = {}, response.reason_phrase or "no explanation"
    if status == 424 and isinstance(error.get("missing"), list):
        return MissingBlobs([str(digest) for digest in error["missing"]])
    if status in (429, 503):
        return ServiceBusyError(f"{url} answered {status}: {words}", _retry_after(response, error))
    if status in (400, 408, 424) or status >= 500:
        return Fault(f"{url} answered {status}: {words}")
    return ServiceRejectedError(f"{url} answered {status}: {words}")


def _retry_after(response: httpx2.Response, error: dict[str, Any]) -> float:
    for given in (error.get("retry_after_s"), response.headers.get("retry-after")):
        try:
            seconds = float(given)  # type: ignore[arg-type]
        except (TypeError, ValueError):
            continue  # absent, or a date: rare enough to use the default
        if seconds >= 0:
            return min(seconds, _LONGEST_RETRY_AFTER_S)
    return 1.0


def _host(endpoint: Endpoint) -> dict[str, str]:
    return {"Host": endpoint.host} if endpoint.host else {}


def _words(error: Exception) -> str:
    return str(error) or type(error).__name__
