"""A DuckDB connection over a build's tables, read-only in effect: it holds views, the files stay as they are.

Views: one for every table (an absent table is an empty one with the right columns), `stages` (name and position),
`config` (every setting of the build as text), and those of `dmc_optim.audit.survivors`.
"""

import json
import tempfile
from collections.abc import Iterator
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from dmc_optim.artifacts.layout import Layout
from dmc_optim.audit.survivors import fates_view, survivor_views
from dmc_optim.errors import ArtifactError, UsageError
from schemas import SCHEMA_VERSION, TABLES
from schemas.enums import Stage
from schemas.table import Table

_DUCKDB_TYPES = {
    pa.string(): "VARCHAR",
    pa.int64(): "BIGINT",
    pa.float64(): "DOUBLE",
    pa.bool_(): "BOOLEAN",
    pa.list_(pa.string()): "VARCHAR[]",
    pa.list_(pa.float64()): "DOUBLE[]",
}


def connect(out: str) -> duckdb.DuckDBPyConnection:
    """Open a build. Raises ArtifactError when `out` is no build or one of its files cannot be read."""
    layout = Layout(str(out))
    if not layout.fs.isdir(layout.root):
        raise ArtifactError(f"{out}: no such directory")
    manifest = layout.manifest()
    _refuse_other_major(out, manifest)
    connection = duckdb.connect(config={"temp_directory": tempfile.gettempdir()})
    if "file" not in (layout.fs.protocol if isinstance(layout.fs.protocol, tuple) else (layout.fs.protocol,)):
        connection.register_filesystem(layout.fs)
    for table in TABLES.values():
        connection.execute(f"CREATE VIEW {table.name} AS {_select(layout, table)}")
    derive_views(connection, manifest)
    return connection


def derive_views(connection: duckdb.DuckDBPyConnection, manifest: dict[str, Any]) -> None:
    """Create everything that stands on the tables' own views: stages, config, survivors, fates."""
    rows = ", ".join(f"({position}, '{stage}')" for position, stage in enumerate(Stage))
    connection.execute(f"CREATE VIEW stages AS SELECT * FROM (VALUES {rows}) t(position, stage)")
    _create_config(connection, manifest)
    for name, sql in survivor_views():
        connection.execute(f"CREATE VIEW {name} AS {sql}")
    connection.execute(f"CREATE VIEW fates AS {fates_view()}")


def query(connection: duckdb.DuckDBPyConnection, sql: str) -> tuple[list[str], list[tuple[Any, ...]]]:
    """Column names and rows of a person's query. Raises UsageError for SQL that DuckDB refuses."""
    try:
        cursor = connection.execute(sql)
        return [name for name, *_ in cursor.description or ()], cursor.fetchall()
    except duckdb.Error as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        hint = next((line for line in lines[1:] if not line.startswith(("LINE", "^"))), "")
        raise UsageError(f"--sql: {lines[0]}{'; ' + hint if hint else ''}") from error


def _refuse_other_major(out: str, manifest: dict[str, Any]) -> None:
    theirs = str(manifest.get("schema_version", SCHEMA_VERSION))
    if theirs.split(".")[0] != SCHEMA_VERSION.split(".")[0]:
        raise ArtifactError(f"{out}: schema version {theirs}, this program reads {SCHEMA_VERSION}; build it again")


def _select(layout: Layout, table: Table) -> str:
    files = layout.glob(f"tables/{table.name}/*.parquet")
    for file in files:
        _check_footer(layout, file, table)
    if not files:
        columns = ", ".join(f"NULL::{_DUCKDB_TYPES[column.type]} AS {column.name}" for column in table.columns)
        return f"SELECT {columns} WHERE false"
    names = ", ".join("'" + _url(layout, file).replace("'", "''") + "'" for file in files)
    return f"SELECT {', '.join(table.column_names)} FROM read_parquet([{names}], hive_partitioning = false)"


def _url(layout: Layout, file: str) -> str:
    url = str(layout.fs.unstrip_protocol(file))
    return file if url.startswith("file:") else url


def _check_footer(layout: Layout, file: str, table: Table) -> None:
    """One clear line about a file that is cut short or of another schema, before DuckDB meets it."""
    try:
        with layout.fs.open(file, "rb") as handle:
            schema = pq.read_schema(handle)
    except (pa.ArrowException, OSError) as error:
        raise ArtifactError(
            f"{file}: not a readable Parquet file ({str(error).splitlines()[0]}); remove it and build again"
        ) from error
    for field in table.schema:
        index = schema.get_field_index(field.name)
        if index < 0:
            raise ArtifactError(f"{file}: no column '{field.name}' (table {table.name}); build it again")
        if schema.field(index).type != field.type:
            raise ArtifactError(
                f"{file}: column '{field.name}' is {schema.field(index).type}, expected {field.type}; build it again"
            )


def _create_config(connection: duckdb.DuckDBPyConnection, manifest: dict[str, Any]) -> None:
    connection.execute("CREATE TABLE config (key VARCHAR, value VARCHAR)")
    for key, value in _flat(manifest.get("config") or {}):
        connection.execute("INSERT INTO config VALUES (?, ?)", [key, value])


def _flat(value: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    for key, item in value.items():
        if isinstance(item, dict):
            yield from _flat(item, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", item if isinstance(item, str) else json.dumps(item)
