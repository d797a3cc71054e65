"""Reading a build: what is found where, in which order, and what is said when something is missing."""

import numpy as np
import pyarrow.parquet as pq
import pytest

from dmc_optim.errors import ArtifactError
from dmc_optim.simulator.pool import load_pool
from dmc_optim.simulator.stored import Selection, stored_problems
from tests.simulator.synthetic_build import SyntheticBuild

ALL = Selection(pool="all")


def expected_cells(build, problem, category):
    """(solution, test) → row, for the tests of a category."""
    tests = {r["test_id"]: r for r in build.rows["tests"] if r["problem_id"] == problem and r["category"] == category}
    return tests, {
        (r["solution_id"], r["test_id"]): r
        for r in build.rows["reference_durations"]
        if r["problem_id"] == problem and r["test_id"] in tests
    }


@pytest.fixture(scope="module")
def build():
    return SyntheticBuild(problems=5, missing=0.1, median_work_s=2.0)


def test_every_cell_is_where_it_belongs(build, tmp_path):
    rng = np.random.default_rng(0)
    for rows in build.rows.values():
        rng.shuffle(rows)  # order on disk means nothing
    found = list(stored_problems(str(build.write(tmp_path)), ALL))
    assert [p.problem_id for p in found] == [f"p{i:03d}" for i in range(5)]
    codes = {"success": 0, "timeout": 1, "infrastructure": -1}
    seen = set()
    for problem in found:
        assert list(problem.solution_ids) == sorted(problem.solution_ids)
        assert "wrong" not in problem.solution_ids
        groups = (("public", problem.base), ("correctness", problem.added), ("optimization", problem.optimization))
        for category, cells in groups:
            tests, rows = expected_cells(build, problem.problem_id, category)
            assert cells.test_ids == tuple(sorted(tests))
            assert cells.chars.tolist() == [tests[t]["n_chars"] for t in cells.test_ids]
            for h, solution in enumerate(problem.solution_ids):
                for t, test in enumerate(cells.test_ids):
                    row = rows[solution, test]
                    seen.add(row["status"])
                    assert cells.status[h, t] == codes[row["status"]]
                    assert cells.repetitions[h, t] == row["repetitions"]
                    if row["duration_s"] is None:
                        assert np.isnan(cells.duration_s[h, t])
                    else:
                        assert cells.duration_s[h, t] == row["duration_s"]
                        assert cells.std_s[h, t] == row["duration_std_s"]
    assert seen == set(codes)


def test_selection(build, tmp_path):
    where = str(build.write(tmp_path))

    def ids(**selection):
        return [p.problem_id for p in stored_problems(where, Selection(**selection))]

    assert ids() == ["p000", "p001", "p002", "p004"]
    assert ids(pool="complement") == ["p003"]
    assert ids(split="test") == ["p002"]
    assert ids(pool="all", limit=2) == ["p000", "p001"]


def test_base_outcomes_come_from_executions_where_nothing_is_stored(tmp_path):
    build = SyntheticBuild(problems=2, base_in_executions=True)
    for row in build.rows["executions"]:
        if row["test_id"] == "public1" and row["solution_id"] == "s000":
            row["status"] = "wrong_answer"
    found = list(stored_problems(str(build.write(tmp_path)), ALL))
    for problem in found:
        assert problem.base.test_ids == ("public0", "public1", "public2")
        assert problem.base.status[0].tolist() == [0, 2, 0]
        assert (problem.base.status[1:] == 0).all()
        assert len(problem.added.test_ids) == 2


def test_solutions_and_executions_are_optional(tmp_path):
    where = SyntheticBuild(problems=2).write(tmp_path, without=("solutions", "executions"))
    assert len(list(stored_problems(str(where), ALL))) == 2


def test_candidates_of_a_loaded_pool_are_the_references(tmp_path):
    build = SyntheticBuild(problems=3)
    pool = load_pool(str(build.write(tmp_path)), ALL)
    assert pool.summary.references == pool.summary.candidates == 6 + 7 + 8
    assert pool.summary.optimization_tests == 7 + 9 + 11
    problem, rollouts = pool.problems[0].build(None)
    assert (problem.base_tests, problem.added_tests) == (3, 2)
    assert rollouts.exclude.tolist() == list(range(6))


@pytest.mark.parametrize("table", ["splits", "tests", "reference_durations"])
def test_a_missing_table_is_named(table, tmp_path):
    where = SyntheticBuild(problems=1).write(tmp_path, without=(table,))
    with pytest.raises(ArtifactError, match=f"no table `{table}`"):
        list(stored_problems(str(where), ALL))


def test_no_such_directory(tmp_path):
    with pytest.raises(ArtifactError, match="no such directory"):
        list(stored_problems(str(tmp_path / "nowhere"), ALL))


def test_an_empty_selection_says_what_there_is(tmp_path):
    where = SyntheticBuild(problems=2).write(tmp_path)
    with pytest.raises(ArtifactError, match=r"no problem in the complement pool.*2 problems in `splits`"):
        list(stored_problems(str(where), Selection(pool="complement")))


def test_selected_problems_without_cells(tmp_path):
    build = SyntheticBuild(problems=2)
    build.rows["reference_durations"] = [r for r in build.rows["reference_durations"] if r["problem_id"] == "p001"]
    with pytest.raises(ArtifactError, match="no row for the 1 problems"):
        list(stored_problems(str(build.write(tmp_path)), Selection(limit=1)))


def test_a_broken_file_is_named(tmp_path):
    where = SyntheticBuild(problems=1).write(tmp_path)
    broken = where / "tables" / "tests" / "complete-00000.parquet"
    broken.write_bytes(b"PAR1 nothing")
    with pytest.raises(ArtifactError, match=r"complete-00000.parquet: not a readable Parquet file"):
        list(stored_problems(str(where), ALL))


def test_a_missing_column_is_named(tmp_path):
    where = SyntheticBuild(problems=1).write(tmp_path)
    for path in (where / "tables" / "tests").glob("*.parquet"):
        pq.write_table(pq.read_table(path).drop_columns(["n_chars"]), path)
    with pytest.raises(ArtifactError, match="no column `n_chars`"):
        list(stored_problems(str(where), ALL))


def test_nothing_to_simulate_says_why(tmp_path):
    build = SyntheticBuild(problems=1, references=1)
    with pytest.raises(ArtifactError, match="1 with fewer than two references"):
        load_pool(str(build.write(tmp_path)), ALL)


def test_problems_that_span_batches_stay_whole(monkeypatch, tmp_path):
    from dmc_optim.simulator import stored

    where = str(SyntheticBuild(problems=4).write(tmp_path))
    whole = list(stored_problems(where, ALL))
    monkeypatch.setattr(stored, "_BATCH_ROWS", 17)
    parts = list(stored_problems(where, ALL))
    assert [p.problem_id for p in parts] == [p.problem_id for p in whole]
    for a, b in zip(parts, whole, strict=True):
        assert np.array_equal(a.optimization.duration_s, b.optimization.duration_s, equal_nan=True)
