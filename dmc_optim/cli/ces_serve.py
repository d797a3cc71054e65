"""`dmc-optim ces serve`: the execution service of this machine over HTTP."""

import json
import os
from contextlib import closing
from pathlib import Path
from typing import Any

import click

from dmc_optim.errors import ConfigError

_MIB = 1 << 20


@click.command()
@click.option(
    "--host", default="127.0.0.1", show_default=True, help="Address to serve on; others than loopback need a token."
)
@click.option(
    "--port", type=click.IntRange(0, 65535), default=8000, show_default=True, help="Port; 0 takes a free one."
)
@click.option(
    "--slots", type=click.IntRange(min=1), help="Executions at the same time, one core each [default: what fits]."
)
@click.option("--tier", help="Weakest isolation tier accepted; `dmc-optim ces doctor` lists them.")
@click.option(
    "--engine", default="embedded", show_default=True, help="`embedded`, or `fake[:SEED]` to try clients out."
)
@click.option(
    "--token-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="File with the bearer token (or set DMC_OPTIM_CES_TOKEN).",
)
@click.option("--node", default="", help="Name of this node in results [default: the host's name].")
@click.option(
    "--queue-limit", type=click.IntRange(min=0), default=64, show_default=True, help="Requests that may wait."
)
@click.option("--max-tests", type=click.IntRange(min=1), default=4096, show_default=True, help="Tests in a request.")
@click.option("--max-body-mib", type=click.IntRange(min=1), default=96, show_default=True, help="Request body, MiB.")
@click.option(
    "--max-blob-mib", type=click.IntRange(min=1), default=64, show_default=True, help="One uploaded content, MiB."
)
@click.option(
    "--blob-memory-mib", type=click.IntRange(min=0), default=128, show_default=True, help="Blobs in memory, MiB."
)
@click.option("--blob-disk-mib", type=click.IntRange(min=1), default=4096, show_default=True, help="Blobs in all, MiB.")
@click.option("--spool-dir", type=click.Path(path_type=Path), help="Where blobs and answers spill [default: system's].")
@click.option(
    "--drain-s", type=click.FloatRange(min=0), default=120.0, show_default=True, help="Bound on a graceful stop."
)
@click.option("--json", "as_json", is_flag=True, help="Announce the address as a JSON object.")
def serve(
    host: str,
    port: int,
    slots: int | None,
    tier: str | None,
    engine: str,
    token_file: Path | None,
    node: str,
    as_json: bool,
    **bounds: Any,
) -> None:
    """Serve this machine's engine over HTTP.

    Prints the address once it listens. Without a token it serves this machine only. SIGTERM drains: accepted work
    is finished, new work refused. Clients use it with --ces http://HOST:PORT.

    \b
    Example:
      dmc-optim ces serve --port 8000 --slots 2
      dmc-optim ces serve --host 0.0.0.0 --token-file token.txt
    """
    from dmc_optim.ces import connect
    from dmc_optim.ces.service.server import check_address
    from dmc_optim.ces.service.server import serve as serve_executor
    from dmc_optim.ces.service.settings import ServiceSettings

    settings = ServiceSettings(
        token=_token(token_file),
        node=node,
        queue_limit=bounds["queue_limit"],
        max_tests=bounds["max_tests"],
        max_body_bytes=bounds["max_body_mib"] * _MIB,
        max_blob_bytes=bounds["max_blob_mib"] * _MIB,
        blob_memory_bytes=bounds["blob_memory_mib"] * _MIB,
        blob_disk_bytes=bounds["blob_disk_mib"] * _MIB,
        spool_dir=bounds["spool_dir"],
        drain_s=bounds["drain_s"],
    )
    check_address(host, settings.token)  # before the engine starts: it takes a second
    if engine.partition(":")[0] not in ("embedded", "fake"):
        raise ConfigError(f"--engine {engine} is unknown: use embedded or fake[:SEED]")
    with closing(connect(engine, slots=slots, tier=tier)) as executor:

        def announce(url: str) -> None:
            if as_json:
                click.echo(json.dumps({"url": url, "slots": executor.parallelism, "pid": os.getpid()}))
            else:
                click.echo(f"serving {executor.parallelism} slot(s) on {url}; stop with SIGTERM or Ctrl-C")

        serve_executor(executor, settings, host, port, announce)


def _token(token_file: Path | None) -> str | None:
    from dmc_optim.ces.client.client import TOKEN_VARIABLE

    if token_file is None:
        return os.environ.get(TOKEN_VARIABLE) or None
    try:
        token = token_file.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"the token file {token_file} cannot be read as ASCII text ({error})") from error
    if not token or any(character.isspace() for character in token):
        raise ConfigError(f"the token file {token_file} must hold one word; write the token alone into it")
    return token
