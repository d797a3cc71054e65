"""Reading CodeContests Parquet: which files, which rows, with string columns as bytes.

One bad byte in a string column would otherwise fail the whole read; as bytes it costs its own row only.
"""

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq

from dmc_optim.errors import SourceError

ROWS_AT_ONCE = 32
_SHARD_SUFFIX = re.compile(r"-\d{5}-of-\d{5}$")

_STRING, _INT = pa.binary(), pa.int64()
_TESTS = pa.struct([("input", pa.list_(_STRING)), ("output", pa.list_(_STRING))])
_SOLUTIONS = pa.struct([("language", pa.list_(_INT)), ("solution", pa.list_(_STRING))])

SOURCE_SCHEMA = pa.schema(
    [
        ("name", _STRING),
        ("description", _STRING),
        ("public_tests", _TESTS),
        ("private_tests", _TESTS),
        ("generated_tests", _TESTS),
        ("source", _INT),
        ("difficulty", _INT),
        ("solutions", _SOLUTIONS),
        ("incorrect_solutions", _SOLUTIONS),
        ("cf_contest_id", _INT),
        ("cf_index", _STRING),
        ("cf_points", pa.float64()),
        ("cf_rating", _INT),
        ("cf_tags", pa.list_(_STRING)),
        ("is_description_translated", pa.bool_()),
        ("untranslated_description", _STRING),
        ("time_limit", pa.struct([("seconds", _INT), ("nanos", _INT)])),
        ("memory_limit_bytes", _INT),
        ("input_file", _STRING),
        ("output_file", _STRING),
    ]
)
"""Columns of deepmind/code_contests, text as bytes."""


@dataclass(frozen=True)
class SourceRange:
    """Rows [start, stop) of one file; `first` is the index in the split of the file's row 0."""

    url: str
    split: str
    first: int
    start: int
    stop: int

    @property
    def name(self) -> str:
        """File-name form, unique in a build."""
        return f"{self.split}-{self.first + self.start:08d}"


@dataclass(frozen=True)
class SourceFile:
    """One Parquet file of the source, checked: it can be opened and has the columns. fingerprint names its content."""

    url: str
    split: str
    rows: int
    fingerprint: str


def split_of(path: str) -> str:
    """The file name's stem before `-NNNNN-of-NNNNN`, else the whole stem."""
    stem = path.rsplit("/", 1)[-1].removesuffix(".parquet")
    return _SHARD_SUFFIX.sub("", stem)


def find_files(source: str) -> list[SourceFile]:
    """Files of PATH, GLOB, folder or URL, in name order. Raises SourceError with one line for what is wrong."""
    try:
        fs, path = fsspec.core.url_to_fs(source)
        if fs.isdir(path):
            path = path.rstrip("/") + "/*.parquet"
        found = sorted(str(p) for p in fs.glob(path)) if any(c in path for c in "*?[") else [path]
        missing = not found or not all(fs.exists(p) for p in found)
    except (OSError, ValueError, ImportError) as error:
        raise SourceError(f"--source {source}: cannot be reached: {_first_line(error)}") from error
    if missing:
        raise SourceError(f"--source {source}: no such file; give a Parquet file, a glob, a folder or hf://…")
    return [_check_file(fs, p) for p in sorted(found, key=lambda p: (split_of(p), p))]


def _check_file(fs: fsspec.AbstractFileSystem, path: str) -> SourceFile:
    try:
        with fs.open(path, "rb") as handle:
            parquet = pq.ParquetFile(handle)
            schema, rows = parquet.schema_arrow, parquet.metadata.num_rows
            size = handle.seek(0, 2)
            handle.seek(max(0, size - 65536))
            tail = handle.read()
    except (pa.ArrowException, OSError) as error:
        raise SourceError(f"{path}: not a readable Parquet file: {_first_line(error)}") from error
    missing = [name for name in SOURCE_SCHEMA.names if name not in schema.names]
    if missing:
        raise SourceError(f"{path}: columns missing: {', '.join(missing)}; expected those of deepmind/code_contests")
    for expected in SOURCE_SCHEMA:
        actual = schema.field(expected.name).type
        if not _castable(actual, expected.type):
            raise SourceError(f"{path}: column {expected.name} has type {actual}, expected {_plain(expected.type)}")
    name = path.rsplit("/", 1)[-1]
    fingerprint = hashlib.sha256(f"{name} {size} ".encode() + tail).hexdigest()[:16]
    return SourceFile(fs.unstrip_protocol(path), split_of(path), rows, fingerprint)


def plan_ranges(files: list[SourceFile], limit: int | None, size: int = 256) -> list[SourceRange]:
    """Cut the source into ranges of at most `size` rows; only its first `limit` rows where a limit is given."""
    ranges: list[SourceRange] = []
    firsts: dict[str, int] = {}
    left = limit if limit is not None else sum(f.rows for f in files)
    for file in files:
        first = firsts.get(file.split, 0)
        firsts[file.split] = first + file.rows
        stop = min(file.rows, left)
        left -= stop
        for start in range(0, stop, size):
            ranges.append(SourceRange(file.url, file.split, first, start, min(start + size, stop)))
    return ranges


def source_names(files: list[SourceFile]) -> tuple[set[str], set[str]]:
    """(ids, names) of all rows of the source, limits aside; a name that is no text is left out."""
    ids: set[str] = set()
    names: set[str] = set()
    firsts: dict[str, int] = {}
    for file in files:
        first = firsts.get(file.split, 0)
        firsts[file.split] = first + file.rows
        ids |= {f"{file.split}/{first + row}" for row in range(file.rows)}
        fs, path = fsspec.core.url_to_fs(file.url)
        with fs.open(path, "rb") as handle:
            column = pq.read_table(handle, columns=["name"]).column("name").cast(pa.binary())
        names |= {name.decode("utf-8", "replace") for name in column.to_pylist() if name is not None}
    return ids, names


def read_range(span: SourceRange) -> Iterator[tuple[int, dict[str, Any]]]:
    """(index in the split, row) of a range; text as bytes, a few rows in memory at a time."""
    fs, path = fsspec.core.url_to_fs(span.url)
    with fs.open(path, "rb") as handle:
        parquet = pq.ParquetFile(handle)
        groups, position = [], 0
        begin = None
        for group in range(parquet.num_row_groups):
            rows = parquet.metadata.row_group(group).num_rows
            if position + rows > span.start and position < span.stop:
                groups.append(group)
                begin = position if begin is None else begin
            position += rows
        index = begin or 0
        for batch in parquet.iter_batches(ROWS_AT_ONCE, row_groups=groups, columns=list(SOURCE_SCHEMA.names)):
            table = pa.Table.from_batches([batch]).select(SOURCE_SCHEMA.names)
            table = pa.table([_as_bytes(table.column(f.name), f.type) for f in SOURCE_SCHEMA], schema=SOURCE_SCHEMA)
            for row in table.to_pylist():
                if span.start <= index < span.stop:
                    yield span.first + index, row
                index += 1


def _as_bytes(column: pa.ChunkedArray, expected: pa.DataType) -> pa.ChunkedArray:
    return column.cast(expected)


def _castable(actual: pa.DataType, expected: pa.DataType) -> bool:
    if pa.types.is_struct(expected):
        return pa.types.is_struct(actual) and all(
            actual.get_field_index(f.name) >= 0 and _castable(actual.field(f.name).type, f.type) for f in expected
        )
    if pa.types.is_list(expected):
        return (pa.types.is_list(actual) or pa.types.is_large_list(actual)) and _castable(
            actual.value_type, expected.value_type
        )
    if pa.types.is_binary(expected):
        kinds = (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary, pa.types.is_large_binary)
        return any(kind(actual) for kind in kinds) or pa.types.is_null(actual)
    if pa.types.is_integer(expected):
        return pa.types.is_integer(actual) or pa.types.is_null(actual)
    if pa.types.is_floating(expected):
        return pa.types.is_floating(actual) or pa.types.is_integer(actual) or pa.types.is_null(actual)
    return pa.types.is_boolean(actual) or pa.types.is_null(actual)


def _plain(kind: pa.DataType) -> str:
    return str(kind).replace("binary", "string")


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
