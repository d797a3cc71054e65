"""The dataset card, `<out>/dataset/README.md`: YAML header and text, generated whole from the build.

Whole because a re-pushed card with stale features is what breaks loading (huggingface/datasets#8608).
"""

import re
from dataclasses import dataclass, field
from typing import Any

import pyarrow.parquet as pq

from dmc_optim.artifacts.layout import Layout
from dmc_optim.artifacts.published import DESCRIPTIONS
from dmc_optim.report.text import markdown_table, number
from schemas.published import PUBLISHED

_FILE = re.compile(r"(?P<split>[a-z_]+)-\d+(-of-\d+)?\.parquet")
_SIZES = ((1_000, "n<1K"), (10_000, "1K<n<10K"), (100_000, "10K<n<100K"), (1_000_000, "100K<n<1M"))
_STATISTICS = ("acceptance", "false_positives", "correct_pass_rate", "filterability", "pools", "durations_train")


@dataclass(frozen=True)
class SplitFiles:
    """One split of a configuration. rows, n_bytes (uncompressed) and file_bytes summed over its files."""

    name: str
    files: tuple[str, ...]
    rows: int
    n_bytes: int
    file_bytes: int


@dataclass(frozen=True)
class Configuration:
    """One published configuration with the splits that have rows."""

    name: str
    splits: tuple[SplitFiles, ...] = field(default_factory=tuple)

    @property
    def rows(self) -> int:
        """Problems over all splits."""
        return sum(split.rows for split in self.splits)


def configurations(layout: Layout) -> list[Configuration]:
    """What is published, in declared order, without configurations that have no row."""
    found = []
    for name in PUBLISHED:
        groups: dict[str, list[str]] = {}
        for path in layout.glob(f"dataset/{name}/*.parquet"):
            match = _FILE.fullmatch(path.rsplit("/", 1)[1])
            if match:
                groups.setdefault(match["split"], []).append(path)
        if groups:
            order = sorted(groups, key=lambda split: ("train", "test", "complement").index(split))
            found.append(Configuration(name, tuple(_split_files(layout, split, groups[split]) for split in order)))
    return found


def _split_files(layout: Layout, split: str, paths: list[str]) -> SplitFiles:
    rows = n_bytes = 0
    for path in paths:
        with layout.fs.open(path, "rb") as handle:
            metadata = pq.read_metadata(handle)
        rows += metadata.num_rows
        n_bytes += sum(metadata.row_group(i).total_byte_size for i in range(metadata.num_row_groups))
    names = tuple(path.removeprefix(f"{layout.root}/dataset/") for path in paths)
    return SplitFiles(split, names, rows, n_bytes, sum(int(layout.fs.size(path)) for path in paths))


def render_card(out: str) -> str:
    """The card of the build at `out`. Raises ArtifactError when there is none."""
    from dmc_optim.audit.connection import connect
    from dmc_optim.report.funnel import funnel
    from dmc_optim.report.markdown import statistics_markdown
    from dmc_optim.report.statistics import compute_statistics

    layout = Layout(out)
    manifest, found = layout.manifest(), configurations(layout)
    connection = connect(out)
    statistics = compute_statistics(connection)
    parts = [
        f"---\n{yaml_header(found, _licence(manifest))}---",
        "# DMC-Optim",
        _INTRODUCTION,
        _limits(manifest),
        "## Configurations",
        _configuration_table(found),
        _loading(found),
        "## Rows",
        _row_table(),
        "## Funnel",
        _funnel_table(funnel(connection, layout)),
        "## Statistics",
        "The paper's figures are of its own, full corpus and stand here for reference.",
        statistics_markdown(statistics, _STATISTICS),
        "## Versions",
        _versions(manifest),
        "## Licences and provenance",
        _licences(manifest),
    ]
    return "\n\n".join(part.strip() for part in parts if part) + "\n"


def yaml_header(found: list[Configuration], licence: str = "cc-by-4.0") -> str:
    """The card's metadata: configurations with their files, features and sizes."""
    from datasets import DatasetInfo, Features, SplitDict, SplitInfo
    from datasets.info import DatasetInfosDict
    from huggingface_hub import DatasetCardData

    rows = max((configuration.rows for configuration in found), default=0)
    card = DatasetCardData(
        pretty_name="DMC-Optim",
        license=licence,
        language=["en"],
        task_categories=["text-generation"],
        tags=["code", "competitive-programming", "code-optimization", "reinforcement-learning"],
        size_categories=[next((name for most, name in _SIZES if rows < most), "n>1M")],
        configs=[_config_yaml(configuration, default=index == 0) for index, configuration in enumerate(found)],
    )
    infos = DatasetInfosDict()
    for configuration in found:
        splits = SplitDict()
        for split in configuration.splits:
            splits.add(SplitInfo(name=split.name, num_bytes=split.n_bytes, num_examples=split.rows))
        infos[configuration.name] = DatasetInfo(
            config_name=configuration.name,
            features=Features.from_arrow_schema(PUBLISHED[configuration.name]),
            splits=splits,
            download_size=sum(split.file_bytes for split in configuration.splits),
            dataset_size=sum(split.n_bytes for split in configuration.splits),
        )
    infos.to_dataset_card_data(card)
    return f"{card.to_yaml()}\n"


def _config_yaml(configuration: Configuration, default: bool) -> dict[str, Any]:
    files = [
        {"split": split.name, "path": f"{configuration.name}/{split.name}-*.parquet"} for split in configuration.splits
    ]
    return {"config_name": configuration.name, "data_files": files, **({"default": True} if default else {})}


_INTRODUCTION = """
Competitive-programming problems prepared for reinforcement learning that rewards fast code, not only correct code.
Each problem comes with re-executed solutions, generated correctness tests that catch wrong programs which the
original tests let pass, generated optimization tests that spread running times, and the measured duration of every
reference solution on every test. Built from DeepMind CodeContests by the DMC-Optim pipeline; every step and
threshold is in the funnel below.
"""

_ALIGNED = """
In each row, the lists `durations_s`, `duration_stds_s` and `statuses` of a test are aligned with the row's
`solutions`: entry *i* is the run of solution *i*. A timeout's duration is a lower bound. Durations are the program's
own time in seconds, without interpreter start; a null was not measured.
"""


def _loading(found: list[Configuration]) -> str:
    if not found:
        return ""
    first = found[0]
    call = f'load_dataset("<this repository>", "{first.name}", split="{first.splits[0].name}")'
    return f"```python\nfrom datasets import load_dataset\n\nproblems = {call}\n```\n{_ALIGNED}"


_ROW_DOCS = {
    "problem_id": "split and row index in the source corpus",
    "name": "title",
    "source": "site the problem comes from",
    "difficulty": "the source's difficulty class",
    "statement": "full statement",
    "cf_contest_id": "Codeforces contest",
    "cf_index": "index in the contest",
    "cf_rating": "Codeforces rating",
    "cf_tags": "Codeforces tags",
    "time_limit_s": "the source's time limit, in seconds",
    "memory_limit_bytes": "the source's memory limit",
    "cluster_id": "near-duplicate group; never divided between train and test",
    "pool": "`rl` (duration filterable) or `complement`",
    "robust_cv": "IQR / median of the optimization tests' mean durations",
    "solutions": "correct solutions: solution_id, language, code",
    "incorrect_solutions": "verified negative controls (`cleaned`, `lightweight`)",
    "tests": "test_id, category, input, output, n_chars, and the measurements aligned with `solutions`",
}


def _row_table() -> str:
    names = dict.fromkeys(name for schema in PUBLISHED.values() for name in schema.names)
    return markdown_table(["column", "meaning"], [[f"`{name}`", _ROW_DOCS.get(name, "")] for name in names])


def _configuration_table(found: list[Configuration]) -> str:
    rows = [
        [f"`{c.name}`", split.name, split.rows, f"{split.file_bytes / 1e6:,.1f} MB", DESCRIPTIONS[c.name]]
        for c in found
        for split in c.splits
    ]
    if not rows:
        return "No problem survived every stage, so nothing is published."
    return markdown_table(["configuration", "split", "problems", "size", "what it holds"], rows)


def _funnel_table(rows: list[Any]) -> str:
    cells = [
        [row.stage, row.n_in, row.n_out, row.paper, ", ".join(f"{reason} {n:,}" for reason, n in row.dropped.items())]
        for row in rows
        if row.n_out is not None
    ]
    return markdown_table(["stage", "problems in", "out", "paper", "dropped"], cells)


def _limits(manifest: dict[str, Any]) -> str:
    limits = {key: value for key, value in (manifest.get("limits") or {}).items() if value is not None}
    if not limits:
        return ""
    words = " and ".join(f"at most {number(value)} {key}" for key, value in sorted(limits.items()))
    return f"**This build is a sample:** it was made with {words} (solutions: a label and problem)."


def _versions(manifest: dict[str, Any]) -> str:
    facts = {
        "schema": manifest.get("schema_version"),
        "build": manifest.get("build_digest"),
        "created": manifest.get("created"),
        "seed": (manifest.get("config") or {}).get("seed"),
        **(manifest.get("versions") or {}),
    }
    rows = [[name, str(value)] for name, value in facts.items() if value is not None]
    text = markdown_table(["", "version"], rows)
    return f"{text}\n\nPatch versions hold the same data, minor ones add fields, major ones change existing data."


def _licences(manifest: dict[str, Any]) -> str:
    name = _base(_source(manifest))
    benchmarks = manifest.get("benchmarks") or {}
    compared = ", ".join(f"`{_base(path)}`" for path in benchmarks) if benchmarks else "none"
    if _licence(manifest) == "apache-2.0":
        origin = "Source rows: the pipeline's bundled example corpus, written for it (Apache-2.0)."
    else:
        origin = (
            f"Source rows: `{name}`, in the schema of `deepmind/code_contests` (CC BY 4.0; problems and solutions by "
            "the users of the sites named in `source`)."
        )
    return f"""
{origin} Generated tests and measurements: this build, under the same licence. The pipeline's code is Apache-2.0.
Benchmarks that statements were compared with: {compared}.

Solutions are untrusted programs: run them in a sandbox only.
"""


def _source(manifest: dict[str, Any]) -> str:
    source = manifest.get("source")
    return str(source.get("url") if isinstance(source, dict) else source)


def _licence(manifest: dict[str, Any]) -> str:
    """Of the data: the bundled corpus was written for this repository, everything else is CodeContests."""
    return "apache-2.0" if _source(manifest).rstrip("/").endswith("examples/corpus") else "cc-by-4.0"


def _base(path: str) -> str:
    """A path without the directories of the machine that built it."""
    return path if path.startswith("hf://") else path.rstrip("/").rsplit("/", 1)[-1]
