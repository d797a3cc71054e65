"""Where things are in an output directory, and how they are read and written: one place for both.

    <out>/manifest.json                         what was built, from what, with which configuration
    <out>/stages/<stage>.json                   written last; a stage counts only once this exists
    <out>/tables/<table>/<stage>-<shard>.parquet
    <out>/completions/<campaign>.jsonl          answers of a live language model (a `recorded:` file)
    <out>/dataset/<config>/<split>-*.parquet    the published configurations, and README.md, the card
    <out>/work/<stage>-<key>/…                  parts of a stage that is running; gone when it is complete
    <out>/previous/<stage>/<table>/…            rows of an outdated stage, kept until it is redone

Everything goes through fsspec, so `<out>` may be a local path or any URL that fsspec knows (gs://, s3://, memory://).
"""

import hashlib
import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import quote

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq

from dmc_optim.errors import ArtifactError
from schemas import TABLES
from schemas.enums import Stage

NAME_CHARS = 100  # file systems take 255 bytes, and what follows a name needs room


def absolute(path: str) -> str:
    """A local path as a process in any directory understands it; a URL as it is."""
    return path if "://" in path else str(Path(path).expanduser().absolute())


def file_name(text: str) -> str:
    """A text as a part of a file's name, without `/`, `*` and `+`; a long one is cut and ends in its digest."""
    quoted = quote(text, safe="")
    if len(quoted) <= NAME_CHARS:
        return quoted
    return f"{quoted[:NAME_CHARS]}~{hashlib.sha256(text.encode()).hexdigest()[:16]}"


@dataclass(frozen=True)
class Layout:
    """Paths and small reads of one output directory. Picklable: only the URL travels, a local path made absolute."""

    out: str

    @cached_property
    def fs(self) -> fsspec.AbstractFileSystem:
        """The file system behind the URL."""
        return self._place[0]

    @cached_property
    def root(self) -> str:
        """The directory, as its file system names it."""
        return str(self._place[1]).rstrip("/")

    @cached_property
    def _place(self) -> tuple[fsspec.AbstractFileSystem, str]:
        try:
            # Other workers write too: a listing that this process remembers would hide their files.
            fs, root = fsspec.core.url_to_fs(self.out, use_listings_cache=False)
        except (ImportError, ValueError) as error:
            first = (str(error).splitlines() or [type(error).__name__])[0]
            raise ArtifactError(f"{self.out}: no such file system here: {first}") from error
        return fs, root

    def __getstate__(self) -> dict[str, str]:
        return {"out": absolute(self.out)}

    def __setstate__(self, state: dict[str, str]) -> None:
        object.__setattr__(self, "out", state["out"])

    def path(self, *parts: str) -> str:
        """A path below the directory."""
        return "/".join((self.root, *parts))

    def table_file(self, table: str, stage: str, shard: int) -> str:
        """The one file a stage writes into a table for a shard."""
        return self.path("tables", table, f"{stage}-{shard:05d}.parquet")

    def stage_file(self, stage: str) -> str:
        """The stage's completion record."""
        return self.path("stages", f"{stage}.json")

    def read_json(self, path: str) -> dict[str, Any] | None:
        """A JSON object, or None where there is no such file. Raises ArtifactError for a broken one."""
        try:
            with self.fs.open(path, "rb") as handle:
                value = json.loads(handle.read())
        except FileNotFoundError:
            return None
        except (ValueError, UnicodeDecodeError) as error:
            raise ArtifactError(f"{path}: not valid JSON ({error}); remove it or use another --out") from error
        if not isinstance(value, dict):
            raise ArtifactError(f"{path}: expected a JSON object; remove it or use another --out")
        return value

    def write_json(self, path: str, value: dict[str, Any]) -> None:
        """Write a JSON object so that no reader ever sees half of it."""
        text = json.dumps(value, indent=1, sort_keys=True, default=str) + "\n"
        self.write_bytes(path, text.encode())

    def write_bytes(self, path: str, data: bytes) -> None:
        """Write a small file by temporary name and rename."""
        self.fs.makedirs(path.rsplit("/", 1)[0], exist_ok=True)
        temporary = f"{path}.tmp"
        with self.fs.open(temporary, "wb") as handle:
            handle.write(data)
        self.fs.mv(temporary, path)

    def manifest(self) -> dict[str, Any]:
        """The build's manifest. Raises ArtifactError where there is none."""
        manifest = self.read_json(self.path("manifest.json"))
        if manifest is None:
            raise ArtifactError(f"{self.out}: no manifest.json there; is it the --out of a `dmc-optim build`?")
        if "schema_version" not in manifest:
            raise ArtifactError(f"{self.out}: its manifest.json is not of a build; give the --out of one")
        return manifest

    def completed(self) -> dict[str, dict[str, Any]]:
        """Completion records of the finished stages, in build order."""
        records = {stage.value: self.read_json(self.stage_file(stage)) for stage in Stage}
        return {stage: record for stage, record in records.items() if record is not None}

    def glob(self, pattern: str) -> list[str]:
        """Sorted paths below the directory that match a pattern, whose `*` stays inside one name; [] for none.

        The directory's own name is no pattern: it may hold brackets and stars.
        """
        found = [self.root]
        for part in pattern.split("/"):
            if "*" in part:
                found = [path for folder in found for path in self._children(folder, part)]
            else:
                found = [f"{folder}/{part}" for folder in found]
        return sorted(found if "*" in part else filter(self.fs.exists, found))

    def _children(self, folder: str, pattern: str) -> list[str]:
        try:
            found = [str(path).rstrip("/") for path in self.fs.ls(folder, detail=False)]
        except (FileNotFoundError, NotADirectoryError):
            return []
        names = [path.rsplit("/", 1)[-1] for path in found if path != folder]  # a file lists itself
        return [f"{folder}/{name}" for name in names if fnmatchcase(name, pattern)]

    def read(
        self,
        table: str,
        *,
        stages: tuple[str, ...] | None = None,
        shard: int | None = None,
        columns: list[str] | None = None,
        problem_id: str | None = None,
        ids: tuple[str, Collection[str]] | None = None,
    ) -> pa.Table:
        """Rows of a table, by stage, shard and problem where given. An absent table is an empty one.

        ids: (column, values that are wanted).
        """
        schema = TABLES[table].schema
        tail = "*" if shard is None else f"{shard:05d}"
        names = [f"tables/{table}/{stage}-{tail}.parquet" for stage in (stages or ("*",))]
        filters: list[tuple[str, str, Any]] = [] if problem_id is None else [("problem_id", "=", problem_id)]
        filters += [(ids[0], "in", list(ids[1]))] if ids is not None else []
        parts = [read_parquet(self.fs, path, columns, filters) for name in names for path in self.glob(name)]
        wanted = schema if columns is None else pa.schema([schema.field(c) for c in columns])
        if not parts:
            return wanted.empty_table()
        return pa.concat_tables([part.select(wanted.names).cast(wanted) for part in parts])

    def rows(self, table: str, **selection: Any) -> list[dict[str, Any]]:
        """`read` as Python dictionaries."""
        return self.read(table, **selection).to_pylist()


Filters = Sequence[tuple[str, str, Any]]


def read_parquet(
    fs: fsspec.AbstractFileSystem, path: str, columns: list[str] | None = None, filters: Filters = ()
) -> pa.Table:
    """One Parquet file, or its rows that pass all filters (column, operator, value), one row group in memory at a time.

    Raises ArtifactError with the path for a broken one.
    """
    try:
        with fs.open(path, "rb") as handle:
            parquet = pq.ParquetFile(handle)
            if not filters:
                return parquet.read(columns=columns)
            read = None if columns is None else list(dict.fromkeys([*columns, *(name for name, _, _ in filters)]))
            passes = pq.filters_to_expression(list(filters))
            groups = [g for g in range(parquet.num_row_groups) if _may_hold(parquet.metadata.row_group(g), filters)]
            parts = [parquet.read_row_group(group, columns=read).filter(passes) for group in groups]
            found = pa.concat_tables(parts) if parts else parquet.schema_arrow.empty_table()
            return found if columns is None else found.select(columns)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OSError) as error:
        first = str(error).splitlines()[0]
        raise ArtifactError(f"{path}: not a readable Parquet file ({first}); remove it and build again") from error


def read_footer(layout: Layout, path: str) -> dict[str, str]:
    """Key-value entries of a Parquet footer."""
    with layout.fs.open(path, "rb") as handle:
        entries = pq.read_metadata(handle).metadata or {}
    return {key.decode(): value.decode() for key, value in entries.items() if key != b"ARROW:schema"}


def _may_hold(group: pq.RowGroupMetaData, filters: Filters) -> bool:
    """False where the statistics of a row group exclude the problem that is wanted."""
    problem = next((value for name, operator, value in filters if (name, operator) == ("problem_id", "=")), None)
    columns = (group.column(position) for position in range(group.num_columns))
    statistics = next((column.statistics for column in columns if column.path_in_schema == "problem_id"), None)
    if problem is None or statistics is None or not statistics.has_min_max:
        return True
    return bool(statistics.min <= problem <= statistics.max)
