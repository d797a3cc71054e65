"""Plans, resumed runs, the join of stored with fresh, and what is left out of a fit."""

import fcntl
import json
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from dmc_optim.artifacts.layout import Layout
from dmc_optim.audit.files import file_violations
from dmc_optim.ces.calibration import plan as plans
from dmc_optim.ces.calibration.analysis import analyse, calibration_rows, write_calibrations
from dmc_optim.ces.calibration.apply import read_calibrations
from dmc_optim.ces.calibration.campaign import campaigns, find_campaign, open_campaign, run_campaign
from dmc_optim.ces.calibration.load import load_campaign
from dmc_optim.ces.calibration.plan import CampaignSettings, Plan, make_plan
from dmc_optim.errors import ArtifactError, RunError
from dmc_optim.progress import Silent
from schemas import TABLES
from schemas.enums import CalibrationFamily as F
from schemas.enums import Status
from tests.ces_calibration.artifact import PlantedService, build_artifact, edit_table


@pytest.fixture
def small_units(monkeypatch):
    """Units of 6 executions on groups of 2 tests, so that a small campaign has many."""
    monkeypatch.setattr(plans, "UNIT_EXECUTIONS", 6)
    monkeypatch.setattr(plans, "GROUP_TESTS", 2)


def run(layout, service, settings=None, **options):
    campaign = open_campaign(layout, make_plan(layout, settings or CampaignSettings(runs=3)), **options)
    run_campaign(campaign, service, Silent())
    return campaign


class Killed(BaseException):
    """Stands for SIGKILL: nothing of ours catches it."""


def killed_after(n):
    """A service that dies in the middle of its n-th execution."""
    count = 0

    def fail(code, test, asked):
        nonlocal count
        count += 1
        if count > n:
            raise Killed
        return None

    return PlantedService(fail=fail)


def test_a_plan_holds_references_and_optimization_tests_only(layout):
    plan = make_plan(layout, CampaignSettings(problems=3, runs=4))
    assert len(plan.problems) == 3
    assert all(len(p.test_ids) == 5 and len(p.solution_ids) == 6 for p in plan.problems)
    assert plan.executions == 3 * 5 * 6 * 4
    stored = [r["duration_s"] for r in layout.rows("reference_durations") if r["problem_id"] == "p0"]
    p0 = next(p for p in make_plan(layout, CampaignSettings()).problems if p.problem_id == "p0")
    correctness = {r["test_id"] for r in layout.rows("tests") if r["category"] == "correctness"}
    assert not correctness & set(p0.test_ids)
    assert p0.stored_s < sum(stored)


def test_sampling_is_seeded(layout):
    drawn = [tuple(p.problem_id for p in make_plan(layout, CampaignSettings(2, seed=s)).problems) for s in range(8)]
    again = [tuple(p.problem_id for p in make_plan(layout, CampaignSettings(2, seed=s)).problems) for s in range(8)]
    assert drawn == again
    assert len(set(drawn)) > 1


def test_subsamples_are_bounded_and_seeded(layout):
    plan = make_plan(layout, CampaignSettings(max_solutions=3, max_tests=2))
    assert all((len(p.solution_ids), len(p.test_ids)) == (3, 2) for p in plan.problems)
    assert plan.digest == make_plan(layout, CampaignSettings(max_solutions=3, max_tests=2)).digest
    assert plan.digest != make_plan(layout, CampaignSettings(max_solutions=3, max_tests=2, seed=1)).digest


def test_only_the_rl_pool_is_sampled_unless_told_otherwise(tmp_path):
    layout = build_artifact(tmp_path / "out", problems=5, rl=2)
    assert [p.problem_id for p in make_plan(layout, CampaignSettings()).problems] == ["p0", "p1"]
    assert len(make_plan(layout, CampaignSettings(pool="all")).problems) == 5


def test_too_few_problems_is_said_with_what_to_do(tmp_path):
    layout = build_artifact(tmp_path / "out", problems=5, rl=1)
    with pytest.raises(ArtifactError, match=r"1 of 1 problems of pool 'rl'.*--pool all"):
        make_plan(layout, CampaignSettings())
    with pytest.raises(ArtifactError, match=r"no manifest\.json"):
        make_plan(Layout(str(tmp_path)), CampaignSettings())
    empty = Layout(str(tmp_path / "empty"))
    empty.write_json(empty.path("manifest.json"), {"schema_version": "1.0.0", "config": {}})
    with pytest.raises(ArtifactError, match="no reference durations"):
        make_plan(empty, CampaignSettings())


def test_plans_survive_their_file(layout):
    plan = make_plan(layout, CampaignSettings(runs=2))
    assert Plan.from_json(plan.to_json(), "x") == plan
    with pytest.raises(ArtifactError, match="not a calibration plan"):
        Plan.from_json({"settings": {}}, "x")


@pytest.mark.usefixtures("small_units")
def test_units_cover_every_pair_of_every_run_once_and_runs_do_not_overlap(layout):
    plan = make_plan(layout, CampaignSettings(runs=3))
    units = list(plan.units())
    pairs = [(u.run, u.problem.problem_id, t, s) for u in units for t in u.test_ids for s in u.solution_ids]
    assert len(pairs) == len(set(pairs)) == plan.executions
    assert len({u.name for u in units}) == len(units) > 3 * 4 * 3
    assert [u.run for u in units] == sorted(u.run for u in units)
    orders = [tuple(dict.fromkeys(u.problem.problem_id for u in units if u.run == r)) for r in range(3)]
    assert len(set(orders)) > 1
    assert all(len(u.test_ids) * len(u.solution_ids) <= 6 for u in units)


def test_large_tests_are_grouped_by_size(layout, monkeypatch):
    monkeypatch.setattr(plans, "GROUP_CHARS", 20)
    groups = make_plan(layout, CampaignSettings()).problems[0].test_groups
    assert [len(g) for g in groups] == [2, 2, 1]


@pytest.mark.usefixtures("small_units")
@pytest.mark.parametrize("deaths", [[5], [1, 17, 40], [100]])
def test_a_killed_campaign_goes_on_and_executes_nothing_finished_again(layout, deaths):
    settings = CampaignSettings(runs=2)
    total = make_plan(layout, settings).executions
    done = 0
    for death in deaths:
        with pytest.raises(Killed):
            run(layout, killed_after(death), settings)
        kept = sum(layout.fs.exists(p) for p in layout.glob("calibration/campaign-001/runs/*.parquet")) * 6
        assert kept >= done
        done = kept
    service = PlantedService()
    campaign = run(layout, service, settings)
    assert campaign.name == "campaign-001"
    assert campaign.complete
    assert service.executions == total - done
    (loaded,) = load_campaign(campaign)
    assert loaded.raw == total
    assert all(np.isfinite(p.fresh).all() for p in loaded.problems)


def test_a_finished_campaign_is_repeated_as_a_new_one(layout):
    assert run(layout, PlantedService()).name == "campaign-001"
    assert run(layout, PlantedService()).name == "campaign-002"
    assert [c.name for c in campaigns(layout)] == ["campaign-001", "campaign-002"]
    assert find_campaign(layout, None).name == "campaign-002"
    with pytest.raises(ArtifactError, match="no campaign 'x'; there are campaign-001, campaign-002"):
        find_campaign(layout, "x")


def test_other_settings_do_not_touch_an_unfinished_campaign(layout):
    with pytest.raises(Killed):
        run(layout, killed_after(0))
    assert run(layout, PlantedService(), CampaignSettings(runs=1)).name == "campaign-002"
    assert run(layout, PlantedService(), fresh=True).name == "campaign-003"
    assert run(layout, PlantedService()).name == "campaign-001"


def test_half_written_files_do_not_count(layout):
    with pytest.raises(Killed):
        run(layout, killed_after(0))
    torn = layout.path("calibration", "campaign-001", "runs", "p0000-r000-u00000.parquet.abc.tmp")
    layout.write_bytes(torn, b"PAR1 torn")
    campaign = run(layout, PlantedService())
    assert not layout.fs.exists(torn)
    assert load_campaign(campaign)[0].raw == campaign.plan.executions


def test_two_processes_cannot_run_one_campaign(layout):
    campaign = open_campaign(layout, make_plan(layout, CampaignSettings(runs=1)))
    with Path(campaign.path("lock")).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(RunError, match="another process is running it"):
            run_campaign(campaign, PlantedService(), Silent())


def test_a_dead_service_ends_the_campaign_and_records_nothing(layout):
    service = PlantedService(fail=lambda code, test, asked: Status.INFRASTRUCTURE)
    with pytest.raises(RunError, match="ended without a verdict; repair the execution service"):
        run(layout, service)
    assert campaigns(layout)[0].finished_units() == set()


def test_lost_results_are_asked_again_on_the_service(layout):
    service = PlantedService(fail=lambda code, test, asked: Status.INFRASTRUCTURE if asked < 2 else None)
    campaign = run(layout, service, CampaignSettings(runs=1))
    assert service.executions == 3 * campaign.plan.executions
    table = campaign.results(0)
    assert set(table["retries"].to_pylist()) == {2}
    assert set(table["status"].to_pylist()) == {"success"}


def test_a_test_that_left_the_build_is_named(layout):
    plan = make_plan(layout, CampaignSettings(runs=1))
    gone = plan.problems[0].test_ids[0]
    edit_table(layout, "tests", lambda row: None if row["test_id"] == gone else row)
    with pytest.raises(ArtifactError, match=f"tests no longer holds {gone} .*--new"):
        run_campaign(open_campaign(layout, plan), PlantedService(), Silent())


def test_stored_and_fresh_are_joined_by_triple(layout):
    campaign = run(layout, PlantedService(slope=0.63, offset_s=0.053, cv=0.1), CampaignSettings(runs=4))
    (loaded,) = load_campaign(campaign)
    stored = {
        (r["problem_id"], r["test_id"], r["solution_id"]): r["duration_s"] for r in layout.rows("reference_durations")
    }
    for problem, plan in zip(loaded.problems, campaign.plan.problems, strict=True):
        index = campaign.plan.problems.index(plan)
        for row in campaign.results(index).to_pylist():
            t, s = problem.test_ids.index(row["test_id"]), problem.solution_ids.index(row["solution_id"])
            assert problem.fresh[row["run"], t, s] == row["duration_s"]
            assert problem.stored[t, s] == stored[problem.problem_id, row["test_id"], row["solution_id"]]
    assert (loaded.from_epoch, loaded.to_epoch, loaded.problem_runs, loaded.dropped_runs) == (0, 0, 16, 0)


def test_timed_out_and_failed_runs_give_no_timing(layout):
    plan = make_plan(layout, CampaignSettings(runs=2))
    slow, odd = plan.problems[0].test_ids[0], plan.problems[0].test_ids[1]
    bad = {slow: Status.TIMEOUT, odd: Status.WRONG_ANSWER}
    service = PlantedService(fail=lambda code, test, asked: bad.get(test) if asked == 0 else None)
    (loaded,) = load_campaign(run(layout, service, CampaignSettings(runs=2)))
    problem = loaded.problems[0]
    assert not problem.usable[0].any()  # one time-out: the mean of the others would be too small
    assert problem.usable[1].all()
    assert problem.count[1].tolist() == [1] * 6
    assert loaded.failed == 6
    assert analyse(loaded).censored_pairs == 6


def test_runs_with_too_many_lost_results_are_dropped(layout):
    plan = make_plan(layout, CampaignSettings(runs=3))
    lost = plan.problems[1].test_ids[0]
    service = PlantedService(
        fail=lambda code, test, asked: Status.INFRASTRUCTURE if test == lost and asked < 3 else None
    )
    campaign = run(layout, service)
    (loaded,) = load_campaign(campaign)
    assert (loaded.inconclusive, loaded.dropped_runs, loaded.problem_runs) == (6, 1, 11)
    assert [len(p.fresh) for p in loaded.problems] == [3, 2, 3, 3]
    (loaded,) = load_campaign(campaign, max_inconclusive=0.5)
    assert loaded.dropped_runs == 0


def test_stored_durations_of_two_epochs_are_fitted_apart(layout):
    edit_table(layout, "reference_durations", lambda row: row | {"epoch": int(row["problem_id"] in ("p1", "p3"))})
    loaded = load_campaign(run(layout, PlantedService(slope=0.5, epoch=7)))
    assert [(item.from_epoch, item.to_epoch, [p.problem_id for p in item.problems]) for item in loaded] == [
        (0, 7, ["p0", "p2"]),
        (1, 7, ["p1", "p3"]),
    ]


def test_fresh_rows_of_another_epoch_are_left_out_and_counted(layout):
    service = PlantedService()
    campaign = open_campaign(layout, make_plan(layout, CampaignSettings(runs=3)))
    units = list(campaign.plan.units())

    class Changing(Silent):
        def step(self, unit, seconds, executions=0):
            service.epoch = int(len(campaign.finished_units()) >= len(units) - 1)

    run_campaign(campaign, service, Changing())
    (loaded,) = load_campaign(campaign)
    assert (loaded.to_epoch, loaded.other_epoch) == (0, 30)
    assert loaded.dropped_runs == 0


def test_unusable_stored_rows_stay_out(layout):
    first = layout.rows("reference_durations")[0]
    key = ("problem_id", "test_id", "solution_id")

    def spoil(row):
        if all(row[k] == first[k] for k in key):
            return row | {"status": "timeout", "duration_s": 10.0}
        return row

    optimization = {r["test_id"] for r in layout.rows("tests") if r["category"] == "optimization"}
    first = next(r for r in layout.rows("reference_durations") if r["test_id"] in optimization)
    edit_table(layout, "reference_durations", spoil)
    (loaded,) = load_campaign(run(layout, PlantedService()))
    assert sum(int((~p.usable).sum()) for p in loaded.problems) == 1
    assert analyse(loaded).n_pairs == 4 * 30 - 1


def test_the_planted_map_is_found_and_stored(layout):
    campaign = run(layout, PlantedService(slope=0.6306, offset_s=0.0529, cv=0.03), CampaignSettings(runs=20))
    analysis = analyse(load_campaign(campaign)[0])
    alpha, beta = analysis.fit.coefficients
    assert alpha == pytest.approx(0.6306, rel=0.01)
    assert beta == pytest.approx(0.0529, abs=0.002)
    assert analysis.fit.cv_r2 > 0.995 > analysis.fits[F.MULTIPLICATIVE].cv_r2
    assert analysis.noise.cv.mean == pytest.approx(0.03, rel=0.1)
    write_calibrations(layout, [analysis])
    stored = read_calibrations(layout, F.AFFINE)
    assert [fit.coefficients for fit in stored] == [analysis.fit.coefficients]
    assert (stored[0].from_epoch, stored[0].to_epoch) == (0, 0)
    assert layout.read("calibrations").schema.names == TABLES["calibrations"].schema.names


def test_a_second_fit_of_a_campaign_replaces_the_first_and_campaigns_add_up(layout):
    for _ in range(2):
        loaded = load_campaign(run(layout, PlantedService(cv=0.02)))
        for _ in range(2):
            write_calibrations(layout, [analyse(item) for item in loaded])
    rows = layout.rows("calibrations")
    assert len(rows) == 8
    assert len({row["fit_id"] for row in rows}) == 8
    assert read_calibrations(layout, F.AFFINE)[-1].fit_id.startswith("campaign-002/")


def test_the_fits_are_no_stray_files_of_the_build(layout):
    write_calibrations(layout, [analyse(load_campaign(run(layout, PlantedService(cv=0.02)))[0])])
    stray = {v["file"] for name, _, found in file_violations(layout) for v in found if name == "files: none stray"}
    assert not any("calibrations" in name for name in stray)


def test_rows_say_everything_the_table_asks(layout):
    analysis = analyse(load_campaign(run(layout, PlantedService(cv=0.02)))[0])
    rows = calibration_rows([analysis])
    assert [row["family"] for row in rows] == [f.value for f in F]
    assert all(row["n_pairs"] == 120 and len(row["coefficients"]) >= 1 for row in rows)


def test_a_campaign_without_results_says_so(layout):
    campaign = open_campaign(layout, make_plan(layout, CampaignSettings()))
    with pytest.raises(ArtifactError, match="has no results yet"):
        load_campaign(campaign)
    with pytest.raises(ArtifactError, match="no calibration campaign yet"):
        find_campaign(Layout(str(layout.root) + "-other"), None)


@pytest.mark.slow
def test_sigkill_loses_at_most_the_running_unit(tmp_path):
    layout = build_artifact(tmp_path / "out", problems=4, tests=12, solutions=12)
    command = [
        sys.executable,
        "-m",
        "dmc_optim.cli.main",
        "ces",
        "calibrate",
        layout.out,
        "--ces",
        "fake",
        "--runs",
        "40",
    ]
    units, kept = "calibration/campaign-001/runs/*.parquet", 0
    for _ in range(3):
        process = subprocess.Popen([*command, "-q", "--json"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + 120
        while len(layout.glob(units)) < kept + 10 and time.monotonic() < deadline:
            time.sleep(0.01)
        process.kill()
        process.wait()
        finished = layout.glob(units)
        assert kept + 10 <= len(finished) < 160
        kept = len(finished)
    written = {path: layout.fs.modified(path) for path in layout.glob(units)}
    done = subprocess.run([*command, "-q", "--json"], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["campaigns"][0]["raw_pairs"] == 4 * 12 * 12 * 40
    assert len(layout.glob(units)) == 160
    assert written == {path: layout.fs.modified(path) for path in written}
