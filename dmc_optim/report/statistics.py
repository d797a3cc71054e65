"""All paper statistics of a build, recomputed from its tables."""

import duckdb

from dmc_optim.audit.connection import connect
from dmc_optim.report.corpus import corpus_sections
from dmc_optim.report.measures import Section, Statistics
from dmc_optim.report.quality import quality_sections
from dmc_optim.report.timing import timing_sections

Connection = duckdb.DuckDBPyConnection


def build_statistics(out: str) -> Statistics:
    """Statistics of the build at `out`. Raises ArtifactError when there is none."""
    return compute_statistics(connect(out))


def compute_statistics(connection: Connection) -> Statistics:
    """connection: from `dmc_optim.audit.connection.connect`. Sections without any figure are left out."""
    row = connection.execute("SELECT value FROM config WHERE key = 'execution.time_limit_s'").fetchone()
    time_limit_s = float(row[0]) if row else 10.0
    funnel, acceptance, *rest = corpus_sections(connection)
    sections: list[Section] = [
        funnel,
        acceptance,
        *quality_sections(connection),
        *rest,
        *timing_sections(connection, time_limit_s),
    ]
    return Statistics(tuple(section for section in sections if any(m.ours is not None for m in section.measures)))
