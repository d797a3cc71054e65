"""Build configuration: frozen dataclasses, TOML in, each default with its source.

A TOML file has one table per dataclass (`[execution]`, `[filter_correctness]` …) and `seed` at the top. Unknown
keys and values out of range raise `ConfigError` with the file, the key and what is allowed.
"""

import difflib
import hashlib
import json
import tomllib
from dataclasses import asdict, dataclass, field, fields, is_dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

from dmc_optim.ces.types import Clock, Limits
from dmc_optim.errors import ConfigError

LANGUAGES = {"unknown": 0, "python2": 1, "cpp": 2, "python3": 3, "java": 4}  # codes of deepmind/code_contests
COMPARATORS = ("exact", "trimmed", "tokens", "tokens_float:EPS")


@dataclass(frozen=True)
class IngestConfig:
    """Stage 0. languages: whose solutions are kept (paper B.2 keeps Python)."""

    languages: tuple[str, ...] = ("python3",)


@dataclass(frozen=True)
class DedupConfig:
    """Stage 1: shingles of `shingle_words` words, MinHash of `permutations`, confirmed by exact Jaccard."""

    shingle_words: int = 5
    permutations: int = 128
    jaccard: float = 0.8
    min_statement_chars: int = 80


@dataclass(frozen=True)
class ExecutionConfig:
    """How every execution is run (paper C.1: 1 GB, 10 s). Times in seconds, sizes in bytes.

    exhaustive_controls runs negative controls to the last test (Figure 19's status mixes); the decisions are the
    same either way. chunk_solutions is the size of one work unit.
    """

    time_limit_s: float = 10.0
    wall_factor: float = 1.5
    memory_bytes: int = 1 << 30
    output_bytes: int = 16 << 20
    comparator: str = "trimmed"
    clock: str = "cpu"
    repetitions: int = 1
    infrastructure_retries: int = 3
    exhaustive_controls: bool = False
    chunk_solutions: int = 16

    def limits(self) -> Limits:
        """The envelope in the execution service's own type."""
        return Limits(
            time_s=self.time_limit_s,
            wall_factor=self.wall_factor,
            memory_bytes=self.memory_bytes,
            output_bytes=self.output_bytes,
            clock=Clock(self.clock),
        )


@dataclass(frozen=True)
class SynthesisConfig:
    """Both generation campaigns (paper B.4, Tables 11 and 12).

    adaptive_attempts: further attempts for a problem whose tests fall short after the first ones (ours; 0 is off).
    """

    attempts: int = 10
    calls_per_method: int = 5
    verification_pool: int = 10
    min_agreeing: int = 2
    max_input_bytes: int = 64 << 20
    generator_time_limit_s: float = 10.0
    adaptive_attempts: int = 0


@dataclass(frozen=True)
class GenerationConfig:
    """How a live model is asked. The paper samples at temperature 1 without top-p (Section 4).

    concurrency and timeout_s (of one answer) and the prices (US dollars a million tokens) decide no answer.
    """

    temperature: float = 1.0
    top_p: float = 1.0
    max_tokens: int = 4096
    concurrency: int = 64
    timeout_s: float = 600.0
    price_prompt_usd: float = 0.0
    price_completion_usd: float = 0.0


@dataclass(frozen=True)
class FilterConfig:
    """One filtering round (paper Table 13). Shares are compared as exact rationals, never as floats."""

    min_correct: int
    min_incorrect: int
    max_drop_rate: float
    max_false_positive_rate: float
    timeout_fraction: float
    timeout_is_success: bool
    timeout_cap: float
    failure_fraction: float
    failure_cap: float


CORRECTNESS_FILTER = FilterConfig(
    min_correct=5,
    min_incorrect=1,
    max_drop_rate=0.25,
    max_false_positive_rate=0.05,
    timeout_fraction=0.20,
    timeout_is_success=False,
    timeout_cap=0.25,
    failure_fraction=0.40,
    failure_cap=0.30,
)
OPTIMIZATION_FILTER = replace(
    CORRECTNESS_FILTER, min_correct=1, max_false_positive_rate=1.0, timeout_fraction=0.90, timeout_is_success=True
)


@dataclass(frozen=True)
class FilterabilityConfig:
    """Stage 7 (paper Eq. 6). min_iqr_s is ours: a spread below the clock's resolution ranks nothing."""

    robust_cv: float = 0.3
    min_iqr_s: float = 0.02
    pearson_r: float = 0.9


@dataclass(frozen=True)
class SplitConfig:
    """Stage 8. test_size wins over test_fraction (the paper's 302 of 1,302) when it is not negative."""

    test_fraction: float = 0.232
    test_size: int = -1


@dataclass(frozen=True)
class BuildConfig:
    """Everything that decides the content of a build, given its source."""

    seed: int = 0
    shards: int = 0  # 0: one for every 32 rows, at most 1,024
    ingest: IngestConfig = field(default_factory=IngestConfig)
    dedup: DedupConfig = field(default_factory=DedupConfig)
    execution: ExecutionConfig = field(default_factory=ExecutionConfig)
    synthesis: SynthesisConfig = field(default_factory=SynthesisConfig)
    generation: GenerationConfig = field(default_factory=GenerationConfig)
    filter_correctness: FilterConfig = CORRECTNESS_FILTER
    filter_optimization: FilterConfig = OPTIMIZATION_FILTER
    filterability: FilterabilityConfig = field(default_factory=FilterabilityConfig)
    split: SplitConfig = field(default_factory=SplitConfig)


def exact(share: float) -> Fraction:
    """The decimal a person wrote, as a rational: 0.05 is 1/20, not the nearest float."""
    return Fraction(str(share))


def digest(value: Any) -> str:
    """First 16 hex digits of the sha256 of a JSON-able value or dataclass, keys sorted."""
    plain = asdict(value) if is_dataclass(value) and not isinstance(value, type) else value
    text = json.dumps(plain, sort_keys=True, separators=(",", ":"), default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def load_config(path: str | Path | None) -> BuildConfig:
    """Read a TOML file over the defaults; None gives the defaults. Raises ConfigError."""
    if path is None:
        return BuildConfig()
    try:
        data = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise ConfigError(f"{path}: no such configuration file") from error
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"{path}: not a readable TOML file: {error}") from error
    config = _merge(BuildConfig(), data, str(path), "")
    _validate(config, str(path))
    return config


def _merge(base: Any, data: dict[str, Any], path: str, prefix: str) -> Any:
    known = {f.name for f in fields(base)}
    hints = get_type_hints(type(base))
    changes: dict[str, Any] = {}
    for key, value in data.items():
        if key not in known:
            near = difflib.get_close_matches(key, known, n=1)
            hint = f"; did you mean '{prefix}{near[0]}'?" if near else f"; known: {', '.join(sorted(known))}"
            raise ConfigError(f"{path}: unknown key '{prefix}{key}'{hint}")
        current = getattr(base, key)
        if is_dataclass(current):
            if not isinstance(value, dict):
                raise ConfigError(f"{path}: '{prefix}{key}' is a table, write [{prefix}{key}]")
            changes[key] = _merge(current, value, path, f"{prefix}{key}.")
        else:
            changes[key] = _typed(value, hints[key], f"{path}: '{prefix}{key}'")
    return replace(base, **changes)


def _typed(value: Any, hint: Any, where: str) -> Any:
    if get_origin(hint) is tuple:
        item = get_args(hint)[0]
        if not isinstance(value, list) or not all(isinstance(v, item) for v in value):
            raise ConfigError(f"{where} must be a list of {item.__name__}, got {value!r}")
        return tuple(value)
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if not isinstance(value, hint) or (hint is int and isinstance(value, bool)):
        raise ConfigError(f"{where} must be {hint.__name__}, got {value!r}")
    return value


def _validate(config: BuildConfig, path: str) -> None:
    def check(ok: bool, key: str, rule: str) -> None:
        if not ok:
            raise ConfigError(f"{path}: '{key}' {rule}")

    for language in config.ingest.languages:
        check(language in LANGUAGES, "ingest.languages", f"knows {', '.join(LANGUAGES)}, got {language!r}")
    execution = config.execution
    for key in ("time_limit_s", "wall_factor", "memory_bytes", "output_bytes", "repetitions", "chunk_solutions"):
        check(getattr(execution, key) > 0, f"execution.{key}", "must be positive")
    check(execution.infrastructure_retries >= 0, "execution.infrastructure_retries", "must not be negative")
    check(execution.clock in [c.value for c in Clock], "execution.clock", "must be cpu or wall")
    check(_is_comparator(execution.comparator), "execution.comparator", f"must be one of {', '.join(COMPARATORS)}")
    check(config.shards >= 0, "shards", "must not be negative")
    for key in ("attempts", "calls_per_method", "verification_pool", "min_agreeing", "max_input_bytes"):
        check(getattr(config.synthesis, key) > 0, f"synthesis.{key}", "must be positive")
    check(config.synthesis.adaptive_attempts >= 0, "synthesis.adaptive_attempts", "must not be negative")
    for key in ("top_p", "max_tokens", "concurrency", "timeout_s"):
        check(getattr(config.generation, key) > 0, f"generation.{key}", "must be positive")
    for key in ("temperature", "price_prompt_usd", "price_completion_usd"):
        check(getattr(config.generation, key) >= 0, f"generation.{key}", "must not be negative")
    check(config.generation.top_p <= 1, "generation.top_p", "is a share, at most 1")
    for name in ("filter_correctness", "filter_optimization"):
        for f in fields(FilterConfig):
            value = getattr(getattr(config, name), f.name)
            if isinstance(value, float):
                check(0 <= value <= 1, f"{name}.{f.name}", "is a share, between 0 and 1")
    check(0 <= config.split.test_fraction < 1, "split.test_fraction", "is a share, at least 0 and under 1")
    check(0 < config.dedup.jaccard <= 1, "dedup.jaccard", "is a share, over 0 and at most 1")


def _is_comparator(name: str) -> bool:
    if not name.startswith("tokens_float:"):
        return name in COMPARATORS[:3]
    try:
        return float(name.split(":", 1)[1]) >= 0
    except ValueError:
        return False
