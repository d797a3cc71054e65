"""The tables are the documented interface, and their declarations are sound."""

import subprocess
import sys
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import schemas
from dmc_optim.report.explain import explain, meaning
from dmc_optim.report.tables_doc import render
from schemas import SCHEMA_VERSION, TABLES
from schemas.enums import ATTRITION_ONLY, AttemptReason, Reason
from schemas.exclusions import EXCLUSION_REASONS
from schemas.table import Column, ForeignKey, Table

ROOT = Path(__file__).resolve().parents[2]

# The interface: key columns, then the others, as readers of a build know them.
INTERFACE = {
    "problems": "problem_id | name source source_split statement difficulty cf_contest_id cf_index cf_rating cf_tags "
    "time_limit_s memory_limit_bytes",
    "clusters": "problem_id | cluster_id",
    "solutions": "problem_id solution_id | label language code",
    "tests": "problem_id test_id | category input output n_chars generator_attempt",
    "executions": "problem_id solution_id test_id campaign | status duration_s duration_std_s repetitions cpu_s wall_s "
    "peak_memory_bytes node epoch tier interpreter retries",
    "consensus": "problem_id campaign attempt solution_id | status outputs_sha256 agreed",
    "generator_attempts": "problem_id campaign attempt | prompt_solution_id model seed completion accepted reason "
    "n_tests n_agreeing",
    "exclusions": "stage entity problem_id entity_id | reason value threshold detail",
    "attrition": "stage entity label reason | n_in n_out n_created n_dropped",
    "problem_metrics": "problem_id campaign | n_correct_in n_correct_out n_incorrect_in n_incorrect_out fp_before "
    "fp_raw fp_timeout fp_final correct_pass_before correct_pass_raw correct_pass_timeout correct_pass_final tests_in "
    "tests_removed_timeout tests_removed_failure",
    "filterability": "problem_id category | n_tests robust_cv iqr_s median_s pearson_r duration_filterable "
    "length_filterable censored_share reason",
    "splits": "problem_id | pool split",
    "reference_durations": "problem_id test_id solution_id | duration_s duration_std_s repetitions status epoch",
    "calibrations": "fit_id | family coefficients cv_r2 cv_rmse_s train_r2 from_epoch to_epoch n_pairs",
}


@pytest.mark.parametrize("name", INTERFACE)
def test_interface(name: str) -> None:
    key, others = (part.split() for part in INTERFACE[name].split("|"))
    table = TABLES[name]
    assert list(table.key) == key
    assert set(others) <= set(table.column_names)


@pytest.mark.parametrize("name", TABLES)
def test_declaration_is_sound(name: str) -> None:
    table = TABLES[name]
    assert table.column_names[: len(table.key)] == table.key
    assert not any(table[column].nullable for column in table.key)
    assert len(set(table.column_names)) == len(table.columns)
    for field in table.schema:
        assert field.metadata[b"doc"].endswith(b".")
        assert field.nullable == table[field.name].nullable
        assert field.type != pa.large_string()
    for key in table.foreign_keys:
        other = TABLES[key.table]
        assert len(key.columns) == len(key.target_columns)
        for ours, theirs in zip(key.columns, key.target_columns, strict=True):
            assert table[ours].type == other[theirs].type


def test_every_check_runs_on_empty_tables_and_finds_nothing() -> None:
    connection = duckdb.connect()
    for table in TABLES.values():
        connection.register(table.name, table.schema.empty_table())
    names = [check.name for table in TABLES.values() for check in table.checks]
    assert len(names) == len(set(names))
    for table in TABLES.values():
        for check in table.checks:
            assert connection.execute(check.sql).fetchall() == [], check.name


TOY = Table(
    name="toy",
    key=("id",),
    description="A toy.",
    columns=(
        Column("id", pa.string(), "Id."),
        Column("kind", pa.string(), "Kind.", accepted=("a", "b")),
        Column("parent", pa.string(), "Another toy.", nullable=True),
        Column("share", pa.float64(), "Share.", nullable=True, minimum=0, maximum=1),
    ),
    foreign_keys=(ForeignKey(("parent",), "toy", ("id",), where="t.kind = 'b'"),),
    rules=(("small or b", "kind = 'b' OR share < 0.5", "an a has a small share"),),
)
SOUND = [("x", "a", None, 0.4), ("y", "b", "x", 1.0), ("z", "a", "nowhere", None)]


def found(rows: list[tuple]) -> set[str]:
    schema = pa.schema([field.with_nullable(True) for field in TOY.schema])
    table = pa.Table.from_pylist([dict(zip(TOY.column_names, row, strict=True)) for row in rows], schema=schema)
    connection = duckdb.connect()
    connection.register("toy", table)
    return {check.name for check in TOY.checks if connection.execute(check.sql).fetchall()}


def test_sound_rows_violate_nothing() -> None:
    assert found(SOUND) == set()  # a null share makes the rule null, and z's parent is bound for kind b only


@pytest.mark.parametrize(
    ("row", "violated"),
    [
        (("x", "a", None, 0.1), {"toy: unique key"}),
        ((None, "a", None, 0.1), {"toy.id: not null"}),
        (("n", "c", None, 0.1), {"toy.kind: accepted values"}),
        (("n", "b", "nowhere", 0.1), {"toy.parent in toy: foreign key"}),
        (("n", "a", None, -0.1), {"toy.share: range"}),
        (("n", "b", None, 1.1), {"toy.share: range"}),
        (("n", "b", None, float("nan")), {"toy.share: range"}),
        (("n", "a", None, 0.5), {"toy: small or b"}),
    ],
)
def test_each_kind_of_check_names_its_violation(row: tuple, violated: set[str]) -> None:
    assert found([*SOUND, row]) == violated


def test_a_null_in_a_required_column_is_refused_when_written(tmp_path: Path) -> None:
    row = dict.fromkeys(TABLES["splits"].column_names)
    table = pa.Table.from_pylist([row], schema=TABLES["splits"].schema)
    with pytest.raises(pa.ArrowInvalid, match="non-nullable"):
        pq.write_table(table, tmp_path / "splits.parquet")


def test_documentation_travels_in_the_file(tmp_path: Path) -> None:
    pq.write_table(TABLES["splits"].schema.empty_table(), tmp_path / "splits.parquet")
    field = pq.read_schema(tmp_path / "splits.parquet").field("pool")
    assert field.metadata[b"doc"] == TABLES["splits"]["pool"].doc.encode()


def test_reasons_are_distinct_and_each_has_words() -> None:
    reasons = [*Reason, *AttemptReason]
    assert len(set(reasons)) == len(reasons)
    assert set(EXCLUSION_REASONS) == set(reasons) - set(ATTRITION_ONLY)
    for reason in reasons:
        assert meaning(reason)
        assert "{" not in explain(reason, 0.5, 0.25, "detail")


def test_explanations_say_shares_and_counts() -> None:
    assert explain("false_positive_rate", 0.0667, 0.05) == (
        "6.67% of the entering incorrect solutions pass the suite, 5% allowed"
    )
    assert explain("too_few_correct", 4.0, 5.0, "all wrong") == "4 correct solutions left, 5 needed (all wrong)"
    assert explain("fails_suite", 1.0, 0.0, most=5.0) == "it fails 1 to 5 tests of the filtered suite, 0 allowed"
    assert explain("something new") == "something new"


def test_docs_are_up_to_date() -> None:
    assert (ROOT / "docs" / "tables.md").read_text(encoding="utf-8") == render(), (
        "run: python -m dmc_optim.report.tables_doc > docs/tables.md"
    )


def test_vocabularies_import_without_arrow() -> None:
    code = "import sys, schemas.enums; sys.exit('pyarrow' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0


def test_version_is_semantic_and_unknown_names_are_refused() -> None:
    assert [part.isdigit() for part in SCHEMA_VERSION.split(".")] == [True] * 3
    with pytest.raises(AttributeError, match="TABLE"):
        schemas.TABLE  # noqa: B018
    with pytest.raises(KeyError, match="no column nothing"):
        TABLES["splits"]["nothing"]
