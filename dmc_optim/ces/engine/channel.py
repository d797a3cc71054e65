"""Messages with file descriptors between the caller and its supervisors: pickles over a sequenced-packet socket.

Both ends are this package and nothing of a sandbox ever writes here, so pickle is safe. A message too big for a
packet travels in a memory file whose descriptor comes first.
"""

import contextlib
import os
import pickle
import socket
import threading
from collections.abc import Sequence
from typing import Any

from dmc_optim.ces.engine.blobs import close_all, read_all, sealed

PACKET_BYTES = 1 << 16  # well below what a socket's buffer takes at once
_INLINE, _FILE = b"i", b"f"
_MOST_FDS = 250  # the kernel's limit is 253 a message


class Closed(Exception):
    """The other end is gone."""


def pair() -> tuple[socket.socket, socket.socket]:
    """Two connected ends."""
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)


class Channel:
    """One end of a connection. Sending is thread-safe; one thread at a time receives."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self._sending = threading.Lock()

    def fileno(self) -> int:
        """The descriptor to poll."""
        return self.sock.fileno()

    def send(self, message: Any, fds: Sequence[int] = ()) -> None:
        """Send one message; at most 249 descriptors travel with it. Raises Closed."""
        body = pickle.dumps(message, protocol=5)
        try:
            if len(body) < PACKET_BYTES:
                self._send(_INLINE + body, fds)
                return
            file = sealed(body)
            try:
                self._send(_FILE, [file, *fds])
            finally:
                os.close(file)
        except OSError as error:
            raise Closed(str(error)) from error

    def receive(self) -> tuple[Any, list[int]]:
        """Wait for one message and the descriptors that came with it. Raises Closed."""
        try:
            data, fds, _, _ = socket.recv_fds(self.sock, PACKET_BYTES + 1, _MOST_FDS, socket.MSG_CMSG_CLOEXEC)
        except OSError as error:
            raise Closed(str(error)) from error
        if not data:
            raise Closed("end of stream")
        if data[:1] == _FILE:
            file = fds.pop(0)
            body = read_all(file)
            close_all([file])
            return pickle.loads(body), fds
        return pickle.loads(memoryview(data)[1:]), fds

    def close(self) -> None:
        """Close this end."""
        with contextlib.suppress(OSError):
            self.sock.close()

    def _send(self, data: bytes, fds: Sequence[int]) -> None:
        with self._sending:
            if fds:
                socket.send_fds(self.sock, [data], list(fds))
            else:
                self.sock.send(data)
