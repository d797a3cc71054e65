"""Reading CodeContests Parquet: which files, which rows, with string columns as bytes.

One bad byte in a string column would otherwise fail the whole read; as bytes it costs its own row only.
"""

import contextlib
import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq

from dmc_optim.artifacts.layout import file_name
from dmc_optim.errors import DmcOptimError, SourceError

ROWS_AT_ONCE = 4  # a row may hold hundreds of megabytes, and a batch must stay under Arrow's 2 GB of text
_SHARD_SUFFIX = re.compile(r"-\d{5}-of-\d{5}$")
_NO_SPLIT = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")  # control characters, and bytes that were no UTF-8

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
        return f"{file_name(self.split)}-{self.first + self.start:08d}"


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


@contextlib.contextmanager
def reaching(what: str) -> Iterator[None]:
    """Whatever the client of a file system raises becomes one SourceError: each has errors of its own.

    what: option and value, or the file.
    """
    try:
        yield
    except DmcOptimError:
        raise
    except Exception as error:
        lines = str(error).splitlines() or [type(error).__name__]
        raise SourceError(f"{what}: cannot be read: {lines[0]}") from error


def find_files(source: str) -> list[SourceFile]:
    """Files of PATH, GLOB, folder or URL, in name order. Raises SourceError with one line for what is wrong."""
    with reaching(f"--source {source}"):
        fs, path = fsspec.core.url_to_fs(source)
        if fs.isdir(path):
            found = sorted(str(p) for p in fs.ls(path, detail=False) if str(p).endswith(".parquet") and fs.isfile(p))
            wanted = "no *.parquet in that folder"
        else:
            found = [path] if fs.exists(path) else sorted(str(p) for p in fs.glob(path) if fs.isfile(p))
            wanted = "no such file; give a Parquet file, a glob, a folder or hf://…"
    if not found:
        raise SourceError(f"--source {source}: {wanted}")
    return [_check_file(fs, p) for p in sorted(found, key=lambda p: (split_of(p), p))]


def _check_file(fs: fsspec.AbstractFileSystem, path: str) -> SourceFile:
    split = split_of(path)
    if not split or _NO_SPLIT.search(split):
        raise SourceError(f"{path!r}: its name gives no split for problem ids (empty, or not plain text); rename it")
    with reaching(path), fs.open(path, "rb") as handle:
        try:
            parquet = pq.ParquetFile(handle)
        except (pa.ArrowException, OSError) as error:
            raise SourceError(f"{path}: not a readable Parquet file: {str(error).splitlines()[0]}") from error
        schema, rows = parquet.schema_arrow, parquet.metadata.num_rows
        size = handle.seek(0, 2)
        handle.seek(max(0, size - 65536))
        tail = handle.read()
    missing = [name for name in SOURCE_SCHEMA.names if name not in schema.names]
    if missing:
        raise SourceError(f"{path}: columns missing: {', '.join(missing)}; expected those of deepmind/code_contests")
    twice = [name for name in SOURCE_SCHEMA.names if schema.names.count(name) > 1]
    if twice:
        raise SourceError(f"{path}: more than one column is named {', '.join(twice)}")
    for expected in SOURCE_SCHEMA:
        actual = schema.field(expected.name).type
        if not _castable(actual, expected.type):
            raise SourceError(f"{path}: column {expected.name} has type {actual}, expected {_plain(expected.type)}")
    name = path.rsplit("/", 1)[-1]
    fingerprint = hashlib.sha256(f"{name} {size} ".encode() + tail).hexdigest()[:16]
    return SourceFile(fs.unstrip_protocol(path), split, rows, fingerprint)


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


def read_range(span: SourceRange, schema: pa.Schema = SOURCE_SCHEMA) -> Iterator[tuple[int, dict[str, Any]]]:
    """(index in the split, row) of a range; text as bytes, a few rows in memory at a time.

    schema: part of SOURCE_SCHEMA, down to fields of its structs; only that is read from the file. Raises SourceError
    with file and rows where a page cannot be read.
    """
    index = span.start
    try:
        fs, path = fsspec.core.url_to_fs(span.url)
        with fs.open(path, "rb") as handle:
            for table in _tables(pq.ParquetFile(handle), span.start, span.stop, schema):
                for row in table.to_pylist():
                    yield span.first + index, row
                    index += 1
    except (pa.ArrowException, OSError) as error:
        where = f"{span.url}: row {index} or later (counted from 0)"
        raise SourceError(f"{where} cannot be read: {str(error).splitlines()[0]}") from error


def _tables(parquet: pq.ParquetFile, start: int, stop: int, schema: pa.Schema) -> Iterator[pa.Table]:
    """Rows [start, stop) in small tables of the schema, in order."""
    groups, position = [], 0
    first = None
    for group in range(parquet.num_row_groups):
        rows = parquet.metadata.row_group(group).num_rows
        if position + rows > start and position < stop:
            groups.append(group)
            first = position if first is None else first
        position += rows
    index = first or 0
    for batch in parquet.iter_batches(ROWS_AT_ONCE, row_groups=groups, columns=_paths(parquet, schema)):
        if index >= stop:
            return
        own = batch.slice(max(start - index, 0), stop - max(start, index))
        index += batch.num_rows
        if own.num_rows:
            table = pa.Table.from_batches([own])
            yield pa.table([table.column(f.name).cast(f.type) for f in schema], schema=schema)


def _paths(parquet: pq.ParquetFile, schema: pa.Schema) -> list[str]:
    """The schema as column paths: the named fields of a struct, so that its other fields are not read."""
    paths = []
    for field in schema:
        actual = parquet.schema_arrow.field(field.name).type
        inner = field.type if pa.types.is_struct(field.type) and pa.types.is_struct(actual) else ()
        paths += [f"{field.name}.{part.name}" for part in inner] or [field.name]
    return paths


_TEXT_KINDS = (
    pa.types.is_string,
    pa.types.is_large_string,
    pa.types.is_string_view,
    pa.types.is_binary,
    pa.types.is_large_binary,
    pa.types.is_binary_view,
)


def _castable(actual: pa.DataType, expected: pa.DataType) -> bool:
    """Whether a column's values can be read as expected; those of a column of nulls can, each row is then judged."""
    if pa.types.is_null(actual):
        return True
    if pa.types.is_struct(expected):
        return pa.types.is_struct(actual) and all(
            actual.get_field_index(f.name) >= 0 and _castable(actual.field(f.name).type, f.type) for f in expected
        )
    if pa.types.is_list(expected):
        return (pa.types.is_list(actual) or pa.types.is_large_list(actual)) and _castable(
            actual.value_type, expected.value_type
        )
    if pa.types.is_binary(expected):
        kind = actual.value_type if pa.types.is_dictionary(actual) else actual
        return any(is_kind(kind) for is_kind in _TEXT_KINDS)
    if pa.types.is_integer(expected):
        return pa.types.is_integer(actual) and not pa.types.is_uint64(actual)
    if pa.types.is_floating(expected):
        return pa.types.is_floating(actual) or pa.types.is_integer(actual)
    return pa.types.is_boolean(actual)


def _plain(kind: pa.DataType) -> str:
    return str(kind).replace("binary", "string")
