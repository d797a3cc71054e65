"""Checks of the files themselves: what the stage records list is there, and nothing else is."""

from collections.abc import Iterator
from typing import Any

import pyarrow.parquet as pq

from dmc_optim.artifacts.layout import Layout

FILE_CHECKS = 3


def file_violations(layout: Layout) -> Iterator[tuple[str, str, list[dict[str, Any]]]]:
    """(check, rule, violating files): missing files, stray files, and another build's digest in a footer."""
    calibrations = layout.read_json(layout.stage_file("calibrate")) or {}  # of `ces calibrate`, not a build stage
    listed = {
        f"tables/{table}/{name}"
        for record in [*layout.completed().values(), calibrations]
        for table, names in (record.get("files") or {}).items()
        for name in names
    }
    present = {path.removeprefix(f"{layout.root}/"): path for path in layout.glob("tables/*/*")}
    yield (
        "files: none missing",
        "every file that a stage record lists is there",
        [{"file": name} for name in sorted(listed - present.keys())],
    )
    yield (
        "files: none stray",
        "every file below tables/ belongs to a finished stage or to `ces calibrate`",
        [{"file": name} for name in sorted(present.keys() - listed)],
    )
    yield (
        "files: one schema version",
        "the schema version in each footer is the manifest's",
        _other_version(layout, {name: path for name, path in present.items() if name in listed}),
    )


def _other_version(layout: Layout, files: dict[str, str]) -> list[dict[str, Any]]:
    expected = str(layout.manifest().get("schema_version", ""))
    found = []
    for name, path in sorted(files.items()):
        with layout.fs.open(path, "rb") as handle:
            footer = pq.read_metadata(handle).metadata or {}
        version = footer.get(b"schema_version", b"").decode()
        if version != expected:
            found.append({"file": name, "schema_version": version, "expected": expected})
    return found
