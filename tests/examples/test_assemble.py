"""The committed artifacts of the bundled corpus are what its readable sources give."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dmc_optim.artifacts.source import SOURCE_SCHEMA, find_files
from dmc_optim.llm.recorded import RecordedCompletions
from examples import assemble

CORPUS = assemble.HERE / "corpus"


def read_as_bytes(path):
    """Rows of a Parquet file, text as bytes: one row is not valid UTF-8."""
    table = pq.read_table(path)
    return pa.table([column.cast(assemble._with_bytes(column.type)) for column in table.columns], table.schema.names)


@pytest.mark.parametrize("split", assemble.SPLITS)
def test_committed_corpus_row_by_row(split):
    path = CORPUS / f"{split}-00000-of-00001.parquet"
    assert pq.read_schema(path).equals(assemble.SCHEMA)
    committed = read_as_bytes(path).to_pylist()
    slugs = assemble.slugs(split)
    assert len(committed) == len(slugs)
    for slug, row in zip(slugs, committed, strict=True):
        assert row == assemble.problem_row(slug), f"{slug}: run `python examples/assemble.py`"


@pytest.mark.parametrize("name", ["recorded_generators.jsonl", "benchmark.jsonl"])
def test_committed_json_lines(name):
    rows = {"recorded_generators.jsonl": assemble.recorded_generators, "benchmark.jsonl": assemble.benchmark}[name]()
    committed = [json.loads(line) for line in (assemble.HERE / name).read_text(encoding="utf-8").splitlines()]
    assert committed == rows, "run `python examples/assemble.py`"


def test_assembling_twice_gives_the_same_bytes(tmp_path):
    first = [path.read_bytes() for path in assemble.write(tmp_path / "a")]
    assert first == [path.read_bytes() for path in assemble.write(tmp_path / "b")]


def test_artifacts_are_small_and_readable_by_the_build():
    files = find_files(str(CORPUS))
    assert [(file.split, file.rows) for file in files] == [(s, len(assemble.slugs(s))) for s in ("test", "train")]
    assert list(SOURCE_SCHEMA.names) == list(assemble.SCHEMA.names)
    assert sum(path.stat().st_size for path in CORPUS.iterdir()) < 300_000
    recorded = RecordedCompletions.load(assemble.HERE / "recorded_generators.jsonl")
    settings = {row["id"]: assemble.problem_settings(row["slug"])["name"] for row in assemble.expected()["rows"]}
    assert recorded.unknown(settings, settings.values()) == []


def test_row_ids_count_from_zero_in_each_split():
    rows = assemble.expected()["rows"]
    for split in assemble.SPLITS:
        ids = [row["id"] for row in rows if row["id"].startswith(f"{split}/")]
        assert ids == [f"{split}/{i}" for i in range(len(ids))]


def test_every_folder_is_a_row_and_every_row_a_folder():
    folders = {path.name for path in (assemble.HERE / "problems").iterdir() if path.is_dir()}
    slugs = [row["slug"] for row in assemble.expected()["rows"]]
    assert folders == set(slugs)
    assert len(slugs) == len(set(slugs))


def broken_texts(value, path=""):
    """Paths of the texts in a row that are null or not valid UTF-8."""
    if isinstance(value, dict):
        return [found for key, item in value.items() for found in broken_texts(item, f"{path}.{key}")]
    if isinstance(value, list):
        return [found for item in value for found in broken_texts(item, path)]
    if isinstance(value, bytes):
        try:
            value.decode("utf-8")
        except UnicodeDecodeError:
            return [f"{path} is not UTF-8"]
    return [f"{path} is null"] if value is None and path not in (".time_limit",) else []


def test_only_the_rows_that_say_so_are_broken():
    faulty = {}
    for row in assemble.expected()["rows"]:
        found = assemble.problem_row(row["slug"])
        broken = broken_texts(found)
        for column in ("public_tests", "private_tests", "generated_tests", "solutions", "incorrect_solutions"):
            lengths = {key: len(items) for key, items in found[column].items()}
            if len(set(lengths.values())) > 1:
                broken.append(f".{column} has lists of {lengths}")
        if broken:
            faulty[row["slug"]] = broken
    assert faulty == {
        "null-statement": [".description is null"],
        "latin-1-statement": [".description is not UTF-8"],
        "missing-output": [".public_tests has lists of {'input': 2, 'output': 1}"],
        "null-output": [".private_tests.output is null"],
        "languages-short": [".solutions has lists of {'language': 1, 'solution': 2}"],
    }
