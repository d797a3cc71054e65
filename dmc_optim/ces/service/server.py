"""Serving a node: which addresses it may bind, what signals do, how it drains."""

import ipaddress
import logging
import signal
import socket
import time
from collections.abc import Callable
from types import FrameType

import uvicorn

from dmc_optim.ces.service.app import create_app
from dmc_optim.ces.service.node import Node
from dmc_optim.ces.service.settings import ServiceSettings
from dmc_optim.ces.types import Executor
from dmc_optim.errors import ConfigError

logger = logging.getLogger(__name__)

_BACKLOG = 1024
# Load balancers notice a closed readiness only at their next probe: a node that closes at once would refuse
# connections that they still send.
_LEAST_DRAIN_S = 0.2
_LAST_WORDS_S = 1.0


def check_address(host: str, token: str | None) -> None:
    """Raise ConfigError for an address that others can reach when there is no token to keep them out."""
    if token is None and not is_loopback(host):
        raise ConfigError(
            f"refusing to serve on {host} without a token: anybody who reaches it could run programs here; "
            "give --token-file (or DMC_OPTIM_CES_TOKEN), or serve on 127.0.0.1"
        )


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach the address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def bind(host: str, port: int) -> socket.socket:
    """A listening socket; port 0 takes a free one. Raises ConfigError when the address cannot be had."""
    try:
        family, kind, proto, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, kind, proto)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(_BACKLOG)
    except OSError as error:
        reason = error.strerror or str(error)
        raise ConfigError(f"cannot listen on {host}:{port} ({reason}); choose another --host or --port") from error
    listener.set_inheritable(False)
    return listener


class DrainingServer(uvicorn.Server):
    """uvicorn that drains on its first SIGTERM or SIGINT, and stops at once on the second.

    While it drains, readiness is false and new executions get 503; it stops when accepted work is finished and its
    answers are sent, or when drain_s is over.
    """

    def __init__(self, config: uvicorn.Config, node: Node) -> None:
        super().__init__(config)
        self._node = node
        self._drain_since: float | None = None
        self._abandoned = False

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Note the signal; `on_tick` acts on it. Nothing is raised again at the end, so a drained node exits 0."""
        if self._drain_since is not None:
            self.should_exit = self.force_exit = True
            return
        self._drain_since = time.monotonic()
        self._node.draining = True
        logger.warning("%s: finishing accepted work, refusing new", signal.Signals(sig).name)

    async def on_tick(self, counter: int) -> bool:
        """Called by uvicorn ten times a second."""
        if self._drain_since is not None:
            waited = time.monotonic() - self._drain_since
            overtime = waited - self._node.settings.drain_s
            if overtime >= 0 and not self._abandoned:
                self._abandoned = True
                if self._node.busy:
                    logger.warning("drain time is over with work unfinished: cancelling it, its clients ask elsewhere")
                    self._node.abandon()
            if (waited >= _LEAST_DRAIN_S and not self._node.busy) or overtime >= _LAST_WORDS_S:
                self.should_exit = True
        return await super().on_tick(counter)


def serve(
    executor: Executor,
    settings: ServiceSettings,
    host: str,
    port: int,
    announce: Callable[[str], None],
) -> None:
    """Serve until a signal has drained the node. Call it in the main thread.

    announce: called with the address (`http://127.0.0.1:8000`) once the socket listens. Raises ConfigError.
    """
    check_address(host, settings.token)
    listener = bind(host, port)
    app = create_app(executor, settings)
    config = uvicorn.Config(
        app,
        access_log=False,
        log_level="warning",
        lifespan="on",
        ws="none",
        timeout_keep_alive=75,  # above the idle time-outs of common load balancers
        timeout_graceful_shutdown=5,
    )
    shown, bound_port = listener.getsockname()[:2]
    announce(f"http://{f'[{shown}]' if ':' in shown else shown}:{bound_port}")
    DrainingServer(config, app.state.node).run(sockets=[listener])
