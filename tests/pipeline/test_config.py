"""TOML over the defaults: every value that makes no sense is refused with the file, the key and what is allowed."""

from dataclasses import fields, is_dataclass
from fractions import Fraction
from pathlib import Path

import pytest

from dmc_optim.config import _RULES, BuildConfig, exact, load_config
from dmc_optim.errors import ConfigError

REFUSED = [
    ("seed = true", "'seed' must be int, got True"),
    ("seed = 1.5", "'seed' must be int"),
    ("seed = 9223372036854775808", "64 bits"),
    ("shards = -1", "'shards'"),
    ("shards = 100000", "10000"),
    ("ingest = 3", r"write \[ingest\]"),
    ('[ingest]\nlanguages = "python3"', "must be a list of str"),
    ("[ingest]\nlanguages = [3]", "must be a list of str"),
    ("[ingest]\nlanguages = []", "one or more of"),
    ('[ingest]\nlanguages = ["python4"]', "one or more of unknown, python2"),
    ("[dedup]\nshingle_words = 0", "'dedup.shingle_words' must be positive, got 0"),
    ("[dedup]\npermutations = 2", "between 4 and 4096"),
    ("[dedup]\nmin_statement_chars = -1", "not be negative"),
    ("[execution]\ntime_limit_s = inf", "must be a finite number"),
    ("[execution]\ntime_limit_s = nan", "must be a finite number"),
    ("[execution]\ntime_limit_s = true", "must be float, got True"),
    ("[execution]\nwall_factor = -inf", "must be a finite number"),
    ("[execution]\nmemory_bytes = -1", "must be positive"),
    ("[execution]\noutput_bytes = 1e30", "must be int"),
    ('[execution]\nclock = "sundial"', "must be cpu or wall, got 'sundial'"),
    ('[execution]\ncomparator = "tokens_float:nan"', "tokens_float:EPS"),
    ('[execution]\ncomparator = "tokens_float:"', "tokens_float:EPS"),
    ("[synthesis]\nmin_agreeing = 1", "at least 2"),
    ("[synthesis]\ngenerator_time_limit_s = -1", "must be positive"),
    ("[synthesis]\nverification_pool = 3\nmin_agreeing = 4", "4 of it must agree"),
    ("[filter_correctness]\nmin_correct = -3", "not be negative"),
    ("[filter_correctness]\ntimeout_cap = nan", "must be a finite number"),
    ("[filter_correctness]\nfailure_fraction = 40", "is a share, between 0 and 1, got 40.0"),
    ("[filter_correctness]\ntimeout_is_success = true", "covers optimization tests only, got True"),
    ("[filter_optimization]\nmax_false_positive_rate = 0.1", "not run"),
    ('[filterability]\nrobust_cv = "x"', "must be float, got 'x'"),
    ("[filterability]\nrobust_cv = nan", "must be a finite number"),
    ("[filterability]\nmin_iqr_s = -1", "not be negative"),
    ("[filterability]\npearson_r = 2", "between -1 and 1"),
    ("[split]\ntest_size = -7", "-1"),
    ("[split]\ntest_fraction = 1", "under 1"),
    ("[split]\ntest_fractoin = 0.5", "did you mean 'split.test_fraction'"),
    ("seed", "not a readable TOML file"),
]


@pytest.mark.parametrize(("text", "says"), REFUSED, ids=[text.replace("\n", " ") for text, _ in REFUSED])
def test_a_value_that_makes_no_sense_is_refused(tmp_path: Path, text: str, says: str) -> None:
    file = tmp_path / "c.toml"
    file.write_text(text + "\n")
    with pytest.raises(ConfigError, match=says) as caught:
        load_config(file)
    assert str(file) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_every_number_and_word_has_a_rule() -> None:
    """A new setting cannot be forgotten: only the seed and switches are free."""
    config = BuildConfig()
    named = set()
    for f in fields(config):
        value = getattr(config, f.name)
        inner = {f"{f.name}.{g.name}": getattr(value, g.name) for g in fields(value)} if is_dataclass(value) else {}
        named |= {key for key, own in (inner or {f.name: value}).items() if not isinstance(own, bool)}
    assert named == {key for key in _RULES if not isinstance(_value(config, key), bool)} | {"seed"}
    assert all(holds(_value(config, key)) for key, (holds, _) in _RULES.items())


def _value(config: BuildConfig, key: str) -> object:
    for name in key.split("."):
        config = getattr(config, name)
    return config


@pytest.mark.parametrize("written", ["0.1", "0.07", "0.30000000000000004", "1e-3", "0.333333333333333314829616256247"])
def test_shares_are_the_decimals_that_were_written(tmp_path: Path, written: str) -> None:
    file = tmp_path / "c.toml"
    file.write_text(f"[filter_correctness]\nfailure_fraction = {written}\n")
    share = exact(load_config(file).filter_correctness.failure_fraction)
    assert share == Fraction(written) or len(written) > 18  # more digits than a double holds
    assert abs(share - Fraction(written)) < Fraction(1, 10**16)
