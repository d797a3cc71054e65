"""`dmc-optim simulate` on a small build: figures, files, the page, comparison with online runs, errors."""

import base64
import csv
import json
import re

import numpy as np
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from scipy.stats import spearmanr

from dmc_optim.cli.simulate import simulate
from dmc_optim.environments import configurations
from dmc_optim.errors import ArtifactError, DmcOptimError, SourceError
from dmc_optim.simulator import diagnostics
from dmc_optim.simulator.curves import NAMES
from dmc_optim.simulator.families import dissect
from tests.simulator.synthetic_build import SyntheticBuild

FAST = ("--quiet", "--steps", "11", "--draws", "30", "--window", "3", "--workers", "1")


@pytest.fixture(scope="module")
def build(tmp_path_factory):
    return SyntheticBuild(problems=4).write(tmp_path_factory.mktemp("build"))


def run(*arguments):
    return CliRunner().invoke(simulate, [str(a) for a in arguments])


def test_whole_grid(build, tmp_path):
    result = run(build, *FAST, "--json", "--out", tmp_path / "deep" / "sim")
    assert result.exit_code == 0, result.output
    figures = json.loads(result.stdout)
    assert [row["environment"] for row in figures["configurations"]] == [str(e) for e in configurations()]
    assert figures["pool"]["problems"] == 3
    assert set(figures["curves"]) == {
        "abs_filter(a=2,limit=0.5,rho=0.1)",
        "ranked_timeout(p=80,agg=max,rho=0.1)",
        "qar(p=0.5)",
        "qar(p=0.3)",
    }
    table = pq.read_table(figures["files"]["parquet"])
    assert table.num_rows == 1582
    assert json.loads(table.schema.metadata[b"settings"])["steps"] == 11
    for row in table.to_pylist()[::211]:
        again = diagnostics(row["curve"], window=3).as_dict()
        assert {name: row[name] for name in NAMES} == pytest.approx(again, abs=1e-12)
        family, parameters = dissect(row["environment"])
        assert row["family"] == family
        assert {k: v for k, v in row.items() if k in parameters} == parameters


def test_page_is_self_contained_and_carries_the_curves(build, tmp_path):
    result = run(build, *FAST, "--environment", "qar", "--environment", "mc_mo", "--out", tmp_path)
    assert result.exit_code == 0, result.output
    text = (tmp_path / "simulation.html").read_text(encoding="utf-8")
    assert not re.search(r"(?:src|href)\s*=", text)
    assert not [url for url in re.findall(r"https?://[^\s\"'<]+", text) if url != "http://www.w3.org/2000/svg"]
    data = json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.S)[1])
    curves = np.frombuffer(base64.b64decode(data["curves"]), "<u2").reshape(10, 11) / 65535
    rows = pq.read_table(tmp_path / "simulation.parquet").to_pylist()
    assert data["names"] == [row["environment"] for row in rows]
    assert curves == pytest.approx(np.array([row["curve"] for row in rows]), abs=1e-5)
    assert data["families"][0]["label"] == "Per-test percentile (QAR)"
    assert data["against"] is None


def test_default_output_is_inside_the_build(build):
    result = run(build, *FAST, "--environment", "qp(p=0.3)")
    assert result.exit_code == 0, result.output
    assert (build / "simulation" / "simulation.html").is_file()
    assert "qp(p=0.3)" in result.stdout


def test_same_seed_same_table(build, tmp_path):
    tables = []
    for place in ("a", "b"):
        assert run(build, *FAST, "--environment", "qar", "--out", tmp_path / place).exit_code == 0
        tables.append(pq.read_table(tmp_path / place / "simulation.parquet"))
    assert tables[0].equals(tables[1])


def test_rewards_multiply_the_configurations(build, tmp_path):
    rewards = ("--reward", "two_gate/linear", "--reward", "collapsed/binary")
    result = run(build, *FAST, *rewards, "--environment", "qar", "--json", "--out", tmp_path)
    assert result.exit_code == 0, result.output
    found = [(row["environment"], row["reward"]) for row in json.loads(result.stdout)["configurations"]]
    assert len(found) == len(set(found)) == 18


def write_runs(path, rows, header=("environment", "p50", "p30")):
    with path.open("w", newline="") as handle:
        csv.writer(handle).writerows([header, *rows])
    return path


RUNS = [
    ("qar(p=0.3)", 31.0, 19.1),
    ("qar(p=0.9)", 30.2, ""),
    ("RW p80", 29.9, 17.4),
    ("abs_timeout(limit=0.33,rho=0.1)", 20.5, 8.2),
    ("mc", 18.0, 8.0),
]


def test_against_equals_scipy_on_the_table(build, tmp_path):
    runs = write_runs(tmp_path / "runs.csv", RUNS)
    result = run(build, *FAST, "--against", runs, "--json", "--out", tmp_path)
    assert result.exit_code == 0, result.output
    figures = json.loads(result.stdout)
    rows = {row["environment"]: row for row in figures["configurations"]}
    assert "abs_timeout(limit=0.33,rho=0.1)" in rows  # not in the grid, simulated all the same
    names = [RUNS[0][0], RUNS[1][0], "ranked_timeout(p=80,agg=max,rho=0.1)", RUNS[3][0], RUNS[4][0]]
    assert len(figures["against"]) == len(NAMES) * 2
    for entry in figures["against"]:
        column = 1 if entry["column"] == "p50" else 2
        pairs = [
            (rows[name][entry["diagnostic"]], row[column])
            for name, row in zip(names, RUNS, strict=True)
            if rows[name][entry["diagnostic"]] is not None and row[column] != ""
        ]
        assert entry["n"] == len(pairs)
        if len({x for x, _ in pairs}) > 1 and len(pairs) >= 3:
            expected = spearmanr(*zip(*pairs, strict=True))
            assert entry["r_s"] == pytest.approx(expected.statistic, abs=1e-12)
            assert entry["p_value"] == pytest.approx(expected.pvalue, abs=1e-12)
        else:
            assert entry["r_s"] is None
    assert "Agreement with online runs" in (tmp_path / "simulation.html").read_text(encoding="utf-8")


def test_against_prints_the_table(build, tmp_path):
    runs = write_runs(tmp_path / "runs.csv", RUNS)
    result = run(build, *FAST, "--environment", "qar", "--against", runs, "--out", tmp_path)
    assert result.exit_code == 0, result.output
    assert "Spearman correlation with 5 online runs" in result.stdout
    assert "Deviation from y = x" in result.stdout


@pytest.mark.parametrize(
    ("rows", "header", "says"),
    [
        ([("qar(p=0.3)", 1, 2)] * 2, ("environment", "p50", "p30"), "2 runs"),
        (RUNS, ("name", "p50", "p30"), "no column `environment`"),
        ([(row[0],) for row in RUNS], ("environment",), "no result column"),
        ([*RUNS, ("nothing(p=1)", 1, 2)], ("environment", "p50", "p30"), "line 7: unknown environment family"),
        ([*RUNS, ("mc", "high", 2)], ("environment", "p50", "p30"), "line 7, column p50: 'high' is not a number"),
        ([*RUNS, ("mc", "nan", 2)], ("environment", "p50", "p30"), "not a finite number"),
        ([*RUNS, ("mc", 1)], ("environment", "p50", "p30"), "line 7: another number of cells"),
    ],
)
def test_bad_runs_are_refused_with_file_and_line(build, tmp_path, rows, header, says):
    runs = write_runs(tmp_path / "runs.csv", rows, header)
    result = run(build, *FAST, "--against", runs, "--out", tmp_path)
    assert isinstance(result.exception, SourceError)
    assert str(result.exception).startswith(str(runs))
    assert says in str(result.exception)


def test_no_such_runs_file(build, tmp_path):
    result = run(build, *FAST, "--against", tmp_path / "none.csv")
    assert isinstance(result.exception, SourceError)
    assert "No such file" in str(result.exception)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--environment", "abs_timeout(limit=0.5)"), "lacks rho"),
        (("--reward", "splendid/linear"), "unknown reward family"),
        (("--show", "qar(p=2)"), "between 0 and 1"),
        (("--steps", "1"), "2 steps"),
        (("--width", "0"), "width"),
        (("--window", "0"), "window"),
        (("--calibration", "fast"), "no calibration"),
        (("--max-missing", "1"), "share below 1"),
        (("--pool", "all", "--split", "test", "--limit-problems", "1"), None),
    ],
)
def test_options_are_checked(build, tmp_path, arguments, says):
    result = run(build, "--quiet", *arguments, "--out", tmp_path)
    if says is None:
        assert result.exit_code == 0, result.output
    else:
        assert isinstance(result.exception, DmcOptimError)
        assert says in str(result.exception)
        assert "\n" not in str(result.exception)


def test_draws_are_a_number_or_all(build, tmp_path):
    assert run(build, *FAST, "--draws", "all", "--environment", "qar", "--out", tmp_path).exit_code == 0
    result = run(build, *FAST, "--draws", "many")
    assert result.exit_code == 2
    assert "neither a positive number nor `all`" in result.output


def test_no_build_there(tmp_path):
    result = run(tmp_path / "nowhere", *FAST)
    assert isinstance(result.exception, ArtifactError)
    assert result.exception.exit_code == 2
    assert not (tmp_path / "nowhere").exists()


def test_unwritable_output(build, tmp_path):
    (tmp_path / "file").write_text("")
    result = run(build, *FAST, "--environment", "qar", "--out", tmp_path / "file" / "sub")
    assert isinstance(result.exception, ArtifactError)
    assert "choose another --out" in str(result.exception)


def test_progress_is_plain_lines_without_a_terminal(build, tmp_path):
    arguments = [a for a in FAST if a != "--quiet"]
    result = run(build, *arguments, "--environment", "qar", "--out", tmp_path)
    assert result.exit_code == 0, result.output
    assert "9 configurations on 3 problems" in result.stderr
    assert "\x1b" not in result.output


def test_progress_bar_draws_and_closes(monkeypatch):
    from dmc_optim.simulator.progress import Bar, sweep_progress

    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    bar = sweep_progress(quiet=False)
    assert isinstance(bar, Bar)
    bar.start("simulate", 2)
    bar.add(1)
    bar.step("p", 0.0)
    bar.finish("done")


def test_help_has_an_example():
    result = run("--help")
    assert "dmc-optim simulate out/" in result.output


def test_dissect():
    assert dissect("abs_filter(a=2,limit=0.5,rho=0.1)") == ("abs_filter", {"a": 2, "limit": 0.5, "rho": 0.1})
    assert dissect("rlvr") == ("rlvr", {})
    for environment in configurations():
        family, parameters = dissect(str(environment))
        inside = ",".join(f"{k}={v}" for k, v in parameters.items())
        assert str(environment) == (f"{family}({inside})" if inside else family)
