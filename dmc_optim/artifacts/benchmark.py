"""Statements of evaluation benchmarks, for decontamination: any Parquet or JSON-lines file with a statement column."""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq

from dmc_optim.artifacts.source import reaching
from dmc_optim.artifacts.surrogates import encodable
from dmc_optim.errors import SourceError

STATEMENT_COLUMNS = ("statement", "description", "question_content", "problem")
_ID_COLUMNS = ("question_id", "problem_id", "id", "name")


@dataclass(frozen=True)
class BenchmarkRow:
    """key: `<file name>#<id or row number>`."""

    key: str
    statement: str


def read_benchmark(path: str) -> Iterator[BenchmarkRow]:
    """Rows with their statement, empty where it is null. Raises SourceError naming file, row and what is missing."""
    with reaching(f"--benchmark {path}"):
        fs, inner = _place(path)
        name = inner.rsplit("/", 1)[-1]
        rows = _parquet_rows(fs, inner, path) if inner.endswith(".parquet") else _json_rows(fs, inner, path)
        for number, row in enumerate(rows):
            column = next((c for c in STATEMENT_COLUMNS if c in row), None)
            if column is None:
                raise SourceError(f"--benchmark {path}: row {number} has none of {', '.join(STATEMENT_COLUMNS)}")
            if not isinstance(row[column], str | bytes | None):
                kind = type(row[column]).__name__
                raise SourceError(f"--benchmark {path}: row {number}: '{column}' is no text but {kind}")
            own = next((_text(row[c]) for c in _ID_COLUMNS if row.get(c)), "")
            key = f"{name}#{number} ({own})" if own else f"{name}#{number}"
            yield BenchmarkRow(key, _text(row[column]))


def _text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else encodable(str(value or ""))


def fingerprint(path: str) -> str:
    """Digest of the file's bytes. Raises SourceError where it cannot be read."""
    with reaching(f"--benchmark {path}"):
        fs, inner = _place(path)
        with fs.open(inner, "rb") as handle:
            return hashlib.file_digest(handle, "sha256").hexdigest()[:16]


def _place(path: str) -> tuple[fsspec.AbstractFileSystem, str]:
    fs, inner = fsspec.core.url_to_fs(path)
    if not path or not fs.isfile(inner):
        what = "is a folder, give the file" if path and fs.isdir(inner) else "no such file"
        raise SourceError(f"--benchmark {path}: {what}")
    return fs, inner


def _parquet_rows(fs: fsspec.AbstractFileSystem, inner: str, path: str) -> Iterator[dict[str, Any]]:
    """Rows with text as bytes: one bad byte would fail the whole read."""
    with fs.open(inner, "rb") as handle:
        try:
            parquet = pq.ParquetFile(handle)
            names = [c for c in (*STATEMENT_COLUMNS, *_ID_COLUMNS) if c in parquet.schema_arrow.names]
            table = parquet.read(columns=names)
        except (pa.ArrowException, OSError) as error:
            line = str(error).splitlines()[0]
            raise SourceError(f"--benchmark {path}: not a readable Parquet file: {line}") from error
    if not set(names) & set(STATEMENT_COLUMNS):
        raise SourceError(f"--benchmark {path}: no column of {', '.join(STATEMENT_COLUMNS)}")
    text = {pa.string(): pa.binary(), pa.large_string(): pa.large_binary()}
    fields = [pa.field(f.name, text.get(f.type, f.type)) for f in table.schema]
    yield from table.cast(pa.schema(fields)).to_pylist()


def _json_rows(fs: fsspec.AbstractFileSystem, inner: str, path: str) -> Iterator[dict[str, Any]]:
    with fs.open(inner, "rb") as handle:
        for number, line in enumerate(handle):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
            except ValueError as error:
                raise SourceError(f"--benchmark {path}: line {number + 1} is not JSON: {error}") from error
            if not isinstance(row, dict):
                raise SourceError(f"--benchmark {path}: line {number + 1} is not a JSON object")
            yield row
