"""Statements of evaluation benchmarks, for decontamination: any Parquet or JSON-lines file with a statement column."""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq

from dmc_optim.errors import SourceError

STATEMENT_COLUMNS = ("statement", "description", "question_content", "problem")
_ID_COLUMNS = ("question_id", "problem_id", "id", "name")


@dataclass(frozen=True)
class BenchmarkRow:
    """key: `<file name>#<id or row number>`."""

    key: str
    statement: str


def read_benchmark(path: str) -> Iterator[BenchmarkRow]:
    """Rows with a statement. Raises SourceError naming file, row and what is missing."""
    fs, inner = _open(path)
    name = inner.rsplit("/", 1)[-1]
    rows = _parquet_rows(fs, inner, path) if inner.endswith(".parquet") else _json_rows(fs, inner, path)
    for number, row in enumerate(rows):
        column = next((c for c in STATEMENT_COLUMNS if c in row), None)
        if column is None:
            raise SourceError(f"--benchmark {path}: row {number} has none of {', '.join(STATEMENT_COLUMNS)}")
        own = next((row[c] for c in _ID_COLUMNS if row.get(c)), number)
        statement = row[column]
        text = statement.decode("utf-8", "replace") if isinstance(statement, bytes) else str(statement or "")
        label = own.decode("utf-8", "replace") if isinstance(own, bytes) else own
        yield BenchmarkRow(f"{name}#{number}" if label == number else f"{name}#{number} ({label})", text)


def fingerprint(path: str) -> str:
    """Digest of the file's bytes. Raises SourceError where it cannot be read."""
    fs, inner = _open(path)
    with fs.open(inner, "rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()[:16]


def _open(path: str) -> tuple[fsspec.AbstractFileSystem, str]:
    try:
        fs, inner = fsspec.core.url_to_fs(path)
        if not fs.isfile(inner):
            raise SourceError(f"--benchmark {path}: no such file")
    except (OSError, ValueError, ImportError) as error:
        raise SourceError(f"--benchmark {path}: cannot be reached: {error}") from error
    return fs, inner


def _parquet_rows(fs: fsspec.AbstractFileSystem, inner: str, path: str) -> Iterator[dict[str, Any]]:
    try:
        with fs.open(inner, "rb") as handle:
            parquet = pq.ParquetFile(handle)
            names = [c for c in (*STATEMENT_COLUMNS, *_ID_COLUMNS) if c in parquet.schema_arrow.names]
            table = parquet.read(columns=names)
    except (pa.ArrowException, OSError) as error:
        raise SourceError(f"--benchmark {path}: not a readable Parquet file: {error}") from error
    fields = [pa.field(f.name, pa.binary() if pa.types.is_string(f.type) else f.type) for f in table.schema]
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
