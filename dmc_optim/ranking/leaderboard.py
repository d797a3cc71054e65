"""Insert candidates into the reference leaderboard: p_t, QAR and QP (paper D.2, Eqs. 23-25)."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from dmc_optim.errors import InvalidInputError
from dmc_optim.ranking.pool import Pool
from dmc_optim.ranking.references import TOLERANCE, Floats, Ints, References, candidate_durations

CELLS = 1 << 21  # candidates × references × tests compared at once: bounds memory at about 16 MiB


@dataclass(frozen=True, eq=False)
class Ranking:
    """Where one candidate stands. Lower is better everywhere.

    p: (T,) per-test percentile in [0, 1]; NaN where the test has no reference.
    qar: a(y), mean of p over the used tests with references (Eqs. 23, 24); None when there is none.
    qp: leaderboard percentile (Eq. 25); None when there is nothing to rank.
    position: b(y), references strictly ahead of the candidate. n_ranked: participants, candidate included.
    """

    p: Floats
    qar: float | None
    qp: float | None
    position: int
    n_ranked: int


@dataclass(frozen=True, eq=False)
class Rankings:
    """The same for K candidates: p (K, T); qar, qp (K,) with NaN for "not ranked"; position, n_ranked (K,).

    a_references: (K, H) a(h) of each reference in the leaderboard of each candidate; NaN when not in it.
    """

    p: Floats
    qar: Floats
    qp: Floats
    position: Ints
    n_ranked: Ints
    a_references: Floats

    def one(self, k: int = 0) -> Ranking:
        """The ranking of candidate k."""
        ranked = not np.isnan(self.qar[k])
        return Ranking(
            p=self.p[k],
            qar=float(self.qar[k]) if ranked else None,
            qp=float(self.qp[k]) if ranked else None,
            position=int(self.position[k]),
            n_ranked=int(self.n_ranked[k]),
        )


def rank(
    delta: ArrayLike, references: References, *, weights: ArrayLike | None = None, exclude: int | None = None
) -> Ranking:
    """Rank one candidate; `rank_many` with a batch of one.

    Args:
        delta: (T,) seconds, never transformed; a missing one takes the cap.
        references: H references on the same T tests.
        weights: (T,) 1 for a used test, 0 for an unused one, or any weight ≥ 0; None uses every test.
        exclude: row of the reference that the candidate is, left out of the pool.
    """
    if np.ndim(delta) != 1:
        raise InvalidInputError(f"one candidate has one duration a test; got shape {np.shape(delta)}")
    rows = None if exclude is None else [exclude]
    return rank_many(delta, references, weights=weights, exclude=rows).one()


def rank_many(
    delta: ArrayLike, references: References, *, weights: ArrayLike | None = None, exclude: ArrayLike | None = None
) -> Rankings:
    r"""Rank K candidates, each on its own against the references.

    p_t(y) = #{h : d̃_{t,h} < δ_t(y)} / |D_t|: an exact tie has the previous participant's percentile. References are
    scored in the same inserted leaderboard, p_t(h) = (#{h′ : d̃_{t,h′} < d̃_{t,h}} + [δ_t(y) < d̃_{t,h}]) / |D_t|, and
    a(·) averages p_t over the used tests on which the participant has a duration.
    q_QAR = a(y);  q_QP = #{h : a(h) < a(y) − 1e-12} / max(1, N_rank − 1).

    Args:
        delta: (K, T) or (T,) seconds.
        references: H references on the same T tests.
        weights: (T,) or (K, T) ≥ 0, one for a used test and zero for an unused one; None uses every test.
        exclude: (K,) row left out of the pool of each candidate, -1 for none.

    Raises:
        InvalidInputError: shapes that do not fit, a negative duration or weight.

    Source: paper D.2, Eqs. 23-25.
    """
    durations = candidate_durations(delta, references.n_tests)
    n_candidates = len(durations)
    pool = Pool(references, exclude)
    if exclude is not None and len(pool.rows) != n_candidates:
        raise InvalidInputError(f"exclude must have one row for each of the {n_candidates} candidates")
    counts = pool.counts
    weight = np.where(counts > 0, _weights(weights, n_candidates, references.n_tests), 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.where(counts > 0, weight / counts, 0.0)
        ahead, behind = _insert(durations, pool, share)
        p = np.where(counts > 0, ahead / counts, np.nan)
        qar = np.where(counts > 0, weight * p, 0.0).sum(axis=1) / weight.sum(axis=1)
        own_weight = weight @ references.valid_columns
        a_references = (share @ references.faster.T + behind) / np.where(own_weight > 0, own_weight, np.nan)
    a_references = np.where(pool.members, a_references, np.nan)
    ranked = ~np.isnan(qar)
    position = np.where(ranked, (a_references < qar[:, None] - TOLERANCE).sum(axis=1), 0)
    n_ranked = (~np.isnan(a_references)).sum(axis=1) + 1
    qp = np.where(ranked, position / np.maximum(1, n_ranked - 1), np.nan)
    return Rankings(p, qar, qp, position, n_ranked, a_references)


def slower_share(seconds: Floats, share: Floats, references: References) -> Floats:
    """Σ_t share_t · [seconds_t < d̃_{t,h}] for every row of seconds and every reference.

    Args:
        seconds: (k, T); a NaN is faster than nothing.
        share: (k, T) or (1, T).
        references: H references.

    Returns:
        (k, H).
    """
    out = np.empty((len(seconds), references.n_references))
    step = max(1, CELLS // max(1, references.durations.size))
    shares = np.broadcast_to(share, seconds.shape)[:, :, None]
    for start in range(0, len(seconds), step):
        rows = slice(start, start + step)
        slower = seconds[rows, None, :] < references.durations
        out[rows] = np.matmul(slower.astype(np.float64), shares[rows])[:, :, 0]
    return out


def _insert(durations: Floats, pool: Pool, share: Floats) -> tuple[Floats, Floats]:
    """References ahead of each candidate on each test (K, T), and what it adds to the references behind it (K, H).

    A candidate that is the very reference left out changes nothing in the pool: its place is known already.
    """
    references = pool.references
    n_candidates = len(durations)
    left_out = np.broadcast_to(pool.left_out, durations.shape)
    rows = np.broadcast_to(pool.rows, (n_candidates,))
    itself = (durations == left_out).all(axis=1) & (rows >= 0)
    ahead = np.empty(durations.shape)
    behind = np.zeros((n_candidates, references.n_references))
    ahead[itself] = references.faster[rows[itself]]
    other = np.flatnonzero(~itself)
    if len(other) == 0:
        return ahead, behind
    seconds, gone = durations[other], left_out[other]
    ahead[other] = _count_faster(seconds, references) - (gone < seconds)
    shares = np.broadcast_to(share, durations.shape)[other]
    behind[other] = slower_share(seconds, shares, references)
    if pool.leaves_out:
        behind[other] -= slower_share(gone, shares, references)
    return ahead, behind


def _count_faster(seconds: Floats, references: References) -> Floats:
    """#{h : d̃_{t,h} < seconds_t}, (k, T)."""
    if len(seconds) == 1:
        return np.asarray((references.durations < seconds).sum(axis=0, dtype=np.float64))[None]
    out = np.empty(seconds.shape)
    for t in range(references.n_tests):
        column = references.sorted[: references.counts[t], t]
        out[:, t] = np.searchsorted(column, seconds[:, t], side="left")
    return out


def _weights(weights: ArrayLike | None, n_candidates: int, n_tests: int) -> Floats:
    if weights is None:
        return np.ones((1, n_tests))
    array = np.atleast_2d(np.asarray(weights, dtype=np.float64))
    if array.shape not in {(1, n_tests), (n_candidates, n_tests)}:
        raise InvalidInputError(f"weights must have one value for each of the {n_tests} tests; got {array.shape}")
    if not np.all(array >= 0) or not np.all(np.isfinite(array)):
        raise InvalidInputError("test weights must be finite and not negative")
    return array
