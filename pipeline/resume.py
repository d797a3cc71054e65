"""Which stages are complete, which are outdated, and how an outdated stage's rows are kept for the next run."""

import hashlib
from dataclasses import dataclass
from typing import Any

from dmc_optim.artifacts.layout import Layout
from dmc_optim.config import BuildConfig, digest
from pipeline.stages import STAGES
from schemas import TABLES
from schemas.enums import Stage

TAIL_BYTES = 65536


@dataclass(frozen=True)
class StageKey:
    """What a stage's content depends on; equal keys mean that the stage need not run."""

    version: int
    config: dict[str, str]
    outside: str
    earlier: dict[str, str]

    @property
    def value(self) -> str:
        """Sixteen hex digits."""
        return digest([self.version, self.config, self.outside, self.earlier])


def stage_key(stage: Stage, config: BuildConfig, outside: str, records: dict[str, dict[str, Any]]) -> str:
    """Key of a stage: its version, its part of the configuration, outside inputs, content of the earlier stages."""
    spec = STAGES[stage]
    own = {name: digest(getattr(config, name)) for name in spec.config} | {"seed": str(config.seed)}
    order = list(Stage)
    earlier = {str(s): str(records[s]["content"]) for s in order[: order.index(stage)] if s in records}
    return StageKey(spec.version, own, outside, earlier).value


def stage_files(layout: Layout, stage: Stage) -> dict[str, list[str]]:
    """Names of a stage's files, by table."""
    found = {}
    for table in TABLES:
        names = [path.rsplit("/", 1)[-1] for path in layout.glob(f"tables/{table}/{stage}-*.parquet")]
        if names:
            found[table] = names
    return found


def published_files(layout: Layout) -> list[str]:
    """Names of the files of the published configurations, sorted."""
    root = layout.path("dataset") + "/"
    return [path.removeprefix(root) for path in layout.glob("dataset/*/*.parquet")]


def content(layout: Layout, files: dict[str, list[str]]) -> str:
    """Digest of a stage's files: names, sizes and the end of each, which for Parquet holds the statistics."""
    running = hashlib.sha256()
    for table, names in sorted(files.items()):
        for name in sorted(names):
            path = layout.path("tables", table, name)
            size = layout.fs.size(path)
            with layout.fs.open(path, "rb") as handle:
                handle.seek(max(0, size - TAIL_BYTES))
                running.update(f"{table}/{name} {size} ".encode() + handle.read())
    return running.hexdigest()[:16]


def complete(layout: Layout, record: dict[str, Any] | None, key: str) -> bool:
    """Whether a stage's record is a whole one, for this key, and all of its files are there."""
    if record is None or not record.keys() >= {"stage", "files", "content"} or record.get("key") != key:
        return False
    if record.get("published") and record["published"] != published_files(layout):
        return False
    return bool(stage_files(layout, Stage(record["stage"])) == record["files"])


def invalidate(layout: Layout, stage: Stage) -> None:
    """Take a stage and all later ones back to "not done"; their rows move to `previous/`, to be taken over."""
    order = list(Stage)
    for later in reversed(order[order.index(stage) :]):
        record = layout.stage_file(later)
        if layout.fs.exists(record):
            layout.fs.rm(record)
        for table, names in stage_files(layout, later).items():
            folder = layout.path("previous", later, table)
            layout.fs.makedirs(folder, exist_ok=True)
            for name in names:
                target = f"{folder}/{name}"
                if layout.fs.exists(target):
                    layout.fs.rm(target)
                layout.fs.mv(layout.path("tables", table, name), target)
    if layout.fs.exists(layout.path("dataset")):
        layout.fs.rm(layout.path("dataset"), recursive=True)


def clean(layout: Layout, stage: Stage) -> None:
    """Remove what only an unfinished or outdated run of the stage needs."""
    for folder in (*layout.glob(f"work/{stage}-*"), *layout.glob(f"previous/{stage}")):
        layout.fs.rm(folder, recursive=True)
    for path in (*layout.glob("tables/*/*.tmp"), *layout.glob("dataset/*/*.tmp")):
        layout.fs.rm(path)
    for parent in ("work", "previous"):
        path = layout.path(parent)
        if layout.fs.exists(path) and not layout.fs.ls(path):
            layout.fs.rm(path, recursive=True)
