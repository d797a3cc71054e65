"""Run the checks of a build and say what is violated."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import duckdb

from dmc_optim.artifacts.layout import Layout
from dmc_optim.audit.conservation import conservation_checks
from dmc_optim.audit.decisions import round_checks, stage_checks
from dmc_optim.audit.files import FILE_CHECKS, file_violations
from dmc_optim.audit.generation import generation_checks
from dmc_optim.audit.recompute import recompute_round
from dmc_optim.audit.settings import stored_config
from dmc_optim.audit.timing import filterability_checks, reference_checks, split_checks
from dmc_optim.config import BuildConfig
from schemas import TABLES
from schemas.enums import Campaign
from schemas.table import Check


@dataclass(frozen=True)
class Violation:
    """A rule that does not hold. rows: how many rows break it; examples: a few of them."""

    check: str
    rule: str
    rows: int
    examples: list[dict[str, Any]]


def all_checks(config: BuildConfig) -> list[Check]:
    """Declared checks of every table, then those across tables, in the order of the build."""
    synthesis = config.synthesis
    return [
        *itertools.chain.from_iterable(table.checks for table in TABLES.values()),
        *conservation_checks(),
        *stage_checks(),
        *generation_checks(synthesis.calls_per_method * 3, synthesis.min_agreeing, config.execution.comparator),
        *round_checks(Campaign.CORRECTNESS),
        *round_checks(Campaign.OPTIMIZATION),
        *filterability_checks(config.filterability, config.execution.time_limit_s),
        *split_checks(),
        *reference_checks(),
    ]


def count_checks(layout: Layout) -> int:
    """How many rules `run_checks` tries."""
    return len(all_checks(stored_config(layout.manifest()))) + FILE_CHECKS


def run_checks(connection: duckdb.DuckDBPyConnection, layout: Layout, examples: int = 3) -> Iterator[Violation]:
    """Violations of every rule, as they are found. connection: from `dmc_optim.audit.connection.connect`."""
    config = stored_config(layout.manifest())
    for name, rule, found in file_violations(layout):
        if found:
            yield Violation(name, rule, len(found), found[:examples])
    recompute_round(connection, Campaign.CORRECTNESS, config.filter_correctness)
    recompute_round(connection, Campaign.OPTIMIZATION, config.filter_optimization)
    for check in all_checks(config):
        count = connection.execute(f"SELECT count(*) FROM ({check.sql})").fetchone()
        if count and count[0]:
            cursor = connection.execute(f"SELECT * FROM ({check.sql}) ORDER BY ALL LIMIT {examples}")
            names = [name for name, *_ in cursor.description or ()]
            rows = [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
            yield Violation(check.name, check.doc, count[0], rows)
