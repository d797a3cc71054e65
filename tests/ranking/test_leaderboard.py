from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.stats import rankdata

from dmc_optim.errors import InvalidInputError
from dmc_optim.ranking import References, rank, rank_many
from tests.ranking import oracle
from tests.ranking.strategies import calibrations, rows, seconds, tables

D = [[1, 1], [2, 2], [2, 4]]  # D_1 = {1, 2, 2}, D_2 = {1, 2, 4}


def test_vector_with_a_tie():
    board = rank((2, 3), References(D))
    np.testing.assert_allclose(board.p, [1 / 3, 2 / 3], atol=1e-15)
    assert (board.qar, board.qp) == (pytest.approx(1 / 2), pytest.approx(2 / 3))
    assert (board.position, board.n_ranked) == (2, 4)


def test_vector_of_the_references_in_the_same_leaderboard():
    np.testing.assert_allclose(rank_many([[2, 3]], References(D)).a_references, [[0, 1 / 3, 2 / 3]], atol=1e-15)


@pytest.mark.parametrize(("delta", "q"), [((10, 10), 1.0), ((0.5, 0.5), 0.0)])
def test_vectors_at_both_ends(delta, q):
    board = rank(delta, References(D))
    assert (board.qar, board.qp) == (q, q)


@given(st.data(), tables(), calibrations)
def test_agrees_with_exact_fractions(data, raw, calibration):
    n_tests = raw.shape[1]
    delta = data.draw(rows(n_tests))
    used = data.draw(st.lists(st.booleans(), min_size=n_tests, max_size=n_tests))
    board = rank(delta, References(raw, calibration), weights=used)
    exact_delta = [Fraction(float(value)) for value in delta]
    reference_table = oracle.table(raw, calibration)
    assume(not _near_tie(exact_delta, reference_table, calibration))
    p, a, qp, n_rank = oracle.leaderboard(exact_delta, reference_table, [t for t in range(n_tests) if used[t]])
    for got, expected in zip(board.p, p, strict=True):
        assert np.isnan(got) if expected is None else abs(got - float(expected)) <= 1e-12
    if a is None:
        assert board.qar is None
        assert board.qp is None
    else:
        assert abs(board.qar - float(a)) <= 1e-12
        assert abs(board.qp - float(qp)) <= 1e-12
        assert board.n_ranked == n_rank


def _near_tie(delta, table, calibration):
    """Rounding of α·d + β makes or breaks a tie; exact arithmetic cannot say what floats should do there."""
    if calibration is None:
        return False
    values = [cell for row in table for cell in row if cell is not None]
    return any(0 < abs(x - y) < 1e-12 for x in values for y in [*delta, *values])


@given(st.data(), tables(min_references=1, min_tests=1))
def test_percentiles_are_minimum_ranks(data, raw):
    delta = data.draw(rows(raw.shape[1]))
    refs = References(raw)
    board = rank(delta, refs)
    for t in np.flatnonzero(refs.counts):
        inserted = np.append(refs.durations[refs.valid[:, t], t], delta[t])
        assert board.p[t] == pytest.approx((rankdata(inserted, method="min")[-1] - 1) / (len(inserted) - 1))


@given(st.data(), tables())
def test_a_batch_is_its_rows(data, raw):
    n_tests = raw.shape[1]
    batch = data.draw(st.lists(rows(n_tests), min_size=1, max_size=5))
    refs = References(raw)
    many = rank_many(np.array(batch).reshape(len(batch), n_tests), refs)
    for k, delta in enumerate(batch):
        one, of_batch = rank(delta, refs), many.one(k)
        np.testing.assert_allclose(of_batch.p, one.p, atol=1e-12)
        assert (of_batch.qar is None) == (one.qar is None)
        if one.qar is not None:
            assert of_batch.qar == pytest.approx(one.qar, abs=1e-12)
        assert (of_batch.qp, of_batch.position, of_batch.n_ranked) == (one.qp, one.position, one.n_ranked)


@given(st.data(), tables(min_references=1))
def test_leaving_a_reference_out_is_deleting_its_row(data, raw):
    row = data.draw(st.integers(0, len(raw) - 1))
    itself = data.draw(st.booleans())
    refs = References(raw)
    delta = np.nan_to_num(refs.durations[row], nan=10.0) if itself else data.draw(rows(raw.shape[1]))
    left_out = rank(delta, refs, exclude=row)
    deleted = rank(delta, References(np.delete(raw, row, axis=0)))
    np.testing.assert_allclose(left_out.p, deleted.p, atol=1e-12)
    assert left_out.qar == (None if deleted.qar is None else pytest.approx(deleted.qar, abs=1e-12))
    assert (left_out.qp, left_out.n_ranked) == (deleted.qp, deleted.n_ranked)


@given(st.data(), tables(min_references=1, min_tests=1))
def test_a_slower_candidate_never_ranks_better(data, raw):
    delta = data.draw(rows(raw.shape[1]))
    slower = delta + np.array(data.draw(st.lists(st.floats(0, 5), min_size=len(delta), max_size=len(delta))))
    refs = References(raw)
    before, after = rank(delta, refs), rank(slower, refs)
    assert np.all((after.p >= before.p) | np.isnan(before.p))
    if before.qar is not None:
        assert after.qar >= before.qar - 1e-12
        assert after.qp >= before.qp


@given(st.data(), tables(min_references=1, min_tests=1, cell=st.floats(0.01, 2.0)))
def test_a_common_increasing_affine_map_changes_nothing(data, raw):
    delta = data.draw(rows(raw.shape[1], st.floats(0.01, 2.0)))
    alpha, beta = data.draw(st.sampled_from([0.5, 2.0, 4.0])), data.draw(st.sampled_from([0.0, 0.125, 1.0]))
    mapped = alpha * delta + beta
    assume(_distinct(np.vstack([raw, delta])) == _distinct(np.vstack([alpha * raw + beta, mapped])))
    plain, moved = rank(delta, References(raw)), rank(mapped, References(raw, (alpha, beta)))
    np.testing.assert_array_equal(plain.p, moved.p)
    assert (plain.qar, plain.qp) == (moved.qar, moved.qp)


def _distinct(values):
    """Distinct values a column: adding β may round two different floats onto each other."""
    return [len(set(column)) for column in values.T]


@given(st.data(), tables(min_references=1, min_tests=1, cell=seconds))
def test_a_slower_reference_never_worsens_the_rank(data, raw):
    delta = data.draw(rows(raw.shape[1]))
    extra = np.maximum(raw.max(axis=0), delta) + np.array(
        data.draw(st.lists(st.floats(0, 3), min_size=len(delta), max_size=len(delta)))
    )
    before, after = rank(delta, References(raw)), rank(delta, References(np.vstack([raw, extra])))
    assert np.all(after.p <= before.p)
    assert after.qar <= before.qar + 1e-12
    assert after.qp <= before.qp


@given(st.data(), tables(min_references=1, min_tests=1))
def test_everything_lies_between_zero_and_one(data, raw):
    board = rank(data.draw(rows(raw.shape[1])), References(raw))
    assert np.all(np.isnan(board.p) | ((board.p >= 0) & (board.p <= 1)))
    if board.qar is not None:
        assert 0 <= board.qar <= 1
        assert 0 <= board.qp <= 1


def test_averages_within_rounding_share_the_better_position():
    """a(y) and a(h) are both 0.3 in exact arithmetic, but their sums round differently."""
    raw = np.array([[1.0 + 0.1 * h for _ in range(10)] for h in range(10)])
    delta = raw[3].copy()
    board = rank(delta, References(raw))
    assert board.position == 3
    rotated = np.array([np.roll(np.arange(10.0) + 1, t) for t in range(10)]).T  # every reference has the same average
    assert rank(np.full(10, 5.5), References(rotated)).position == 0


def test_nothing_to_rank_is_none():
    for refs in (References.empty(2), References([[np.nan, np.nan]]), References(np.empty((3, 0)))):
        board = rank(np.ones(refs.n_tests), refs)
        assert (board.qar, board.qp, board.n_ranked) == (None, None, 1)


def test_a_reference_without_used_test_is_no_participant():
    refs = References([[1.0, np.nan], [np.nan, 2.0], [3.0, 3.0]])
    board = rank([2.0, 2.0], refs, weights=[1, 0])
    assert board.n_ranked == 3
    assert board.qar == 0.5
    assert board.qp == 0.5


def test_weights_scale_tests():
    refs = References([[1.0, 9.0], [3.0, 9.0]])
    assert rank([2.0, 10.0], refs, weights=[3, 1]).qar == pytest.approx((3 * 0.5 + 1 * 1.0) / 4)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"weights": [1.0]}, "one value for each"),
        ({"weights": [-1.0, 1.0]}, "not negative"),
        ({"weights": [np.nan, 1.0]}, "finite"),
        ({"exclude": [0, 1]}, "one row for each"),
        ({"exclude": [7]}, "rows of the 3 references"),
    ],
)
def test_unusable_arguments_are_refused(arguments, message):
    with pytest.raises(InvalidInputError, match=message):
        rank_many([[1.0, 2.0]], References(D), **arguments)


def test_one_candidate_has_one_row():
    with pytest.raises(InvalidInputError, match="one candidate"):
        rank([[1.0, 2.0]], References(D))


def test_many_candidates_are_ranked_in_bounded_chunks(monkeypatch):
    raw = np.random.default_rng(3).lognormal(size=(7, 5))
    delta = np.random.default_rng(4).lognormal(size=(9, 5))
    whole = rank_many(delta, References(raw))
    monkeypatch.setattr("dmc_optim.ranking.leaderboard.CELLS", 70)
    np.testing.assert_array_equal(rank_many(delta, References(raw)).qp, whole.qp)
