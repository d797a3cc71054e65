"""Publishing a build on the Hugging Face Hub: what would be sent, whether it is sound, and sending it."""

from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from dmc_optim.artifacts.layout import Layout
from dmc_optim.errors import ArtifactError, RunError, UsageError
from schemas.enums import Stage

VIEWER_BYTES = 286 << 20  # the most that the Hub's viewer reads of one row group


class HubApi(Protocol):
    """The three calls of `huggingface_hub.HfApi` that publishing makes."""

    def create_repo(self, repo_id: str, *, repo_type: str, private: bool, exist_ok: bool) -> Any:
        """Make the repository unless it exists."""

    def upload_folder(
        self, *, repo_id: str, folder_path: str, repo_type: str, commit_message: str, delete_patterns: list[str]
    ) -> Any:
        """Upload in one or more commits, resuming; remove old files that match; returns the last commit."""

    def create_tag(self, repo_id: str, *, tag: str, revision: str, repo_type: str, tag_message: str) -> Any:
        """Name a revision."""


@dataclass(frozen=True)
class Plan:
    """What a publication sends. files: (path below dataset/, bytes). problems: why it must not be sent."""

    folder: str
    tag: str
    files: tuple[tuple[str, int], ...]
    configurations: tuple[str, ...]
    problems: tuple[str, ...]

    @property
    def n_bytes(self) -> int:
        """All files together."""
        return sum(size for _, size in self.files)


def plan(out: str, tag: str | None = None) -> Plan:
    """Look at a build's `dataset/`. tag: name of the revision, `v<schema version>` when None.

    Raises ArtifactError when the build is no local directory or is not finished.
    """
    layout = Layout(out)
    manifest = layout.manifest()
    missing = [stage.value for stage in Stage if stage not in layout.completed()]
    if missing:
        raise ArtifactError(f"{out}: {missing[0]} is not done; finish the build, then publish")
    folder = Path(layout.root) / "dataset"
    if not folder.is_dir():
        raise ArtifactError(f"{out}: no dataset/ in it; publishing needs a local build with its `datasets` stage done")
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    files = tuple((str(path.relative_to(folder)), path.stat().st_size) for path in paths)
    names, problems = _check_card(folder / "README.md", [name for name, _ in files])
    problems += [problem for path in paths if path.suffix == ".parquet" for problem in _check_parquet(path, folder)]
    return Plan(str(folder), tag or f"v{manifest['schema_version']}", files, tuple(names), tuple(problems))


def publish(planned: Plan, repo_id: str, api: HubApi, private: bool = False) -> str:
    """Upload the folder and tag the revision; returns the commit id.

    Raises UsageError when the plan has problems, RunError when the Hub refuses.
    """
    if planned.problems:
        raise UsageError(f"not published: {planned.problems[0]}")
    from huggingface_hub.errors import HTTPError

    message = f"DMC-Optim {planned.tag}: {', '.join(planned.configurations)}"
    try:
        api.create_repo(repo_id, repo_type="dataset", private=private, exist_ok=True)
        commit = api.upload_folder(
            repo_id=repo_id,
            folder_path=planned.folder,
            repo_type="dataset",
            commit_message=message,
            delete_patterns=["*.parquet"],  # shards of an earlier, larger build
        )
        api.create_tag(repo_id, tag=planned.tag, revision=commit.oid, repo_type="dataset", tag_message=message)
    except (HTTPError, OSError, ValueError, RuntimeError) as error:  # what huggingface_hub raises
        first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise RunError(f"the Hub refused {repo_id}: {first}; uploaded parts are kept, run the command again") from error
    return str(commit.oid)


def hub_api(token: str | None = None) -> HubApi:
    """The real Hub; the token of `hf auth login` when none is given."""
    from huggingface_hub import HfApi

    api: HubApi = HfApi(token=token)
    return api


def _check_card(card: Path, files: list[str]) -> tuple[list[str], list[str]]:
    """(configuration names, problems): the YAML header reads, and it and the files name each other."""
    from huggingface_hub import DatasetCard
    from yaml import YAMLError

    if not card.is_file():
        return [], ["README.md is missing: run the `datasets` stage again"]
    try:
        data = DatasetCard(card.read_text(encoding="utf-8")).data.to_dict()
    except (YAMLError, ValueError, OSError) as error:
        return [], [f"README.md: its YAML header is not valid: {str(error).splitlines()[0]}"]
    configs = data.get("configs") or []
    if not configs:
        return [], ["README.md declares no configuration: nothing survived the build"]
    patterns = [entry["path"] for config in configs for entry in config["data_files"]]
    tables = [name for name in files if name.endswith(".parquet")]
    problems = [f"README.md names {p}, no such file" for p in patterns if not any(fnmatch(t, p) for t in tables)]
    problems += [f"{t} is in no configuration of README.md" for t in tables if not any(fnmatch(t, p) for p in patterns)]
    return [config["config_name"] for config in configs], problems


def _check_parquet(path: Path, folder: Path) -> list[str]:
    name = str(path.relative_to(folder))
    try:
        metadata = pq.read_metadata(path)
    except (pa.ArrowException, OSError) as error:
        return [f"{name}: not a readable Parquet file ({str(error).splitlines()[0]})"]
    groups = [metadata.row_group(i) for i in range(metadata.num_row_groups)]
    # One problem is one row: where that alone is too large, nothing can be cut, and everything else can be shown.
    largest = max((group.total_byte_size for group in groups if group.num_rows > 1), default=0)
    if largest > VIEWER_BYTES:
        return [f"{name}: a row group of {largest >> 20} MiB, the Hub's viewer reads at most {VIEWER_BYTES >> 20} MiB"]
    return []
