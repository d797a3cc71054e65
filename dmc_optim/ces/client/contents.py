"""What of a request travels inline and what is uploaded once per node, by hash."""

import hashlib
import threading
from collections import OrderedDict
from functools import cached_property

from dmc_optim.ces.service.wire import encode_content, encode_request
from dmc_optim.ces.types import Request

_REMEMBER_FROM_BYTES = 256 * 1024
_REMEMBERED_BYTES = 128 << 20


class Digests:
    """SHA-256 of contents; those of large ones are remembered by identity, as the same input meets many programs.

    Holding the bytes keeps their identity theirs. Bounded; thread-safe.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._remembered: OrderedDict[int, tuple[bytes, str]] = OrderedDict()
        self._bytes = 0

    def of(self, data: bytes) -> str:
        """The hash, lower-case hexadecimal."""
        if len(data) < _REMEMBER_FROM_BYTES:
            return hashlib.sha256(data).hexdigest()
        with self._lock:
            entry = self._remembered.get(id(data))
            if entry is not None:
                self._remembered.move_to_end(id(data))
                return entry[1]
        digest = hashlib.sha256(data).hexdigest()
        with self._lock:
            if id(data) not in self._remembered:
                self._remembered[id(data)] = (data, digest)
                self._bytes += len(data)
            while self._bytes > _REMEMBERED_BYTES and len(self._remembered) > 1:
                _, (dropped, _) = self._remembered.popitem(last=False)
                self._bytes -= len(dropped)
        return digest


class Parcel:
    """A request as it travels: its body, and the blobs that the body names by hash.

    inline_bytes: contents up to this size stand in the body.
    """

    def __init__(self, request: Request, digests: Digests, inline_bytes: int) -> None:
        self.request = request
        self.blobs: dict[str, bytes] = {}
        self._digests = digests
        self._inline_bytes = inline_bytes
        self.body = encode_request(request, self._reference)

    @cached_property
    def inline_body(self) -> bytes:
        """The body with everything in it, for a balancer that sends uploads and requests to different nodes."""
        return encode_request(self.request)

    def _reference(self, data: bytes) -> dict[str, str]:
        if len(data) <= self._inline_bytes:
            return encode_content(data)
        digest = self._digests.of(data)
        self.blobs[digest] = data
        return {"sha256": digest}
