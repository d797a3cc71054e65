"""The timing-noise study against the specification's vector, naive loops and exact small cases."""

import json
import math

import numpy as np
import pytest
from click.testing import CliRunner

from dmc_optim.cli.study import study
from dmc_optim.errors import ConfigError, InvalidInputError
from dmc_optim.studies.noise import (
    DMC_OPTIM_LIKE,
    LCB_LIKE,
    NoiseKind,
    NoiseStudyConfig,
    Trials,
    draw_trials,
    observe,
    oracle_thresholds,
    run_noise_study,
    timeout_scores,
    win_rate_scores,
)

SMALL = NoiseStudyConfig(
    trials=300, thresholds=(1.0, 3.0), test_counts=(5,), additive_sweep_s=(0.0, 0.1), multiplicative_sweep=(0.1,)
)


def naive_scores(trials, threshold=None):
    """Appendix A's definitions, one trial and one test at a time."""
    timeouts, wins = [], []
    for true_a, true_b, a, b in zip(trials.true_a, trials.true_b, trials.observed_a, trials.observed_b, strict=True):
        tau = (max(true_a) + max(true_b)) / 2 if threshold is None else threshold
        a_passes, b_passes = all(d <= tau for d in a), all(d <= tau for d in b)
        timeouts.append(0.5 if a_passes == b_passes else float(b_passes))
        faster_b = sum(1 for x, y in zip(a, b, strict=True) if y < x)
        faster_a = sum(1 for x, y in zip(a, b, strict=True) if x < y)
        wins.append(0.5 if faster_a == faster_b else float(faster_b > faster_a))
    return timeouts, wins


def test_vector_lcb_like_additive():
    """σ = 0.1 s additive, LCB-like: timeout 0.57, win rate 0.78, each ± 0.01; 60,000 trials put 3 σ at 0.006."""
    config = NoiseStudyConfig(
        trials=60_000,
        regimes=(LCB_LIKE,),
        thresholds=(1.0,),
        test_counts=(35,),
        additive_sweep_s=(0.1,),
        multiplicative_sweep=(0.1,),
    )
    (point,) = (p for p in run_noise_study(config) if p.figure == 13 and p.noise == NoiseKind.ADDITIVE)
    assert point.timeout_accuracy == pytest.approx(0.57, abs=0.01)
    assert point.win_rate_accuracy == pytest.approx(0.78, abs=0.01)


@pytest.mark.parametrize("kind", list(NoiseKind))
@pytest.mark.parametrize("regime", [LCB_LIKE, DMC_OPTIM_LIKE])
def test_scores_equal_naive_loops(regime, kind):
    trials = draw_trials(np.random.default_rng(1), regime, 60, 12, (kind, 0.1), NoiseStudyConfig())
    timeouts, wins = naive_scores(trials)
    assert timeout_scores(trials, oracle_thresholds(trials)).tolist() == timeouts
    assert win_rate_scores(trials).tolist() == wins
    fixed = 2.0 * math.exp(regime.log_mean)
    assert timeout_scores(trials, fixed).tolist() == naive_scores(trials, fixed)[0]


def test_undecided_trials_score_one_half():
    same = np.array([[1.0, 2.0]])
    tie = Trials(same, same, same, same)
    assert win_rate_scores(tie).tolist() == [0.5]
    assert timeout_scores(tie, 1.5).tolist() == [0.5]
    assert timeout_scores(tie, 2.0).tolist() == [0.5]
    split = Trials(same, same, np.array([[1.0, 3.0]]), np.array([[2.0, 2.0]]))
    assert win_rate_scores(split).tolist() == [0.5]
    assert timeout_scores(split, 2.5).tolist() == [1.0]


def test_observation_model():
    true = np.full((4000, 25), 2.0)
    rng = np.random.default_rng(2)
    additive, multiplicative = (observe(rng, true, kind, 0.1) for kind in NoiseKind)
    assert additive.std() == pytest.approx(0.1, rel=0.02)
    assert multiplicative.std() == pytest.approx(0.2, rel=0.02)
    assert (observe(rng, true, NoiseKind.ADDITIVE, 0.0) == true).all()


def test_true_gap_and_base_durations():
    trials = draw_trials(
        np.random.default_rng(3), LCB_LIKE, 4000, 35, (NoiseKind.ADDITIVE, 0.0), NoiseStudyConfig(variability=0.0)
    )
    assert np.allclose(trials.true_a / trials.true_b, 1.1 / 0.9)
    base = np.log(trials.true_a / 1.1)
    assert base.mean() == pytest.approx(-2.3, abs=0.01)
    assert base.std() == pytest.approx(0.5, abs=0.01)


def test_same_seed_same_points_and_settings_are_independent():
    points = run_noise_study(SMALL)
    assert points == run_noise_study(SMALL)
    other = NoiseStudyConfig(**{**vars(SMALL), "seed": 1})
    assert [p.timeout_accuracy for p in run_noise_study(other)] != [p.timeout_accuracy for p in points]
    fewer = NoiseStudyConfig(**{**vars(SMALL), "regimes": (DMC_OPTIM_LIKE,)})
    assert run_noise_study(fewer) == [p for p in points if p.regime == DMC_OPTIM_LIKE.name]


def test_a_setting_shared_by_two_figures_has_one_value():
    points = run_noise_study(SMALL)
    shared = {
        p.win_rate_accuracy
        for p in points
        if (p.regime, p.noise, p.sigma, p.n_tests) == (LCB_LIKE.name, "additive", 0.1, LCB_LIKE.n_tests)
    }
    assert len(shared) == 1


def test_without_noise_the_win_rate_knows_and_the_threshold_stays_fragile():
    points = [p for p in run_noise_study(SMALL) if p.figure == 13 and p.sigma == 0]
    assert points
    assert all(p.win_rate_accuracy > 0.99 > p.timeout_accuracy > 0.5 for p in points)


@pytest.mark.parametrize("bad", [{"trials": 0}, {"seed": -1}])
def test_bad_settings_are_refused(bad):
    with pytest.raises(InvalidInputError):
        NoiseStudyConfig(**bad)


def test_command_prints_json_and_writes_a_page(tmp_path):
    page = tmp_path / "noise.html"
    result = CliRunner().invoke(study, ["noise", "--trials", "40", "--json", "-o", str(page)])
    assert result.exit_code == 0, result.output
    figures = json.loads(result.stdout)
    assert figures["settings"]["trials"] == 40
    assert {point["figure"] for point in figures["points"]} == {11, 12, 13}
    text = page.read_text(encoding="utf-8")
    assert text.count("<svg") == 12
    assert "http" not in text.replace("http-equiv", "")


def test_command_writes_parquet(tmp_path):
    import pyarrow.parquet as pq

    path = tmp_path / "deep" / "noise.parquet"
    result = CliRunner().invoke(study, ["noise", "--trials", "20", "-o", str(path)])
    assert result.exit_code == 0, result.output
    assert "Win rate" in result.stdout
    assert pq.read_table(path).num_rows == len(run_noise_study(NoiseStudyConfig(trials=1)))


def test_command_refuses_an_unknown_suffix_before_it_works():
    result = CliRunner().invoke(study, ["noise", "-o", "noise.png"])
    assert isinstance(result.exception, ConfigError)
    assert ".html or .parquet" in str(result.exception)


def test_help_has_an_example():
    result = CliRunner().invoke(study, ["noise", "--help"])
    assert "dmc-optim study noise" in result.output
