"""Stored measurements of a build, one problem at a time: durations, spreads and statuses of its references.

Reads `reference_durations`, `tests`, `solutions` and `splits`. Where the references of a problem have no stored cell on
its base tests, their outcome there comes from `executions`.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from dmc_optim.artifacts.layout import Layout
from dmc_optim.errors import ArtifactError
from schemas import TABLES
from schemas.enums import ORIGINAL_CATEGORIES, Category, Label, Outcome, Status

if TYPE_CHECKING:
    import duckdb

Floats = NDArray[np.float64]
Statuses = NDArray[np.int8]

SUCCESS, TIMEOUT, FAILURE, NO_VERDICT = 0, 1, 2, -1
_OUTCOME_CODES = {Outcome.SUCCESS: SUCCESS, Outcome.TIMEOUT: TIMEOUT, Outcome.FAILURE: FAILURE, None: NO_VERDICT}
_STATUS_CODES = {status.value: _OUTCOME_CODES[status.outcome] for status in Status}
_ORIGINAL = ", ".join(f"'{category}'" for category in ORIGINAL_CATEGORIES)
_GROUP_CODES = {category.value: 0 for category in ORIGINAL_CATEGORIES}
_GROUP_CODES |= {Category.CORRECTNESS.value: 1, Category.OPTIMIZATION.value: 2}
_MEASURED = ("problem_id", "solution_id", "test_id", "duration_s", "duration_std_s", "repetitions", "status")
_COLUMNS = {
    "splits": ("problem_id", "pool", "split"),
    "tests": ("problem_id", "test_id", "category", "n_chars"),
    "reference_durations": _MEASURED,
    "solutions": ("problem_id", "solution_id", "label"),
    "executions": (*_MEASURED, "campaign"),
    "exclusions": ("entity", "problem_id", "entity_id"),
}
_REQUIRED = ("splits", "tests", "reference_durations")
_BATCH_ROWS = 1 << 20


@dataclass(frozen=True, eq=False)
class Cells:
    """One group of tests of a problem: H references in order of solution_id, n tests in order of test_id.

    duration_s, std_s: (H, n) seconds, NaN missing. repetitions: (H, n), 0 missing. status: (H, n) codes 0 success,
    1 timeout, 2 failure, −1 no verdict. chars: (n,) characters of input and output.
    """

    test_ids: tuple[str, ...]
    chars: NDArray[np.int64]
    duration_s: Floats
    std_s: Floats
    repetitions: NDArray[np.int64]
    status: Statuses


@dataclass(frozen=True, eq=False)
class StoredProblem:
    """What a build knows of one problem's references, by group of tests. split: train, test or none."""

    problem_id: str
    split: str
    solution_ids: tuple[str, ...]
    base: Cells
    added: Cells
    optimization: Cells


@dataclass(frozen=True)
class Selection:
    """Which problems are read. pool: rl, complement or all; split: train, test or all; limit: the first so many."""

    pool: str = "rl"
    split: str = "all"
    limit: int | None = None

    def __str__(self) -> str:
        return f"{self.pool} pool, {self.split} split{'s' if self.split == 'all' else ''}"


def stored_problems(directory: str, selection: Selection) -> Iterator[StoredProblem]:
    """Problems of a build with at least one reference cell, in order of problem_id.

    Raises ArtifactError where there is no build, a table is missing or unreadable, or nothing is selected.
    """
    layout = Layout(directory)
    if not layout.fs.isdir(layout.root):
        raise ArtifactError(f"{directory}: no such directory; give the --out of a `dmc-optim build`")
    with _open(layout, directory) as connection:
        n_problems = _create_chosen(connection, directory, selection)
        n = 0
        for table in _by_problem(connection.sql(_CELLS).to_arrow_reader(_BATCH_ROWS)):
            n += 1
            yield _problem(table)
        if n == 0:
            raise ArtifactError(
                f"{directory}: `reference_durations` has no row for the {n_problems} problems of the {selection}; "
                "run the build through its last stage, or choose another --pool or --split"
            )


_REFERENCES = f"""
CREATE TEMP VIEW reference_cells AS
SELECT r.problem_id, r.solution_id, r.test_id, r.duration_s, r.duration_std_s, r.repetitions, r.status
FROM reference_durations r SEMI JOIN chosen USING (problem_id)
ANTI JOIN (SELECT problem_id, solution_id FROM solutions WHERE label = '{Label.INCORRECT}') wrong
    ON (r.problem_id = wrong.problem_id AND r.solution_id = wrong.solution_id)
"""

# Outcomes on retained base and correctness tests of the problems whose references have no stored cell on base tests.
_EXECUTED = f"""
CREATE TEMP VIEW executed_cells AS
SELECT e.problem_id, e.solution_id, e.test_id, e.duration_s, e.duration_std_s, e.repetitions, e.status
FROM executions e
SEMI JOIN (SELECT DISTINCT problem_id, solution_id FROM reference_cells) USING (problem_id, solution_id)
JOIN tests t USING (problem_id, test_id)
ANTI JOIN (
    SELECT problem_id FROM reference_cells JOIN tests USING (problem_id, test_id) WHERE category IN ({_ORIGINAL})
) known ON (e.problem_id = known.problem_id)
ANTI JOIN (SELECT problem_id, entity_id FROM exclusions WHERE entity = 'test') gone
    ON (e.problem_id = gone.problem_id AND e.test_id = gone.entity_id)
ANTI JOIN reference_cells own
    ON (e.problem_id = own.problem_id AND e.solution_id = own.solution_id AND e.test_id = own.test_id)
WHERE t.category <> '{Category.OPTIMIZATION}'
QUALIFY row_number() OVER (PARTITION BY e.problem_id, e.solution_id, e.test_id ORDER BY e.campaign) = 1
"""

_CELLS = """
SELECT problem_id, split, solution_id, test_id, category, n_chars, duration_s, duration_std_s, repetitions, status
FROM (FROM reference_cells UNION ALL FROM executed_cells) JOIN tests USING (problem_id, test_id)
JOIN chosen USING (problem_id)
ORDER BY problem_id
"""


def _open(layout: Layout, directory: str) -> "duckdb.DuckDBPyConnection":
    """A connection with one view a table; an absent optional table is empty."""
    import duckdb

    connection = duckdb.connect()
    connection.execute("SET enable_progress_bar = false")
    protocols = layout.fs.protocol if isinstance(layout.fs.protocol, tuple) else (layout.fs.protocol,)
    if "file" not in protocols:
        connection.register_filesystem(layout.fs)
    for name in _COLUMNS:
        paths = layout.glob(f"tables/{name}/*.parquet")
        if not paths and name in _REQUIRED:
            raise ArtifactError(
                f"{directory}: no table `{name}` under tables/; it must be the --out of a finished `dmc-optim build` "
                "that some problem survived (`dmc-optim status` says)"
            )
        for path in paths:
            _check(layout, path, name)
        connection.execute(f"CREATE TEMP VIEW {name} AS {_select(layout, name, paths, 'file' in protocols)}")
    return connection


def _select(layout: Layout, name: str, paths: list[str], local: bool) -> str:
    if not paths:
        types = {pa.string(): "VARCHAR", pa.int64(): "BIGINT", pa.float64(): "DOUBLE"}
        schema = TABLES[name].schema
        nothing = ", ".join(f"NULL::{types[schema.field(column).type]} AS {column}" for column in _COLUMNS[name])
        return f"SELECT {nothing} WHERE false"
    urls = ", ".join("'{}'".format((p if local else layout.fs.unstrip_protocol(p)).replace("'", "''")) for p in paths)
    columns = ", ".join(_COLUMNS[name])
    return f"SELECT {columns} FROM read_parquet([{urls}], hive_partitioning = false, union_by_name = true)"


def _check(layout: Layout, path: str, name: str) -> None:
    """Raise ArtifactError for a file that cannot be read or lacks a column."""
    try:
        with layout.fs.open(path, "rb") as handle:
            found = pq.read_schema(handle).names
    except (pa.ArrowException, OSError) as error:
        reason = str(error).splitlines()[0]
        raise ArtifactError(f"{path}: not a readable Parquet file ({reason}); remove it and build again") from error
    missing = [column for column in _COLUMNS[name] if column not in found]
    if missing:
        raise ArtifactError(f"{path}: no column `{missing[0]}` (table {name}); build it again")


def _create_chosen(connection: "duckdb.DuckDBPyConnection", directory: str, selection: Selection) -> int:
    """Table `chosen` of the selected problems, and the views of their cells. Returns how many problems."""
    limit = "" if selection.limit is None else f"LIMIT {int(selection.limit)}"
    connection.execute(
        f"""CREATE TEMP TABLE chosen AS SELECT problem_id, split FROM splits
        WHERE ($pool = 'all' OR pool = $pool) AND ($split = 'all' OR split = $split) ORDER BY problem_id {limit}""",
        {"pool": selection.pool, "split": selection.split},
    )
    connection.execute(_REFERENCES)
    connection.execute(_EXECUTED)
    count = "SELECT (SELECT count(*) FROM chosen), (SELECT count(*) FROM splits)"
    ((chosen, total),) = connection.execute(count).fetchall()
    if not chosen:
        raise ArtifactError(
            f"{directory}: no problem in the {selection} ({total} problems in `splits`); "
            "choose another --pool or --split"
        )
    return int(chosen)


def _by_problem(reader: pa.RecordBatchReader) -> Iterator[pa.Table]:
    """Rows grouped by problem_id, from batches that are ordered by it."""
    rest: pa.Table | None = None
    for batch in reader:
        table = pa.Table.from_batches([batch])
        table = table if rest is None else pa.concat_tables([rest, table])
        ends = pc.run_end_encode(table.column("problem_id").combine_chunks()).run_ends.to_pylist()
        start = 0
        for end in ends[:-1]:
            yield table.slice(start, end - start)
            start = end
        rest = table.slice(start)
    if rest is not None and rest.num_rows:
        yield rest


def _problem(table: pa.Table) -> StoredProblem:
    solutions, row = _coded(table, "solution_id")
    group = _looked_up(table, "category", _GROUP_CODES, 0)
    parts = [_cells(table.filter(pa.array(group == k)), row[group == k], len(solutions)) for k in range(3)]
    return StoredProblem(
        table.column("problem_id")[0].as_py(), table.column("split")[0].as_py(), tuple(solutions), *parts
    )


def _looked_up(table: pa.Table, column: str, codes: dict[str, int], default: int) -> NDArray[np.int8]:
    """The code of each row's value."""
    encoded = table.column(column).combine_chunks().dictionary_encode()
    values = [codes.get(value, default) for value in encoded.dictionary.to_pylist()]
    return np.array(values, dtype=np.int8)[encoded.indices.to_numpy()]


def _coded(table: pa.Table, column: str) -> tuple[list[str], NDArray[np.int64]]:
    """Sorted distinct values, and the place of each row's value among them."""
    encoded = table.column(column).combine_chunks().dictionary_encode()
    values = encoded.dictionary.to_pylist()
    order = sorted(range(len(values)), key=values.__getitem__)
    place = np.empty(len(values), dtype=np.int64)
    place[order] = np.arange(len(values))
    return [values[i] for i in order], place[encoded.indices.to_numpy()]


def _cells(table: pa.Table, row: NDArray[np.int64], n_solutions: int) -> Cells:
    tests, column = _coded(table, "test_id")
    shape = (n_solutions, len(tests))

    def filled(values: NDArray[Any], empty: float) -> NDArray[Any]:
        array = np.full(shape, empty, dtype=values.dtype)
        array[row, column] = values
        return array

    status = _looked_up(table, "status", _STATUS_CODES, NO_VERDICT)
    seconds = np.where(status == NO_VERDICT, np.nan, _numbers(table, "duration_s"))
    chars = np.zeros(len(tests), dtype=np.int64)
    chars[column] = table.column("n_chars").to_numpy()
    return Cells(
        tuple(tests),
        chars,
        filled(seconds, np.nan),
        filled(_numbers(table, "duration_std_s"), np.nan),
        filled(np.nan_to_num(_numbers(table, "repetitions")).astype(np.int64), 0),
        filled(status, NO_VERDICT),
    )


def _numbers(table: pa.Table, column: str) -> Floats:
    return np.asarray(table.column(column).to_numpy(), dtype=np.float64)
