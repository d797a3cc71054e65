"""Length-framed pickles with file descriptors over a stream socket, between the caller and its supervisors.

Both ends are this package and nothing of a sandbox ever writes here, so pickle is safe.
"""

import contextlib
import os
import pickle
import socket
import struct
import threading
from collections.abc import Sequence
from typing import Any

_HEADER = struct.Struct("!IH")
_MAX_FDS = 250  # the kernel's limit is 253 a message


class Closed(Exception):
    """The other end is gone."""


class Channel:
    """One end of a connection. Sending is thread-safe; one thread at a time receives."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self._sending = threading.Lock()

    def fileno(self) -> int:
        """The descriptor to poll."""
        return self.sock.fileno()

    def send(self, message: Any, fds: Sequence[int] = ()) -> None:
        """Send one message; at most 250 descriptors travel with it. Raises Closed."""
        assert len(fds) <= _MAX_FDS
        body = pickle.dumps(message, protocol=5)
        data = _HEADER.pack(len(body), len(fds)) + body
        try:
            with self._sending:
                sent = socket.send_fds(self.sock, [data], list(fds)) if fds else self.sock.send(data)
                if sent < len(data):
                    self.sock.sendall(memoryview(data)[sent:])
        except OSError as error:
            raise Closed(str(error)) from error

    def receive(self) -> tuple[Any, list[int]]:
        """Wait for one message and the descriptors that came with it. Raises Closed."""
        fds: list[int] = []
        header = self._exactly(_HEADER.size, fds)
        length, _ = _HEADER.unpack(header)
        return pickle.loads(self._exactly(length, fds)), fds

    def _exactly(self, size: int, fds: list[int]) -> bytes:
        data = bytearray()
        try:
            while len(data) < size:
                if fds:
                    part = self.sock.recv(size - len(data))
                else:
                    part, more, _, _ = socket.recv_fds(self.sock, size - len(data), _MAX_FDS)
                    fds.extend(more)
                if not part:
                    raise Closed("end of stream")
                data += part
        except OSError as error:
            raise Closed(str(error)) from error
        return bytes(data)

    def close(self) -> None:
        """Close this end."""
        with contextlib.suppress(OSError):
            self.sock.close()


def close_all(fds: Sequence[int]) -> None:
    """Close descriptors, whether or not they are open."""
    for fd in fds:
        with contextlib.suppress(OSError):
            os.close(fd)
