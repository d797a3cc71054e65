"""Source and benchmark files of every odd kind: read as they are meant, or refused in one line that names the file."""

import gzip
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dmc_optim.artifacts.benchmark import fingerprint, read_benchmark
from dmc_optim.artifacts.layout import file_name
from dmc_optim.artifacts.source import SOURCE_SCHEMA, find_files, plan_ranges, read_range
from dmc_optim.config import BuildConfig, DedupConfig
from dmc_optim.errors import SourceError
from pipeline.build import build
from pipeline.request import BuildRequest
from schemas.enums import Reason, Stage
from tests.pipeline import naive
from tests.pipeline.corpus import SourceProblem, program, text_schema, write_generators, write_source
from transforms.context import EngineSpec
from transforms.dedup import Matcher, benchmark_match, signature

PROBLEM = SourceProblem("Sum", ["print(1)", "print(3)"], ["print(2)"])


def read(source: Path | str, limit: int | None = None) -> Iterator[tuple[str, dict[str, Any]]]:
    for span in plan_ranges(find_files(str(source)), limit):
        for index, row in read_range(span):
            yield f"{span.split}/{index}", row


def refused(source: Path | str, *says: str) -> None:
    with pytest.raises(SourceError) as caught:
        list(read(source))
    message = str(caught.value)
    assert "\n" not in message
    for words in (str(source), *says):
        assert words in message


def large(kind: pa.DataType) -> pa.DataType:
    """As other writers store it: 64-bit offsets everywhere."""
    if pa.types.is_string(kind):
        return pa.large_string()
    if pa.types.is_list(kind):
        return pa.large_list(large(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([(f.name, large(f.type)) for f in kind])
    return kind


def table(**columns: pa.Array) -> pa.Table:
    """One row, some columns replaced by others of another type."""
    found = pa.Table.from_pylist([PROBLEM.row()], schema=text_schema())
    for name, column in columns.items():
        found = found.set_column(found.schema.get_field_index(name), name, column)
    return found


def test_files_of_several_splits_are_numbered_by_split_and_name(tmp_path: Path) -> None:
    write_source(tmp_path / "train-00001-of-00002.parquet", [PROBLEM] * 3)
    write_source(tmp_path / "train-00000-of-00002.parquet", [PROBLEM] * 2)
    write_source(tmp_path / "test.parquet", [PROBLEM])
    pq.write_table(text_schema().empty_table(), tmp_path / "valid.parquet")
    (tmp_path / "notes.txt").write_text("not data")
    ids = ["test/0", *(f"train/{i}" for i in range(5))]
    assert [i for i, _ in read(tmp_path)] == ids
    assert [i for i, _ in read(tmp_path / "*.parquet")] == ids
    assert [i for i, _ in read(tmp_path / "*.parquet", limit=3)] == ids[:3]
    assert [i for i, _ in read(tmp_path / "train-*-of-00002.parquet", limit=4)] == ids[1:5]
    assert [i for i, _ in read(tmp_path / "train-00001-of-00002.parquet")] == ["train/0", "train/1", "train/2"]


def test_a_name_with_brackets_is_a_name(tmp_path: Path) -> None:
    write_source(tmp_path / "rows [1]" / "a[b]*.parquet", [PROBLEM])
    assert [i for i, _ in read(tmp_path / "rows [1]")] == ["a[b]*/0"]
    assert [i for i, _ in read(tmp_path / "rows [1]" / "a[b]*.parquet")] == ["a[b]*/0"]


@pytest.mark.parametrize("row_group_size", [1, 3, 100])
def test_ranges_and_row_groups_give_every_row_once(tmp_path: Path, row_group_size: int) -> None:
    rows = [PROBLEM.row() | {"name": f"P{i}"} for i in range(23)]
    file = tmp_path / "train.parquet"
    pq.write_table(pa.Table.from_pylist(rows, schema=text_schema()), file, row_group_size=row_group_size)
    for size in (1, 5, 23, 256):
        ranges = plan_ranges(find_files(str(file)), 21, size)
        found = [(index, row["name"]) for span in ranges for index, row in read_range(span)]
        assert found == [(i, f"P{i}".encode()) for i in range(21)]


def test_other_writers_types_are_read_as_the_same_values(tmp_path: Path) -> None:
    write_source(tmp_path / "plain.parquet", [PROBLEM])
    ((_, plain),) = read(tmp_path / "plain.parquet")
    wide = pa.schema([(f.name, large(f.type)) for f in text_schema()])
    pq.write_table(table().cast(wide).append_column("extra", pa.array([{"a": [1]}])), tmp_path / "wide.parquet")
    coded = table(name=pa.array(["Sum"]).dictionary_encode(), description=table().column(1).dictionary_encode())
    pq.write_table(coded, tmp_path / "coded.parquet")
    for name in ("wide", "coded"):
        ((_, row),) = read(tmp_path / f"{name}.parquet")
        assert row == plain


def test_text_views_are_text(tmp_path: Path) -> None:
    views = {"name": pa.array(["Sum"], pa.string_view()), "input_file": pa.array([b"\xff"], pa.binary_view())}
    pq.write_table(table(**views), tmp_path / "train.parquet")
    ((_, row),) = read(tmp_path / "train.parquet")
    assert (row["name"], row["input_file"]) == (b"Sum", b"\xff")


def test_a_column_that_is_there_twice_is_refused(tmp_path: Path) -> None:
    pq.write_table(table().append_column("name", pa.array(["Other"])), tmp_path / "train.parquet")
    refused(tmp_path / "train.parquet", "more than one column is named name")


@pytest.mark.parametrize("name", [b"-00000-of-00001.parquet", b"a\nb.parquet", b"\xff.parquet"])
def test_a_name_that_gives_no_split_is_refused(tmp_path: Path, name: bytes) -> None:
    file = os.fsdecode(os.fsencode(tmp_path) + b"/" + name)
    write_source(tmp_path / "ok.parquet", [PROBLEM]).rename(file)
    with pytest.raises(SourceError, match="gives no split") as caught:
        find_files(file)
    assert str(caught.value).isprintable()


def test_a_long_name_of_another_script_is_cut_where_it_names_files(tmp_path: Path) -> None:
    """255 bytes are the most that file systems take, and one such character quoted is nine."""
    split = "問" * 80
    source = write_source(tmp_path / f"{split}.parquet", [SourceProblem("Sum", [program("c")], [program("w")])])
    asked = BuildRequest(
        source=str(source),
        out=str(tmp_path / "out"),
        config=BuildConfig(),
        engine=EngineSpec("fake"),
        generator=f"recorded:{write_generators(tmp_path / 'g.jsonl', [PROBLEM])}",
        through=Stage.SYNTHESIZE_CORRECTNESS,
    )
    build(asked, lambda line: None)
    assert {row["problem_id"] for row in naive.rows(tmp_path / "out", "generator_attempts")} == {f"{split}/0"}
    assert len({file_name(f"{split}/{index}") for index in range(3)}) == 3
    assert max(len(file_name(text)) for text in (split, "a" * 250)) < 120
    assert file_name("train/1") == "train%2F1"


@pytest.mark.parametrize("name", SOURCE_SCHEMA.names)
def test_a_column_without_any_value_is_a_column_of_nulls(tmp_path: Path, name: str) -> None:
    pq.write_table(table(**{name: pa.nulls(1)}), tmp_path / "train.parquet")
    ((_, row),) = read(tmp_path / "train.parquet")
    assert row[name] is None


def test_wrong_types_are_refused_however_deep(tmp_path: Path) -> None:
    file = tmp_path / "train.parquet"
    for column in (
        {"cf_contest_id": pa.array([2**63], pa.uint64())},
        {"cf_contest_id": pa.array([1.0])},
        {"name": pa.array([[b"x"]])},
        {"solutions": pa.array([{"language": ["3"], "solution": ["x"]}])},
        {"solutions": pa.array([[{"language": 3, "solution": "x"}]])},
        {"public_tests": pa.array([{"input": ["1"]}])},
        {"is_description_translated": pa.array(["yes"])},
        {"time_limit": pa.array([{"seconds": 1.0, "nanos": 0}])},
    ):
        pq.write_table(table(**column), file)
        refused(file, f"column {next(iter(column))} has type", "expected")


def test_files_that_are_no_parquet_are_refused_by_name(tmp_path: Path) -> None:
    whole = write_source(tmp_path / "whole" / "a.parquet", [PROBLEM] * 40).read_bytes()
    for name, content in (
        ("empty.parquet", b""),
        ("cut.parquet", whole[:-100]),
        ("packed.parquet.gz", gzip.compress(whole)),
    ):
        (tmp_path / name).write_bytes(content)
        refused(tmp_path / name, "not a readable Parquet file")
    (tmp_path / "spoilt.parquet").write_bytes(whole[:200] + bytes(900) + whole[1100:])
    refused(tmp_path / "spoilt.parquet", "row 0 or later")
    (tmp_path / "none").mkdir()
    refused(tmp_path / "none", "no *.parquet in that folder")
    refused("foo://bar/x.parquet", "cannot be read", "foo")


def test_a_file_system_whose_client_fails_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients raise errors of their own that are no OSError (httpx without a network)."""
    import fsspec

    def unreachable(url: str) -> None:
        raise RuntimeError("Name or service not known\nand more")

    monkeypatch.setattr(fsspec.core, "url_to_fs", unreachable)
    refused("hf://datasets/x/y/*.parquet", "--source", "cannot be read: Name or service not known")
    with pytest.raises(SourceError, match=r"--benchmark hf://datasets/x/b\.parquet: cannot be read: Name"):
        list(read_benchmark("hf://datasets/x/b.parquet"))


def test_benchmarks_that_cannot_be_used_are_one_line(tmp_path: Path) -> None:
    def refuse(name: str, content: bytes | pa.Table | None, says: str) -> None:
        file = tmp_path / name
        if isinstance(content, bytes):
            file.write_bytes(content)
        elif content is not None:
            pq.write_table(content, file)
        with pytest.raises(SourceError, match=f"--benchmark .*{name}.*{says}") as caught:
            list(read_benchmark(str(file)))
            fingerprint(str(file))
        assert "\n" not in str(caught.value)

    refuse("none.jsonl", None, "no such file")
    (tmp_path / "folder").mkdir()
    refuse("folder", None, "is a folder")
    refuse("binary.jsonl", b"\xff\xfe\x00", "line 1 is not JSON")
    refuse("list.jsonl", b"[1]\n", "line 1 is not a JSON object")
    refuse("number.jsonl", b'{"statement": 5}\n', "row 0: 'statement' is no text but int")
    refuse("other.jsonl", b'{"text": "x"}\n', "row 0 has none of statement")
    refuse("other.parquet", pa.table({"text": ["x"]}), "no column of statement")
    refuse("list.parquet", pa.table({"problem": [["x"]]}), "row 0: 'problem' is no text but list")
    refuse("broken.parquet", b"PAR1", "not a readable Parquet file")


@pytest.mark.parametrize("kind", [pa.binary(), pa.large_binary()])
def test_a_benchmark_statement_with_bad_bytes_is_read_around_them(tmp_path: Path, kind: pa.DataType) -> None:
    texts = {pa.binary(): pa.string(), pa.large_binary(): pa.large_string()}
    column = pa.array([b"good", b"\xff bad", None], kind).view(texts[kind])
    pq.write_table(pa.table({"question_content": column, "id": [7, 8, 9]}), tmp_path / "b.parquet")
    found = [(row.key, row.statement) for row in read_benchmark(str(tmp_path / "b.parquet"))]
    assert found == [("b.parquet#0 (7)", "good"), ("b.parquet#1 (8)", "� bad"), ("b.parquet#2 (9)", "")]


def test_two_benchmarks_of_one_file_name_are_both_matched(tmp_path: Path) -> None:
    statements = [" ".join(f"{word}{i}" for i in range(30)) for word in ("one", "two")]
    for folder, statement in zip("ab", statements, strict=True):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "b.jsonl").write_text(json.dumps({"statement": statement}) + "\n")
    config = DedupConfig()
    rows = [row for folder in "aba" for row in read_benchmark(str(tmp_path / folder / "b.jsonl"))]
    matcher = Matcher((signature(row.key, row.statement, config) for row in rows), config)
    for statement in statements:
        near = benchmark_match(signature("train/0", statement + " more", config), matcher)
        exact = benchmark_match(signature("train/0", statement, config), matcher)
        assert near is not None
        assert near.reason == Reason.BENCHMARK_NEAR
        assert exact is not None
        assert exact.reason == Reason.BENCHMARK_EXACT
