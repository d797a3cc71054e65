"""The Parquet sink: row groups within their bound, tables and rows alike, files that appear whole."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dmc_optim.artifacts import sink
from dmc_optim.artifacts.layout import Layout, read_parquet
from dmc_optim.artifacts.sink import ParquetSink, ShardSink
from dmc_optim.errors import ArtifactError

SCHEMA = pa.schema([("problem_id", pa.string()), ("text", pa.string())])


@pytest.mark.parametrize("letter", ["x", "я", "數"])
def test_row_groups_are_bounded_in_bytes_whatever_the_script(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, letter: str
) -> None:
    monkeypatch.setattr(sink, "ROW_GROUP_BYTES", 10_000)
    layout = Layout(str(tmp_path))
    out = ParquetSink(layout, layout.path("a.parquet"), SCHEMA)
    for i in range(100):
        out.write({"problem_id": f"p{i:03d}", "text": letter * 300})
    assert not (tmp_path / "a.parquet").exists()
    assert out.close()
    metadata = pq.read_metadata(tmp_path / "a.parquet")
    per_row = 4 + 300 * len(letter.encode())
    groups = [metadata.row_group(g).num_rows for g in range(metadata.num_row_groups)]
    assert all(rows * per_row <= 10_000 < (rows + 1) * per_row for rows in groups[:-1])
    assert sum(groups) == 100
    assert [p.name for p in tmp_path.iterdir()] == ["a.parquet"]


def test_arrow_rows_and_python_rows_make_the_same_file_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sink, "ROW_GROUP_BYTES", 4_000)
    layout = Layout(str(tmp_path))
    rows = [{"problem_id": f"p{i:03d}", "text": "x" * i} for i in range(120)]
    out = ParquetSink(layout, layout.path("a.parquet"), SCHEMA, {"stage": "s"})
    out.write(rows[0])
    out.write_table(pa.Table.from_pylist(rows[1:], schema=SCHEMA))
    assert out.close()
    assert pq.read_table(tmp_path / "a.parquet").to_pylist() == rows
    metadata = pq.read_metadata(tmp_path / "a.parquet")
    assert metadata.metadata[b"stage"] == b"s"
    assert max(metadata.row_group(g).total_byte_size for g in range(metadata.num_row_groups)) < 6_000
    assert metadata.row_group(0).column(0).has_offset_index


def test_a_filter_reads_the_problem_and_only_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sink, "ROW_GROUP_BYTES", 500)
    layout = Layout(str(tmp_path))
    path = layout.path("a.parquet")
    out = ParquetSink(layout, path, SCHEMA)
    rows = [{"problem_id": f"p{i // 7}", "text": f"{i}"} for i in range(100)]
    for row in rows:
        out.write(row)
    out.close()
    for wanted in ("p0", "p5", "p14", "p99", ""):
        own = [row for row in rows if row["problem_id"] == wanted]
        assert read_parquet(layout.fs, path, filters=[("problem_id", "=", wanted)]).to_pylist() == own
        texts = read_parquet(layout.fs, path, ["text"], [("problem_id", "=", wanted), ("text", "in", ["1", "36"])])
        assert texts.to_pylist() == [{"text": row["text"]} for row in own if row["text"] in ("1", "36")]
    (tmp_path / "a.parquet").write_bytes((tmp_path / "a.parquet").read_bytes()[:-9])
    with pytest.raises(ArtifactError, match=r"a\.parquet: not a readable Parquet file .*; remove it and build again"):
        read_parquet(layout.fs, path)


def test_a_shard_removes_what_an_unfinished_run_left_but_not_the_attrition(tmp_path: Path) -> None:
    layout = Layout(str(tmp_path))
    cluster = {"problem_id": "t/0", "cluster_id": "t/0"}
    ledger = {"stage": "dedup", "entity": "problem", "label": "", "reason": "total", "n_dropped": 0}
    first = ShardSink(layout, "dedup", 0, {})
    first.write("clusters", [cluster])
    first.write("attrition", [ledger | {"n_in": 1, "n_out": 1, "n_created": 0}])
    first.publish()
    ShardSink(layout, "dedup", 0, {}).close()
    assert layout.rows("clusters") == []
    assert layout.read("attrition").num_rows == 1, "it is written once for all shards, in any order"
