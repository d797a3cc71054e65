"""All tables, in the order in which a build first writes them."""

from schemas.attrition import ATTRITION
from schemas.calibrations import CALIBRATIONS
from schemas.clusters import CLUSTERS
from schemas.consensus import CONSENSUS
from schemas.exclusions import EXCLUSIONS
from schemas.executions import EXECUTIONS
from schemas.filterability import FILTERABILITY
from schemas.generation_usage import GENERATION_USAGE
from schemas.generator_attempts import GENERATOR_ATTEMPTS
from schemas.problem_metrics import PROBLEM_METRICS
from schemas.problems import PROBLEMS
from schemas.reference_durations import REFERENCE_DURATIONS
from schemas.solutions import SOLUTIONS
from schemas.splits import SPLITS
from schemas.statement_quality import STATEMENT_QUALITY
from schemas.table import Table
from schemas.tests import TESTS

TABLES: dict[str, Table] = {
    table.name: table
    for table in (
        PROBLEMS,
        CLUSTERS,
        SOLUTIONS,
        TESTS,
        EXECUTIONS,
        CONSENSUS,
        GENERATOR_ATTEMPTS,
        GENERATION_USAGE,
        STATEMENT_QUALITY,
        EXCLUSIONS,
        ATTRITION,
        PROBLEM_METRICS,
        FILTERABILITY,
        SPLITS,
        REFERENCE_DURATIONS,
        CALIBRATIONS,
    )
}
