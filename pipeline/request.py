"""What a build is asked to do, checked before anything runs, and the identity of an output directory."""

import platform
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from dmc_optim.artifacts import benchmark
from dmc_optim.artifacts.layout import Layout
from dmc_optim.artifacts.source import SourceFile, find_files
from dmc_optim.ces import check_spec
from dmc_optim.config import LOCAL_RUNNER, BuildConfig, digest, load_config
from dmc_optim.errors import ArtifactError, ConfigError, DmcOptimError, SourceError
from dmc_optim.llm.recorded import RecordedCompletions
from dmc_optim.llm.spec import GeneratorSpec, RecordedSpec, parse_generator_spec
from schemas import SCHEMA_VERSION
from schemas.enums import Stage
from transforms.context import EngineSpec

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
ROWS_PER_SHARD = 32
MAX_SHARDS = 1024
VERSIONED = ("dmc-optim", "apache-beam", "pyarrow", "numpy", "scipy", "datasketch")


@dataclass(frozen=True)
class BuildRequest:
    """The command line of `dmc-optim build`, typed. Paths as given."""

    source: str
    out: str
    config: BuildConfig
    benchmarks: tuple[str, ...] = ()
    generator: str | None = None
    judge: str | None = None
    engine: EngineSpec = field(default_factory=EngineSpec)
    through: Stage = Stage.DATASETS
    limit_problems: int | None = None
    limit_solutions: int | None = None
    runner: str = LOCAL_RUNNER
    beam_options: tuple[str, ...] = ()


@dataclass(frozen=True)
class CheckedRequest:
    """A request whose inputs exist and are readable. recorded: the completions of a `recorded:` generator."""

    request: BuildRequest
    files: list[SourceFile]
    benchmarks: dict[str, str]
    generator: GeneratorSpec | None
    judge: GeneratorSpec | None
    recorded: RecordedCompletions | None = None

    @property
    def rows(self) -> int:
        """Rows that the build reads: those of the source, under its limit."""
        total = sum(file.rows for file in self.files)
        limit = self.request.limit_problems
        return total if limit is None else min(total, limit)

    @property
    def shards(self) -> int:
        """The configured number of shards, else one for every 32 rows."""
        asked = self.request.config.shards
        return asked or max(1, min(MAX_SHARDS, -(-self.rows // ROWS_PER_SHARD)))

    def identity(self) -> dict[str, Any]:
        """What makes two builds different builds: another value of any of these needs another directory."""
        config = self.request.config
        execution = config.execution
        return {
            "schema": SCHEMA_VERSION.split(".")[0],
            "source": [[file.split, file.rows, file.fingerprint] for file in self.files],
            "limit_problems": self.request.limit_problems,
            "limit_solutions": self.request.limit_solutions,
            "languages": list(config.ingest.languages),
            "shards": self.shards,
            "seed": config.seed,
            "limits": asdict(execution.limits()),
            "comparator": execution.comparator,
            "engine": self.request.engine.ces if self.request.engine.ces.startswith("fake") else "ces",
        }


def bundled_config(source: str, path: str | None) -> BuildConfig:
    """The configuration at `path`; without one, and without a source, that of the bundled corpus."""
    bundled = EXAMPLES / "build.toml"
    if path is None and not source and bundled.exists():
        return load_config(bundled)
    return load_config(path)


def check(request: BuildRequest) -> CheckedRequest:
    """Look at every input once, before the first stage. Raises UsageError kinds with one line."""
    for name, value in (("--limit-problems", request.limit_problems), ("--limit-solutions", request.limit_solutions)):
        if value is not None and value < 1:
            raise ConfigError(f"{name} must be at least 1, got {value}")
    if request.runner != LOCAL_RUNNER or request.beam_options:
        from pipeline.runner import check_runner

        check_runner(request.runner, request.beam_options, _paths(request))
    check_spec(request.engine.ces)
    files = find_files(request.source)
    if not sum(file.rows for file in files):
        raise SourceError(f"--source {request.source}: no rows in it")
    benchmarks = {}
    for path in request.benchmarks:
        if next(iter(benchmark.read_benchmark(path)), None) is None:
            raise SourceError(f"--benchmark {path}: no rows in it")
        benchmarks[path] = benchmark.fingerprint(path)
    generator = parse_generator_spec(request.generator) if request.generator else None
    judge = parse_generator_spec(request.judge) if request.judge else None
    if isinstance(judge, RecordedSpec):
        raise ConfigError("--judge takes a live model: openai:URL#MODEL or vllm:MODEL")
    recorded = RecordedCompletions.load(generator.path) if isinstance(generator, RecordedSpec) else None
    return CheckedRequest(request, files, benchmarks, generator, judge, recorded)


def _paths(request: BuildRequest) -> Iterator[tuple[str, str]]:
    """(option, value) of every path that the workers open."""
    yield "--out", request.out
    yield "--source", request.source
    for path in request.benchmarks:
        yield "--benchmark", path
    if request.generator and request.generator.startswith("recorded:"):
        yield "--generator", request.generator.removeprefix("recorded:")


def open_output(checked: CheckedRequest) -> tuple[Layout, dict[str, Any]]:
    """The output directory and its manifest, made or continued.

    Raises ArtifactError for a directory that holds something else or a build of another configuration.
    """
    layout = Layout(checked.request.out)
    identity = _plain(checked.identity())
    try:
        manifest = layout.read_json(layout.path("manifest.json"))
        foreign = manifest is None and layout.fs.exists(layout.root) and _foreign(layout)
    except DmcOptimError:
        raise
    except Exception as error:  # every remote file system has errors of its own
        what = getattr(error, "strerror", None) or (str(error).splitlines() or [type(error).__name__])[0]
        raise ArtifactError(f"--out {layout.out}: cannot be used: {what}") from error
    if foreign:
        raise ArtifactError(f"--out {layout.out}: not empty and no build; use another directory")
    if manifest is None:
        manifest = {}
    elif "identity" not in manifest:
        raise ArtifactError(f"--out {layout.out}: its manifest.json is not of a build; use another directory")
    else:
        differs = [name for name in identity if manifest["identity"].get(name) != identity[name]]
        if differs:
            raise ArtifactError(
                f"--out {layout.out}: holds a build of another configuration (differs in {', '.join(differs)}); "
                "use another --out, or remove it to start over"
            )
    return layout, manifest | describe(checked, identity)


def describe(checked: CheckedRequest, identity: dict[str, Any]) -> dict[str, Any]:
    """What the manifest says of a build before any stage has run."""
    request = checked.request
    return {
        "schema_version": SCHEMA_VERSION,
        "build_digest": digest([identity, asdict(request.config)]),
        "identity": identity,
        "config": asdict(request.config),
        "source": {"url": request.source, "files": [[f.split, f.rows, f.fingerprint] for f in checked.files]},
        "limits": {"problems": request.limit_problems, "solutions": request.limit_solutions},
        "benchmarks": checked.benchmarks,
        "generator": request.generator,
        "judge": request.judge,
        "shards": checked.shards,
        "engine": request.engine.ces,
        "runner": request.runner,
        "versions": {name: _version(name) for name in VERSIONED} | {"python": platform.python_version()},
    }


def _foreign(layout: Layout) -> bool:
    names = {str(p).rstrip("/").rsplit("/", 1)[-1] for p in layout.fs.ls(layout.root, detail=False)}
    return bool(names - {".lock"})


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _plain(value: dict[str, Any]) -> dict[str, Any]:
    """As JSON gives it back."""
    import json

    plain: dict[str, Any] = json.loads(json.dumps(value, default=str))
    return plain
