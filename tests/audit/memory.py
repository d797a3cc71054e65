"""A small build in memory, for one check at a time."""

from dataclasses import asdict

import duckdb
import pyarrow as pa

from dmc_optim.audit.connection import derive_views
from dmc_optim.audit.recompute import recompute_round
from dmc_optim.audit.run import all_checks
from dmc_optim.config import BuildConfig
from schemas import TABLES
from schemas.enums import Campaign
from tests.audit.small_build import SmallBuild

CONFIG = BuildConfig()
CHECKS = {check.name: check for check in all_checks(CONFIG)}


def connect(build: SmallBuild) -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    for name, table in TABLES.items():
        schema = pa.schema([field.with_nullable(True) for field in table.schema])
        connection.register(name, pa.Table.from_pylist(build.tables[name], schema=schema))
    derive_views(connection, {"config": asdict(CONFIG)})
    return connection


def violations(build: SmallBuild, name: str) -> list[tuple]:
    """Rows that violate one check."""
    connection = connect(build)
    if "filter_" in name or "figures" in name:
        recompute_round(connection, Campaign.CORRECTNESS, CONFIG.filter_correctness)
        recompute_round(connection, Campaign.OPTIMIZATION, CONFIG.filter_optimization)
    return connection.execute(CHECKS[name].sql).fetchall()
