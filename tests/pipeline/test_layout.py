"""Paths of an output directory: patterns that find what is there, whatever the directory is called."""

from pathlib import Path

import pytest

from dmc_optim.artifacts.layout import Layout

FILES = ("tables/tests/ingest-00000.parquet", "tables/tests/ingest-00001.parquet", "tables/tests/x.tmp", "work/a-1/p")


@pytest.mark.parametrize(
    ("kind", "name"), [("memory", "out"), *(("local", name) for name in ("out", "out[1]", "out *?", "**", "out{a,b}"))]
)
def test_patterns_match_names_below_the_directory(tmp_path: Path, kind: str, name: str) -> None:
    layout = Layout(str(tmp_path / name) if kind == "local" else f"memory://{tmp_path}/{name}")
    for other in ("out1", "outa", name):
        for file in FILES:
            Layout(layout.out.removesuffix(name) + other).write_bytes(f"{layout.root[: -len(name)]}{other}/{file}", b"")

    def found(pattern: str) -> list[str]:
        return [path.removeprefix(f"{layout.root}/") for path in layout.glob(pattern)]

    assert found("tables/tests/ingest-*.parquet") == list(FILES[:2])
    assert found("tables/*/*.tmp") == [FILES[2]]
    assert found("tables/tests/ingest-00001.parquet") == [FILES[1]]
    assert found("tables/*/ingest-00001.parquet") == [FILES[1]]
    assert found("work/a-*") == ["work/a-1"]
    assert found("work/a-1") == ["work/a-1"]
    assert found("work/*/p") == [FILES[3]]
    assert found("work/a-2") == found("nothing/*/x") == found("tables/tests/x.tmp/*") == []
