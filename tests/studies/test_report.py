"""Charts and report forms: geometry that can be checked, escaping, missing values, files."""

import json
import re
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dmc_optim.errors import ArtifactError, ConfigError, InvalidInputError
from dmc_optim.studies.charts import (
    Axis,
    Dots,
    Guide,
    Line,
    density_chart,
    histogram,
    line_chart,
    scatter_chart,
)
from dmc_optim.studies.report import Column, Figure, StudyReport, Table, without_nan


def report(rows, charts=()):
    columns = (Column("name", "Name"), Column("value", "Value", ".2f"))
    return StudyReport(
        title="T <b>",
        lead="L",
        settings={"seed": 1},
        facts=[("fact", "1")],
        tables=[Table("main", "Main", columns, rows), Table("long", "Long", columns, rows, True)],
        figures=[Figure("F", "C", charts)],
        main_table="main",
    )


@given(st.floats(-1e4, 1e4), st.floats(1e-3, 1e4))
def test_ticks_are_inside_and_even(low, width):
    axis = Axis("x", low, low + width)
    ticks = axis.ticks()
    assert 2 <= len(ticks) <= 12
    assert all(low - 1e-6 * width <= tick <= low + width * (1 + 1e-6) for tick in ticks)
    assert np.ptp(np.diff(ticks)) < 1e-6 * width


def test_logarithmic_axis():
    axis = Axis("x", log=True).fitted([0.01, 0.0, 10.0, np.nan])
    assert (axis.low, axis.high) == (0.01, 10.0)
    assert axis.ticks() == pytest.approx([0.01, 0.1, 1, 10])
    assert axis.share([0.01, 0.1, 10]) == pytest.approx([0, 1 / 3, 1])


def test_a_single_value_still_has_a_range():
    axis = Axis("x").fitted([3.0])
    assert axis.low < 3.0 < axis.high
    assert Axis("x").fitted([]).high == 1.0
    with pytest.raises(InvalidInputError):
        Axis("x").ticks()


def test_points_are_where_the_data_is():
    svg = scatter_chart("t", [Dots("d", [0.0, 100.0], [0.0, 100.0])], Axis("x", 0, 100), Axis("y", 0, 100))
    (x0, y0), (x1, y1) = [(float(x), float(y)) for x, y in re.findall(r'<circle cx="([\d.]+)" cy="([\d.]+)"', svg)]
    assert x0 < x1
    assert y0 > y1  # upwards is up


def test_missing_points_are_left_out():
    svg = scatter_chart("t", [Dots("d", [1.0, np.nan], [1.0, 2.0], rx=[0.1, 0.1], ry=[0.1, 0.1])], Axis("x"), Axis("y"))
    assert svg.count("<circle") == svg.count("<ellipse") == 1


def test_names_are_written_apart_and_escaped():
    dots = Dots("d", [1.0, 1.0], [1.0, 1.0], names=["a<b", "c"], written=True)
    svg = scatter_chart("t", [dots], Axis("x"), Axis("y"))
    places = [float(y) for y in re.findall(r'y="([\d.]+)" text-anchor="(?:start|end)" class="note">(?:a|c)', svg)]
    assert "a&lt;b" in svg
    assert len(set(places)) == 2


def test_histogram_bars_add_up():
    svg = histogram("t", [0.1, 0.1, 0.9, np.nan], Axis("x", 0, 1), bins=2, guides=[Guide("x", 0.5, "half")])
    shares = [float(share) for share in re.findall(r": ([\d.]+)%</title>", svg)]
    assert shares == pytest.approx([66.67, 33.33])


def test_density_counts_every_point():
    svg = density_chart("t", [1, 1, 9], [1, 1, 9], Axis("x", 0, 10), Axis("y", 0, 10), bins=10)
    assert sorted(re.findall(r"<title>(\d+)</title>", svg)) == ["1", "2"]


def test_lines_have_a_legend_when_there_are_two():
    lines = [Line("one", [0, 1], [0, 1]), Line("two", [0, 1], [1, 0], 1, dashed=True)]
    assert line_chart("t", lines, Axis("x"), Axis("y"), [Guide("y", 0.5, "chance")]).count(">two<") == 1
    assert ">one<" not in line_chart("t", lines[:1], Axis("x"), Axis("y"))


def test_json_has_null_for_nan_and_plain_numbers():
    rows = [{"name": "a", "value": float("nan"), "more": np.float64(2.0), "list": np.array([1.0, np.nan])}]
    assert json.loads(report(rows).as_json())["main"] == [
        {"name": "a", "value": None, "more": 2.0, "list": [1.0, None]}
    ]
    assert without_nan({"x": (np.int64(3), [np.nan])}) == {"x": [3, [None]]}


def test_text_shows_a_dash_for_nothing_measured():
    text = report([{"name": "a", "value": None}, {"name": "b", "value": 1.0}]).as_text()
    assert re.search(r"a\s+–", text)
    assert re.search(r"b\s+1\.00", text)
    assert "Long" not in text


def test_page_escapes_and_folds(tmp_path):
    page = tmp_path / "x" / "page.html"
    report([{"name": "<i>", "value": 1.0}], ["<svg></svg>"]).write(page)
    text = page.read_text(encoding="utf-8")
    assert "T &lt;b&gt;" in text
    assert "&lt;i&gt;" in text
    assert "<svg></svg>" in text
    assert text.count("<details>") == 2


def test_parquet_is_the_main_table(tmp_path):
    report([{"name": "a", "value": float("nan")}]).write(tmp_path / "t.parquet")
    table = pq.read_table(tmp_path / "t.parquet")
    assert table.to_pylist() == [{"name": "a", "value": None}]
    assert table.schema.metadata[b"settings"] == b'{"seed": 1}'


def test_unwritable_or_unknown_output(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ArtifactError):
        report([{"name": "a"}]).write(tmp_path / "file" / "page.html")
    with pytest.raises(ConfigError):
        report([{"name": "a"}]).write(Path("page.pdf"))
