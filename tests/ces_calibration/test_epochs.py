"""Shifts planted into synthetic readings, the false-alarm rate on stationary noise, and the epoch file."""

import json
import threading

import numpy as np
import pytest

from dmc_optim.ces import connect
from dmc_optim.ces.health.epochs import (
    MAX_BASELINE,
    Observation,
    epoch_gauges,
    observe,
)
from dmc_optim.ces.health.sentinel import SuiteReading, suite, suite_digest, take_reading
from dmc_optim.ces.health.shifts import Rule, detect
from dmc_optim.ces.health.state import EpochFile, EpochState, current_epoch, default_state_path
from dmc_optim.errors import ArtifactError, InvalidInputError
from schemas.enums import Status
from tests.ces_calibration.artifact import PlantedService

SNIPPETS = {"a": 0.002, "b": 0.01, "c": 0.04, "d": 0.15, "e": 0.3, "f": 0.02, "g": 0.08}


def reading(rng, slope=1.0, offset=0.0, tail=0.0, cv=0.03, common=0.01, repetitions=7):
    """common: noise shared by all snippets of a reading, as a busy neighbour makes it."""
    shared = np.exp(rng.normal(0, common))
    timings = {}
    for name, base in SNIPPETS.items():
        values = (slope * base * shared + offset) * np.exp(rng.normal(0, cv, repetitions))
        timings[name] = list(np.where(rng.random(repetitions) < tail, 3 * values, values))
    return timings


def baseline(rng, n=8, **noise):
    return [reading(rng, **noise) for _ in range(n)]


@pytest.mark.parametrize(
    "noise", [{"cv": 0.02, "common": 0.0}, {"cv": 0.03, "common": 0.01}, {"cv": 0.1, "common": 0.03}]
)
@pytest.mark.parametrize("size", [5, 12])
def test_false_alarms_on_stationary_noise_stay_under_the_rule(noise, size):
    rng = np.random.default_rng([size, int(1000 * noise["cv"])])
    alarms = sum(
        bool(detect(base, reading(rng, **noise)).shifted)
        for base in (baseline(rng, size, **noise) for _ in range(10))
        for _ in range(15)
    )
    # 150 readings at 1%: more than 6 would be seen less than once in 1,000 such tests.
    assert alarms <= 6


@pytest.mark.parametrize(
    ("planted", "statistic"),
    [
        ({"slope": 1.2}, "slope"),
        ({"slope": 0.8}, "slope"),
        ({"offset": 0.004}, "offset_s"),
        ({"tail": 0.35}, "tail"),
    ],
)
def test_planted_shifts_are_found_and_named(planted, statistic):
    rng = np.random.default_rng(5)
    found = [detect(baseline(rng), reading(rng, **planted)).shifted for _ in range(40)]
    assert sum(statistic in names for names in found) >= 36


def test_slope_and_offset_are_measured():
    rng = np.random.default_rng(1)
    report = detect(baseline(rng, 20, cv=0.005, common=0), reading(rng, slope=1.3, offset=0.01, cv=0.005, common=0))
    assert report.slope.value == pytest.approx(1.3, rel=0.02)
    assert report.offset_s.value == pytest.approx(0.01, abs=0.001)


def test_changes_below_the_minima_open_nothing_however_certain():
    exact = {name: [base] * 5 for name, base in SNIPPETS.items()}
    slower = {name: [1.02 * base] * 5 for name, base in SNIPPETS.items()}
    assert detect([exact] * 10, slower).shifted == ()
    assert detect([exact] * 10, slower, Rule(min_slope=0.01)).shifted == ("slope",)


def test_short_baselines_judge_nothing():
    rng = np.random.default_rng(0)
    assert detect(baseline(rng, 4), reading(rng)) is None


def test_readings_must_be_of_one_suite_and_sound():
    rng = np.random.default_rng(0)
    good = reading(rng)
    with pytest.raises(InvalidInputError, match="different suites"):
        detect([good] * 5, {"a": [0.1], "b": [0.1]})
    with pytest.raises(InvalidInputError, match="sentinel b"):
        detect([good] * 5, good | {"b": [0.1, float("nan")]})
    with pytest.raises(InvalidInputError, match="at least 2 sentinels"):
        detect([], {"a": [0.1]})


def feed(state, readings, suite="s", identity="engine 1"):
    verdicts = []
    for number, timings in enumerate(readings):
        seen = observe(state, SuiteReading(timings, identity=identity), suite, f"2030-01-01T00:{number:02d}:00+00:00")
        state = seen.state
        verdicts.append(seen.verdict)
    return state, verdicts


def test_an_epoch_learns_then_judges_then_ends_when_a_shift_is_confirmed():
    rng = np.random.default_rng(3)
    state, verdicts = feed(EpochState(), baseline(rng, 7))
    assert verdicts == ["learning"] * 4 + ["steady"] * 3
    assert state.epoch == 0
    state, verdicts = feed(state, [reading(rng, slope=1.3)])
    assert (verdicts, state.epoch, len(state.baseline)) == (["suspect"], 0, 7)
    state, verdicts = feed(state, [reading(rng, slope=1.3)])
    assert (verdicts, state.epoch) == (["new_epoch"], 1)
    assert "slope" in state.history[-1].reason
    assert len(state.baseline) == 2  # the readings that confirmed it
    assert [change.epoch for change in state.history] == [0, 1]


def test_one_bad_reading_between_good_ones_is_forgotten():
    rng = np.random.default_rng(3)
    state, _ = feed(EpochState(), baseline(rng, 8))
    state, verdicts = feed(state, [reading(rng, slope=1.3), reading(rng), reading(rng, slope=1.3), reading(rng)])
    assert verdicts == ["suspect", "steady", "suspect", "steady"]
    assert (state.epoch, state.suspect) == (0, ())


def test_an_upgrade_opens_an_epoch_at_once():
    rng = np.random.default_rng(3)
    state, _ = feed(EpochState(), baseline(rng, 6))
    state, verdicts = feed(state, [reading(rng)], identity="engine 2")
    assert (verdicts, state.epoch, state.history[-1].reason) == (["new_epoch"], 1, "identity")
    state, verdicts = feed(state, [reading(rng)], suite="other", identity="engine 2")
    assert (state.epoch, state.history[-1].reason) == (2, "suite")
    assert state.history[-1].detail == "s → other"


def test_the_baseline_freezes_so_that_slow_drift_is_seen():
    rng = np.random.default_rng(3)
    state, _ = feed(EpochState(), baseline(rng, MAX_BASELINE + 10))
    assert len(state.baseline) == MAX_BASELINE
    drift = [reading(rng, slope=1 + 0.01 * i) for i in range(1, 41)]
    state, verdicts = feed(state, drift)
    assert "new_epoch" in verdicts


def test_incomplete_readings_change_nothing_but_the_time():
    seen = observe(EpochState(), SuiteReading({"a": [0.1, 0.1, 0.1], "b": [0.1]}), "s", "now")
    assert seen == Observation(EpochState(last_probe_at="now"), "incomplete")
    with pytest.raises(InvalidInputError):
        observe(EpochState(), SuiteReading({"a": [0.1] * 3}), "s", "now", confirmations=0)


def test_the_state_survives_its_file(tmp_path):
    rng = np.random.default_rng(3)
    file = EpochFile(tmp_path / "deep" / "state.json")
    assert file.read() == EpochState()
    for timings in baseline(rng, 6):
        seen = file.update(lambda s, t=timings: observe(s, SuiteReading(t, identity="i"), "s", "now"))
    assert file.read() == seen.state
    assert current_epoch(file.path) == 0
    assert sorted(p.name for p in file.path.parent.iterdir()) == ["state.json", "state.lock"]


def test_two_probes_at_once_lose_nothing(tmp_path):
    rng = np.random.default_rng(3)
    path, readings = tmp_path / "state.json", baseline(rng, 12)

    def probe(part):
        for timings in part:
            EpochFile(path).update(lambda s, t=timings: observe(s, SuiteReading(t), "s", "now"))

    threads = [threading.Thread(target=probe, args=(readings[i::3],)) for i in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(EpochFile(path).read().baseline) == 12


@pytest.mark.parametrize("text", ["{", "[]", '{"version": 9}', '{"version": 1, "history": [], "baseline": 3}', "{}"])
def test_a_broken_state_file_is_one_clear_line(tmp_path, text):
    path = tmp_path / "state.json"
    path.write_text(text)
    with pytest.raises(ArtifactError, match=r"state.json: not .*; move it away"):
        EpochFile(path).read()
    assert path.read_text() == text


def test_each_service_has_a_state_of_its_own():
    env = {"XDG_STATE_HOME": "/x"}
    assert str(default_state_path("embedded", env)) == "/x/dmc-optim/ces-embedded.json"
    assert str(default_state_path("http://host:8000/", env)) == "/x/dmc-optim/ces-http-host-8000.json"
    assert str(default_state_path("embedded", {"DMC_OPTIM_STATE": "/s"})) == "/s/ces-embedded.json"
    assert str(default_state_path("embedded", {"HOME": "/h"})) == "/h/.local/state/dmc-optim/ces-embedded.json"


def test_gauges_of_the_state():
    assert epoch_gauges(EpochState(epoch=4)) == {
        "epoch": 4.0,
        "sentinel_baseline_readings": 0.0,
        "sentinel_suspect_readings": 0.0,
    }
    rng = np.random.default_rng(3)
    state, _ = feed(EpochState(), baseline(rng, 8))
    assert epoch_gauges(state)["sentinel_slope"] == pytest.approx(1, abs=0.05)
    assert json.dumps(epoch_gauges(state))


def test_a_reading_interleaves_the_suite_and_keeps_failures_apart():
    names = [s.name for s in suite()]
    service = PlantedService(fail=lambda code, test, asked: Status.TIMEOUT if test == "sort-1" else None)
    taken = take_reading(service, suite(), repetitions=4)
    assert [test.rsplit("-", 1)[0] for _, test in service.asked] == names * 4
    assert taken.failed == {"sort": ["timeout"]}
    assert len(taken.timings["sort"]) == 3
    assert taken.complete
    assert taken.identity == "planted"
    lost = PlantedService(fail=lambda code, test, asked: Status.INFRASTRUCTURE if test.startswith("sort") else None)
    assert not take_reading(lost, suite(), repetitions=3).complete
    with pytest.raises(InvalidInputError):
        take_reading(service, suite(), repetitions=2)


def test_the_suite_is_fixed():
    # Another digest makes every stored baseline void and opens an epoch: change the suite only on purpose.
    assert suite_digest(suite()) == suite_digest(suite())
    names = [s.name for s in suite()]
    assert len(names) == len(set(names)) == 10


def test_the_embedded_engine_is_started_in_the_present_epoch(tmp_path, monkeypatch):
    from dmc_optim.ces.engine import embedded

    monkeypatch.setenv("DMC_OPTIM_STATE", str(tmp_path))
    monkeypatch.setattr(embedded, "Embedded", lambda slots, tier, **options: options)
    assert connect("embedded") == {"epoch": 0}
    file = EpochFile(default_state_path("embedded"))
    file.update(lambda state: Observation(EpochState(epoch=3), "new_epoch"))
    assert connect("embedded") == {"epoch": 3}
    assert connect("embedded", epoch=9) == {"epoch": 9}
