"""CES, the calibrated execution service: programs in, verdicts and durations out.

`connect` gives an Executor: the engine embedded in this machine, a client of services, or the fake of the tests.
"""

from typing import Any

from dmc_optim.ces.types import (
    Cancellable,
    Clock,
    Executor,
    Limits,
    Request,
    Result,
    StopRule,
    TestCase,
)
from dmc_optim.errors import ConfigError
from schemas.enums import Status

__all__ = [
    "Cancellable",
    "Clock",
    "Executor",
    "Limits",
    "Request",
    "Result",
    "Status",
    "StopRule",
    "TestCase",
    "check_spec",
    "connect",
]

_SERVICES = ("http", "https", "dns+http", "dns+https")


def connect(
    spec: str = "embedded",
    *,
    slots: int | None = None,
    tier: str | None = None,
    token: str | None = None,
    **options: Any,
) -> Executor:
    """An executor: `embedded`, `http://host:port[,http://…]`, `dns+http://name:port`, or `fake[:SEED]`.

    slots and tier belong to the embedded engine, token to services; options go to the executor's constructor.
    Raises ConfigError for another spec, IsolationError when this host cannot isolate as asked.
    """
    check_spec(spec)
    kind, _, rest = spec.partition(":")
    if spec == "embedded":
        from dmc_optim.ces.engine.embedded import Embedded
        from dmc_optim.ces.health.state import current_epoch

        options.setdefault("epoch", current_epoch())  # what `ces probe` last found
        return Embedded(slots, tier, **options)
    if kind in _SERVICES:
        from dmc_optim.ces.client import Client

        return Client([url.strip() for url in spec.split(",") if url.strip()], token=token, **options)
    from dmc_optim.ces.fake import FakeEngine

    return FakeEngine(int(rest or 0), **options)


def check_spec(spec: str) -> None:
    """Raises ConfigError for what `connect` does not know; starts and asks nothing."""
    kind, _, rest = spec.partition(":")
    if spec != "embedded" and kind not in _SERVICES and not (kind == "fake" and (not rest or rest.isdecimal())):
        raise ConfigError(f"execution service {spec!r} is unknown: use embedded, http://HOST:PORT[,…] or fake[:SEED]")
