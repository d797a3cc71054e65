"""The Parquet sink of a stage: sorted rows, bounded row groups, a temporary name until the file is whole.

Ours instead of Beam's `WriteToParquet`, which buffers rows before it looks at bytes, drops unknown fields silently
and exposes neither the page index nor content-defined chunking.
"""

import uuid
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from dmc_optim.artifacts.layout import Layout
from dmc_optim.errors import ArtifactError
from schemas import SCHEMA_VERSION, TABLES

ROW_GROUP_BYTES = 96 << 20  # between the 64 and 128 MB that readers of the Hub like


class ParquetSink:
    """Writes one Parquet file, row group by row group; nothing is visible before `close`.

    path: final path. metadata: extra footer entries. Rows are dictionaries with exactly the schema's names.
    """

    def __init__(self, layout: Layout, path: str, schema: pa.Schema, metadata: dict[str, str] | None = None) -> None:
        self._layout = layout
        self._path = path
        footer = {**(schema.metadata or {}), b"schema_version": SCHEMA_VERSION.encode()}
        footer |= {key.encode(): value.encode() for key, value in (metadata or {}).items()}
        self._schema = schema.with_metadata(footer)
        self._temporary = f"{path}.{uuid.uuid4().hex}.tmp"
        self._rows: list[dict[str, Any]] = []
        self._tables: list[pa.Table] = []
        self._bytes = 0  # of what waits in both
        self._handle: Any = None
        self._writer: pq.ParquetWriter | None = None
        self.n_rows = 0

    def write(self, row: dict[str, Any]) -> None:
        """Append one row. Raises ArtifactError for a row with other columns than the schema's."""
        if row.keys() != set(self._schema.names):
            odd = sorted(row.keys() ^ set(self._schema.names))
            raise ArtifactError(f"{self._path}: row and schema differ in {', '.join(odd)}")
        self._make_room(_size(row))
        self._rows.append(row)

    def write_table(self, table: pa.Table) -> None:
        """Append rows of the sink's schema, without making Python objects of them."""
        for piece in _pieces(table):
            self._make_room(piece.nbytes)
            self._rows_to_table()
            self._tables.append(piece.cast(self._schema))

    def _make_room(self, size: int) -> None:
        if self._bytes and self._bytes + size > ROW_GROUP_BYTES:
            self._flush()
        self._bytes += size

    def close(self) -> bool:
        """Make the file visible; False when there was no row, and so no file."""
        self._flush()
        if self._writer is None:
            return False
        self._writer.close()
        self._handle.close()
        self._layout.fs.mv(self._temporary, self._path)
        return True

    def _rows_to_table(self) -> None:
        if self._rows:
            self._tables.append(pa.Table.from_pylist(self._rows, schema=self._schema))
            self._rows = []

    def _flush(self) -> None:
        """Write what waits as one row group."""
        self._rows_to_table()
        if not self._tables:
            return
        if self._writer is None:
            self._layout.fs.makedirs(self._path.rsplit("/", 1)[0], exist_ok=True)
            self._handle = self._layout.fs.open(self._temporary, "wb")
            self._writer = pq.ParquetWriter(
                self._handle,
                self._schema,
                compression="zstd",
                write_page_index=True,
                use_content_defined_chunking=True,
                use_compliant_nested_type=True,
            )
        group = pa.concat_tables(self._tables)
        self._writer.write_table(group, row_group_size=group.num_rows)
        self.n_rows += group.num_rows
        self._tables, self._bytes = [], 0


class ShardSink:
    """The files of one (stage, shard): one for every table that gets a row. Problems come in sorted order."""

    def __init__(self, layout: Layout, stage: str, shard: int, metadata: dict[str, str]) -> None:
        self._layout, self._stage, self._shard, self._metadata = layout, stage, shard, metadata
        self._sinks: dict[str, ParquetSink] = {}

    def write(self, table: str, rows: Iterable[dict[str, Any]] | pa.Table) -> None:
        """Rows of one problem. They are written sorted by the table's key; those of an Arrow table come sorted."""
        if isinstance(rows, pa.Table):
            if rows.num_rows:
                self._sink(table).write_table(rows)
            return
        for row in in_order(table, rows):
            self._sink(table).write(row)

    def _sink(self, table: str) -> ParquetSink:
        if table not in self._sinks:
            path = self._layout.table_file(table, self._stage, self._shard)
            self._sinks[table] = ParquetSink(self._layout, path, TABLES[table].schema, self._metadata)
        return self._sinks[table]

    def close(self) -> dict[str, int]:
        """Publish the files, and remove those that an unfinished run left for tables without rows now.

        Not `attrition`: it is no shard's, is written in every run, and may be there before this shard is done.
        """
        for table in TABLES:
            if table not in self._sinks and table != "attrition":
                stale = self._layout.table_file(table, self._stage, self._shard)
                if self._layout.fs.exists(stale):
                    self._layout.fs.rm(stale)
        return self.publish()

    def publish(self) -> dict[str, int]:
        """Make the written files visible; rows a table. `close` without the removal, for a part of the tables."""
        for sink in self._sinks.values():
            sink.close()
        return {table: sink.n_rows for table, sink in self._sinks.items()}


def in_order(table: str, rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows sorted by the table's key."""
    key = TABLES[table].key
    return sorted(rows, key=lambda row: tuple(row[name] for name in key))


def _pieces(table: pa.Table) -> Iterator[pa.Table]:
    """Consecutive parts, none of two rows or more over ROW_GROUP_BYTES."""
    if table.nbytes <= ROW_GROUP_BYTES or table.num_rows < 2:
        yield table
        return
    half = table.num_rows // 2
    yield from _pieces(table.slice(0, half))
    yield from _pieces(table.slice(half))


def _size(value: Any) -> int:
    """Bytes of a value, about: text exactly, so that no row group of other scripts grows over its bound."""
    if isinstance(value, str):
        return len(value) if value.isascii() else len(value.encode())
    if isinstance(value, bytes):
        return len(value)
    if isinstance(value, dict):
        return sum(_size(v) for v in value.values())
    if isinstance(value, list | tuple):
        return sum(_size(v) for v in value) + 8
    return 8
