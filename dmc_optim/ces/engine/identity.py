"""What a result says about where it was measured: engine and node."""

import importlib.metadata
import socket


def engine_version() -> str:
    """Name and version of this engine, as results carry it."""
    try:
        return f"dmc-optim {importlib.metadata.version('dmc-optim')}"
    except importlib.metadata.PackageNotFoundError:
        return "dmc-optim (not installed)"


def node_name() -> str:
    """Name of this machine."""
    return socket.gethostname()
