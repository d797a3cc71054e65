"""QAR against QP: statistics against scipy and a naive ranking, the command, bad input."""

import json

import numpy as np
import pytest
from click.testing import CliRunner
from scipy.stats import pearsonr, spearmanr

from dmc_optim.cli.study import study
from dmc_optim.errors import ArtifactError
from dmc_optim.ranking import synthetic_pool
from dmc_optim.simulator.pool import make_pool
from dmc_optim.studies.qar_qp import ProblemScalars, compare, qar_qp_report, score_pool
from tests.simulator.problems import stored_problem
from tests.simulator.synthetic_build import SyntheticBuild


def naive_scalars(durations):
    """Each reference among the others: mean share of strictly faster ones, and its place by that mean."""
    n = len(durations)
    mean = [
        np.mean([np.mean([durations[o, t] < row[t] for o in range(n) if o != h]) for t in range(len(row))])
        for h, row in enumerate(durations)
    ]
    place = [sum(other < mine - 1e-12 for other in mean) / max(1, n - 1) for mine in mean]
    return 100 * np.array(mean), 100 * np.array(place)


def pool_of(count):
    drawn = [synthetic_pool(i, 6 + i, 5, noise=0.3, median_work_s=0.3) for i in range(count)]
    return make_pool([stored_problem(f"p{i}", d.stored_s) for i, d in enumerate(drawn)])


def test_scalars_and_statistics_are_recomputed():
    pool = pool_of(4)
    scores = score_pool(pool)
    expected = [naive_scalars(problem.duration_s) for problem in pool.problems]
    for score, (qar, qp) in zip(scores, expected, strict=True):
        assert score.qar == pytest.approx(qar, abs=1e-9)
        assert score.qp == pytest.approx(qp, abs=1e-9)
    qar, qp = (np.concatenate([pair[i] for pair in expected]) for i in (0, 1))
    found = compare(scores)
    assert found.spearman == pytest.approx(spearmanr(qar, qp).statistic, abs=1e-9)
    assert found.pearson == pytest.approx(pearsonr(qar, qp).statistic, abs=1e-9)
    assert found.mean_difference == pytest.approx(np.abs(qar - qp).mean(), abs=1e-9)
    assert found.percentile_95 == pytest.approx(np.percentile(np.abs(qar - qp), 95), abs=1e-9)
    assert (found.references, found.problems, found.median_ranked) == (30, 4, 7.5)
    assert found.median_resolution == pytest.approx(np.median([100 / 5, 100 / 6, 100 / 7, 100 / 8]))


def test_without_noise_both_scalars_are_one():
    drawn = synthetic_pool(1, 9, 7, median_work_s=0.05)
    (score,) = score_pool(make_pool([stored_problem("p", drawn.stored_s)]))
    assert score.qar == pytest.approx(score.qp, abs=1e-9)
    assert compare([score]).mean_difference == pytest.approx(0, abs=1e-9)


def test_equal_references_have_no_correlation():
    (score,) = score_pool(make_pool([stored_problem("p", np.ones((4, 3)))]))
    found = compare([score])
    assert found.spearman is None
    assert found.pearson is None
    assert "–" in qar_qp_report([score], found, {}).as_text()


def test_nothing_ranked_is_an_error():
    with pytest.raises(ArtifactError, match="no reference can be ranked"):
        compare([ProblemScalars("p", np.array([np.nan]), np.array([np.nan]), 0, 1)])


def test_command(tmp_path):
    where = SyntheticBuild(problems=4, noise=0.3).write(tmp_path / "build")
    page = tmp_path / "page.html"
    result = CliRunner().invoke(study, ["qar-vs-qp", str(where), "--json", "-o", str(page)])
    assert result.exit_code == 0, result.output
    figures = json.loads(result.stdout)
    assert figures["summary"]["problems"] == 3
    assert len(figures["problems"]) == 3
    assert page.read_text(encoding="utf-8").count("<svg") == 2
    train = CliRunner().invoke(study, ["qar-vs-qp", str(where), "--split", "train", "--calibration", "0.6306,0.0529"])
    assert train.exit_code == 0, train.output
    assert "references: 13" in train.stdout


def test_command_without_a_build(tmp_path):
    result = CliRunner().invoke(study, ["qar-vs-qp", str(tmp_path / "none")])
    assert isinstance(result.exception, ArtifactError)
    assert "qar-vs-qp out/" in CliRunner().invoke(study, ["qar-vs-qp", "--help"]).output
