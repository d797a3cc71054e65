"""The four commands through their group, on a small artifact and a planted service."""

import json
import re

import pytest
from click.testing import CliRunner

from dmc_optim.ces.health.state import EpochFile
from dmc_optim.cli.ces import ces as ces_group
from dmc_optim.cli.main import main
from dmc_optim.cli.study import study
from schemas.enums import Status
from tests.ces_calibration.artifact import build_artifact, write_table


def invoke(group, *arguments):
    result = CliRunner().invoke(group, [str(a) for a in arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result


def failed(capsys, *arguments):
    """(exit status, the one line on stderr)."""
    with pytest.raises(SystemExit) as stop:
        main([str(a) for a in arguments])
    error = capsys.readouterr().err.strip()
    assert "Traceback" not in error
    return stop.value.code, error


def test_calibrate_prints_the_tables_stores_the_fits_and_draws(layout, planted, tmp_path):
    page = tmp_path / "calibration.html"
    result = invoke(ces_group, "calibrate", layout.out, "--runs", 6, "-q", "-o", page)
    for words in ("Table 31", "Table 32", "Variance decomposition", "Spearman", "affine", "quadratic", "power_law"):
        assert words in result.stdout
    assert "4 problems (asked for 33" in result.stderr
    assert "720 executions" in result.stderr
    assert planted.closed
    assert {row["family"] for row in layout.rows("calibrations")} == {
        "affine",
        "quadratic",
        "multiplicative",
        "power_law",
    }
    html = page.read_text()
    assert html.count("<svg") == 2 + 4
    assert not re.search(r"(src|href)\s*=\s*[\"']?https?:", html)


def test_calibrate_json_holds_the_planted_figures(layout, planted):
    result = invoke(ces_group, "calibrate", layout.out, "--runs", 8, "-q", "--json")
    data = json.loads(result.stdout)
    affine = next(row for row in data["families"] if row["family"] == "affine")
    assert affine["values"] == pytest.approx([0.63, 0.053], abs=0.02)
    assert affine["cv_r2"] > 0.98
    cv = next(row for row in data["short_run_noise"] if row["statistic"].startswith("Duration CV"))
    assert cv["mean"] == pytest.approx(5, abs=1)
    assert data["summary"]["agreement"]["n_problems"] == 4
    assert data["summary"]["chosen"]["family"] == "affine"


def test_a_dry_run_executes_and_writes_nothing(layout, planted):
    result = invoke(ces_group, "calibrate", layout.out, "--problems", 2, "--runs", 3, "--dry-run", "--json")
    facts = json.loads(result.stdout)
    assert (facts["problems"], facts["executions"]) == (2, 2 * 30 * 3)
    assert planted.executions == 0
    assert not layout.glob("calibration/*")


def test_an_interrupted_command_goes_on(layout, planted):
    stop = {"at": 50}

    def fail(code, test, asked):
        if planted.executions > stop["at"]:
            raise KeyboardInterrupt
        return None

    planted.fail = fail
    with pytest.raises(SystemExit) as interrupted:
        main(["ces", "calibrate", layout.out, "--runs", "2", "-q"])
    assert interrupted.value.code == 130
    stop["at"] = 10**9
    invoke(ces_group, "calibrate", layout.out, "--runs", 2, "-q")
    assert [p.rsplit("/", 2)[1] for p in layout.glob("calibration/*/done.json")] == ["campaign-001"]


def test_a_recorded_campaign_can_be_fitted_again(layout, planted):
    invoke(ces_group, "calibrate", layout.out, "--runs", 2, "-q")
    before, executed = layout.rows("calibrations"), planted.executions
    result = invoke(ces_group, "calibrate", layout.out, "--refit", "campaign-001", "--family", "quadratic", "--json")
    assert json.loads(result.stdout)["summary"]["chosen"]["family"] == "quadratic"
    assert layout.rows("calibrations") == before
    assert planted.executions == executed


def test_a_correction_that_ranks_worse_than_none_is_called_so(layout, planted):
    planted.slope, planted.offset_s, planted.cv = 1.0, 0.0, 0.0
    # One slow test that got much slower bends the unweighted fit, and the short tests pay for it.
    longest = {
        max((float(r["input"]), r["test_id"]) for r in layout.rows("tests") if r["problem_id"] == p)[1]
        for p in ("p0", "p1")
    }
    planted.extra = lambda test: 3.0 if test in longest else 1.0
    data = json.loads(invoke(ces_group, "calibrate", layout.out, "--runs", 2, "-q", "--json").stdout)
    assert "ranks worse than the stored durations as they are" in data["summary"]["warning"]
    arguments = ("--refit", "campaign-001", "--weighting", "relative", "--json")
    relative = json.loads(invoke(ces_group, "calibrate", layout.out, *arguments).stdout)
    assert relative["settings"]["weighting"] == "relative"
    assert {row["fit_id"].rsplit("/", 1)[1] for row in layout.rows("calibrations")} == {"relative"}


@pytest.mark.usefixtures("planted")
def test_users_mistakes_are_one_line_and_exit_2(layout, tmp_path, capsys):
    assert failed(capsys, "ces", "calibrate", tmp_path / "none") == (
        2,
        f"error: {tmp_path}/none: no manifest.json there; is it the --out of a `dmc-optim build`?",
    )
    code, line = failed(capsys, "ces", "calibrate", layout.out, "--refit", "campaign-009")
    assert (code, "no calibration campaign yet" in line) == (2, True)
    code, line = failed(capsys, "study", "calibration", layout.out)
    assert (code, "no calibration campaign yet" in line) == (2, True)
    code, line = failed(capsys, "study", "fallback", "--rate", "2")
    assert (code, "shares between 0 and 1" in line) == (2, True)
    code, line = failed(capsys, "study", "fallback", layout.out)
    assert (code, "no executions there" in line) == (2, True)
    code, line = failed(capsys, "ces", "calibrate", layout.out, "-o", "x.png")
    assert (code, ".html or .parquet" in line) == (2, True)


def test_a_service_that_gives_no_verdicts_is_exit_1(layout, planted, capsys):
    planted.fail = lambda code, test, asked: Status.INFRASTRUCTURE
    code, line = failed(capsys, "ces", "calibrate", layout.out, "-q")
    assert code == 1
    assert line.splitlines()[-1].startswith("error: campaign-001: all 30 executions of problem")


def test_durations_that_determine_nothing_are_said(tmp_path, planted, capsys):
    layout = build_artifact(tmp_path / "out", tests=1, solutions=2)
    rows = layout.rows("reference_durations")
    write_table(layout, "reference_durations", [row | {"duration_s": 0.25} for row in rows])
    code, line = failed(capsys, "ces", "calibrate", layout.out, "--runs", "1", "-q")
    assert (code, "too few distinct values" in line) == (2, True)
    result = invoke(ces_group, "calibrate", layout.out, "--refit", "campaign-001", "--family", "multiplicative")
    assert "is not determined" in result.stdout


def test_study_calibration_compares_campaigns_and_sweeps(layout, planted, tmp_path):
    invoke(ces_group, "calibrate", layout.out, "--runs", 4, "-q")
    planted.slope, planted.offset_s = 0.6243, 0.038
    invoke(ces_group, "calibrate", layout.out, "--runs", 4, "-q")
    page = tmp_path / "study.html"
    data = json.loads(invoke(study, "calibration", layout.out, "--json", "-o", page).stdout)
    assert [row["campaign"] for row in data["campaigns"]] == ["campaign-001", "campaign-002"]
    change = {row["parameter"]: row for row in data["stability"]}
    assert change["β (intercept, s)"]["delta"] == pytest.approx(-0.015, abs=0.005)
    assert change["β (intercept, s)"]["relative"] == pytest.approx(-0.28, abs=0.1)
    names = [row["name"] for row in data["sensitivity"]]
    assert names[16:] == [*(f"ab{i}" for i in range(1, 9)), *(f"s{i}" for i in range(10))]
    beta = [row["p50"] for row in data["sensitivity"] if row["axis"] == "beta"]
    assert len(beta) == 8
    assert beta[0] > beta[-1]  # shorter references: fewer candidates are fast enough
    assert {"shift", "size", "flips_p10"} <= data["injected_noise"][0].keys()
    assert page.read_text().count("<svg") == 2 + 4 + 1
    only = json.loads(invoke(study, "calibration", layout.out, "--campaign", "campaign-001", "--json").stdout)
    assert "stability" not in only


def test_study_fallback_prints_table_27_and_the_discard_rates(tmp_path):
    page = tmp_path / "fallback.html"
    text = invoke(study, "fallback", "-o", page).stdout
    for cell in ("18.29%", "95.17%", "52.85%", "1.49%", "80.1%", "33.0%"):
        assert cell in text
    assert "may end the trajectory" in page.read_text().lower()
    data = json.loads(invoke(study, "fallback", "--json", "--rate", 0.02, "--tests", 10, "--total", 80).stdout)
    assert data["exposure"] == [{"rate": 0.02, "n=10": pytest.approx(1 - 0.98**10), "paper": None}]
    assert data["discard"][0]["discarded"] == pytest.approx(1 - 0.98**80)
    kinds = {(row["service"], row["attempts"], row["local"]) for row in data["decisions"]}
    assert ("unknown", 3, "success") in kinds


def test_study_fallback_measures_a_build(layout):
    keys = ("problem_id", "solution_id", "test_id")
    rows = [
        {k: row[k] for k in keys}
        | {
            "campaign": "optimization",
            "status": "success",
            "duration_s": 0.1,
            "repetitions": 1,
            "node": "n",
            "epoch": 0,
        }
        | {"tier": "full", "interpreter": "i", "retries": 0}
        for row in layout.rows("reference_durations")
    ]
    rows[0] |= {"status": "infrastructure", "duration_s": None, "retries": 3}
    rows[1] |= {"retries": 1}
    write_table(layout, "executions", rows)
    summary = json.loads(invoke(study, "fallback", layout.out, "--json").stdout)["summary"]
    n = 4 * 6 * 6
    assert summary["executions"] == n
    assert summary["rate_before_retries"] == pytest.approx(2 / n)
    assert summary["rate_after_retries"] == pytest.approx(1 / n)
    assert (summary["correctness_tests"], summary["total_tests"]) == (1, 6)
    assert summary["discard_after_retries"] == pytest.approx(1 - (1 - 1 / n) ** 6)


def test_probe_learns_then_says_when_the_service_has_changed(planted, tmp_path):
    state, planted.cv = tmp_path / "state.json", 0.01
    text = invoke(ces_group, "probe", "--state", state, "--readings", 6).stdout
    assert "reading 4: learning" in text
    assert "reading 6: steady" in text
    assert "epoch 0 since" in text
    planted.offset_s += 0.03
    data = json.loads(invoke(ces_group, "probe", "--state", state, "--readings", 2, "--json").stdout)
    assert [r["verdict"] for r in data["readings"]] == ["suspect", "new_epoch"]
    assert (data["epoch"], data["gauges"]["epoch"]) == (1, 1.0)
    assert "offset_s" in data["history"][-1]["reason"]
    assert EpochFile(state).read().epoch == 1
    executed = planted.executions
    assert "epoch 1 since" in invoke(ces_group, "probe", "--state", state, "--show").stdout
    assert json.loads(invoke(ces_group, "probe", "--state", state, "--show", "--json").stdout)["epoch"] == 1
    assert planted.executions == executed


def test_probe_says_when_sentinels_fail(planted, tmp_path):
    planted.fail = lambda code, test, asked: Status.INFRASTRUCTURE if test.startswith("memory") else None
    text = invoke(ces_group, "probe", "--state", tmp_path / "s.json", "--repetitions", 3).stdout
    assert "too few sentinels succeeded" in text
    assert "memory_64m ['infrastructure', 'infrastructure', 'infrastructure']" in text


def test_a_broken_state_file_is_said_before_anything_runs(planted, tmp_path, capsys):
    path = tmp_path / "s.json"
    path.write_text("{")
    code, line = failed(capsys, "ces", "probe", "--state", path)
    assert (code, "move it away" in line) == (2, True)
    assert planted.executions == 0


@pytest.mark.parametrize(("group", "name"), [(ces_group, "calibrate"), (ces_group, "probe"), (study, "fallback")])
def test_help_has_an_example(group, name):
    assert "Example" in invoke(group, name, "--help").stdout
