"""Build configuration: frozen dataclasses, TOML in, each default with its source.

A TOML file has one table per dataclass (`[execution]`, `[filter_correctness]` …) and `seed` at the top. Unknown
keys and values out of range raise `ConfigError` with the file, the key and what is allowed.
"""

import difflib
import hashlib
import json
import tomllib
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, fields, is_dataclass, replace
from fractions import Fraction
from math import isfinite
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

from dmc_optim.ces.comparators import comparator
from dmc_optim.ces.types import Clock, Limits
from dmc_optim.errors import ConfigError

LANGUAGES = {"unknown": 0, "python2": 1, "cpp": 2, "python3": 3, "java": 4}  # codes of deepmind/code_contests
LOCAL_RUNNER = "FnApiRunner"  # named: Beam's `DirectRunner` picks another one by what it finds
MOST_SHARDS = 10_000
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
        value = float(value)
    if not isinstance(value, hint) or (hint is int and isinstance(value, bool)):
        raise ConfigError(f"{where} must be {hint.__name__}, got {value!r}")
    if isinstance(value, float) and not isfinite(value):
        raise ConfigError(f"{where} must be a finite number, got {value!r}")
    if hint is int and not -(1 << 63) <= value < 1 << 63:
        raise ConfigError(f"{where} does not fit 64 bits: {value!r}")
    return value


_Rule = tuple[Callable[[Any], bool], str]
_POSITIVE: _Rule = (lambda value: value > 0, "must be positive")
_NOT_NEGATIVE: _Rule = (lambda value: value >= 0, "must not be negative")
_SHARE: _Rule = (lambda value: 0 <= value <= 1, "is a share, between 0 and 1")
_LANGUAGES: _Rule = (
    lambda names: bool(names) and all(name in LANGUAGES for name in names),
    f"lists one or more of {', '.join(LANGUAGES)}",
)
_ROUND = {
    "min_correct": _NOT_NEGATIVE,
    "min_incorrect": _NOT_NEGATIVE,
    "max_drop_rate": _SHARE,
    "max_false_positive_rate": _SHARE,
    "timeout_fraction": _SHARE,
    "timeout_cap": _SHARE,
    "failure_fraction": _SHARE,
    "failure_cap": _SHARE,
}
_RULES: dict[str, _Rule] = {
    "shards": (lambda value: 0 <= value <= MOST_SHARDS, f"must be 0 (one for every 32 rows) to {MOST_SHARDS}"),
    "ingest.languages": _LANGUAGES,
    "dedup.shingle_words": _POSITIVE,
    "dedup.permutations": (lambda value: 4 <= value <= 4096, "must be between 4 and 4096"),
    "dedup.jaccard": (lambda value: 0 < value <= 1, "is a share, over 0 and at most 1"),
    "dedup.min_statement_chars": _NOT_NEGATIVE,
    "execution.time_limit_s": _POSITIVE,
    "execution.wall_factor": _POSITIVE,
    "execution.memory_bytes": _POSITIVE,
    "execution.output_bytes": _POSITIVE,
    "execution.comparator": (lambda name: _is_comparator(name), f"must be one of {', '.join(COMPARATORS)}"),
    "execution.clock": (lambda name: name in list(Clock), "must be cpu or wall"),
    "execution.repetitions": _POSITIVE,
    "execution.infrastructure_retries": _NOT_NEGATIVE,
    "execution.chunk_solutions": _POSITIVE,
    "synthesis.attempts": _POSITIVE,
    "synthesis.calls_per_method": _POSITIVE,
    "synthesis.verification_pool": _POSITIVE,
    "synthesis.min_agreeing": (lambda value: value >= 2, "must be at least 2: one solution agrees with nobody"),
    "synthesis.max_input_bytes": _POSITIVE,
    "synthesis.generator_time_limit_s": _POSITIVE,
    "synthesis.adaptive_attempts": _NOT_NEGATIVE,
    "generation.temperature": _NOT_NEGATIVE,
    "generation.top_p": (lambda value: 0 < value <= 1, "is a share, over 0 and at most 1"),
    "generation.max_tokens": _POSITIVE,
    "generation.concurrency": _POSITIVE,
    "generation.timeout_s": _POSITIVE,
    "generation.price_prompt_usd": _NOT_NEGATIVE,
    "generation.price_completion_usd": _NOT_NEGATIVE,
    **{f"filter_correctness.{key}": rule for key, rule in _ROUND.items()},
    "filter_correctness.timeout_is_success": (
        lambda value: not value,
        "must be false: the allowance for time-outs covers optimization tests only",
    ),
    **{f"filter_optimization.{key}": rule for key, rule in _ROUND.items()},
    "filter_optimization.max_false_positive_rate": (
        lambda value: value == 1,
        "must be 1: negative controls decide nothing in the optimization round and are not run",
    ),
    "filterability.robust_cv": _NOT_NEGATIVE,
    "filterability.min_iqr_s": _NOT_NEGATIVE,
    "filterability.pearson_r": (lambda value: -1 <= value <= 1, "is a correlation, between -1 and 1"),
    "split.test_fraction": (lambda value: 0 <= value < 1, "is a share, at least 0 and under 1"),
    "split.test_size": (lambda value: value >= -1, "must be -1 (use test_fraction) or a number of problems"),
}


def _validate(config: BuildConfig, path: str) -> None:
    for key, (holds, rule) in _RULES.items():
        table, _, name = key.rpartition(".")
        value = getattr(getattr(config, table) if table else config, name)
        if not holds(value):
            raise ConfigError(f"{path}: '{key}' {rule}, got {value!r}")
    synthesis = config.synthesis
    if synthesis.verification_pool < synthesis.min_agreeing:
        raise ConfigError(
            f"{path}: 'synthesis.verification_pool' is {synthesis.verification_pool}, "
            f"but {synthesis.min_agreeing} of it must agree (synthesis.min_agreeing)"
        )


def _is_comparator(name: str) -> bool:
    try:
        comparator(name)
    except ConfigError:
        return False
    return True
