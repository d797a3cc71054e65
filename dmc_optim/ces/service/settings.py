"""What one service node accepts, keeps and waits for."""

from dataclasses import dataclass, field
from pathlib import Path

from dmc_optim.ces.types import MIB, Limits
from dmc_optim.errors import ConfigError

GIB = 1 << 30


def _highest_limits() -> Limits:
    return Limits(
        time_s=120.0,
        wall_factor=10.0,
        memory_bytes=4 * GIB,
        output_bytes=64 * MIB,
        stderr_bytes=MIB,
        tmp_bytes=2 * GIB,
        processes=1024,
    )


@dataclass(frozen=True, slots=True)
class ServiceSettings:
    """Settings of a node. Times in seconds, sizes in bytes.

    token: bearer token asked of every call but the health probes; None serves loopback clients only.
    node: name put on every result; "" keeps the executor's own.
    queue_limit, queue_bytes: accepted requests that wait for the engine, bytes of all their bodies; beyond: 429.
    max_body_bytes: the default holds one 64 MiB input in base64. max_blob_bytes: the largest single content.
    max_response_bytes: bound on tests × output cap of a request that asks for its outputs.
    memory_per_run_bytes: contents resolved at a time for a running request, so that many large inputs do not
    stand in memory together.
    ledger_*: how many finished requests, for how long, in how many bytes, can be replayed.
    grace_s: a request whose last client is gone is cancelled after this long (a resume falls inside it).
    linger_s: results are sent together when they come within this time.
    stall_s: a client that takes or sends nothing for this long is gone. drain_s: bound on a graceful stop.
    """

    token: str | None = None
    node: str = ""
    queue_limit: int = 64
    queue_bytes: int = 256 * MIB
    max_tests: int = 4096
    max_body_bytes: int = 96 * MIB
    max_blob_bytes: int = 64 * MIB
    max_response_bytes: int = 4 * GIB
    memory_per_run_bytes: int = 64 * MIB
    highest_limits: Limits = field(default_factory=_highest_limits)
    blob_memory_bytes: int = 128 * MIB
    blob_disk_bytes: int = 4 * GIB
    spool_dir: Path | None = None
    ledger_entries: int = 4096
    ledger_bytes: int = 256 * MIB
    ledger_ttl_s: float = 900.0
    grace_s: float = 0.5
    linger_s: float = 0.05
    heartbeat_s: float = 5.0
    stall_s: float = 60.0
    drain_s: float = 120.0

    def __post_init__(self) -> None:
        """Raise ConfigError for a setting that no node can run with."""
        for name in ("queue_bytes", "max_tests", "max_body_bytes", "max_blob_bytes", "heartbeat_s", "stall_s"):
            if getattr(self, name) <= 0:
                raise ConfigError(f"service setting {name} is {getattr(self, name)}; it must be above 0")
        if self.queue_limit < 0:
            raise ConfigError(f"service setting queue_limit is {self.queue_limit}; it must be 0 or more")
        if self.blob_disk_bytes < self.max_blob_bytes:
            raise ConfigError(
                f"the blob store's disk bound ({self.blob_disk_bytes} bytes) is below the largest blob accepted "
                f"({self.max_blob_bytes} bytes); raise the one or lower the other"
            )
        if self.token is not None and not self.token.strip():
            raise ConfigError("the service token is empty; give at least one character or no token at all")
