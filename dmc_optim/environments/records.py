"""What an environment reads (problem, rollouts) and what it exposes (signals)."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dmc_optim.errors import InvalidInputError
from dmc_optim.ranking import CAP_S, References
from dmc_optim.ranking.references import Bools, Floats, Ints
from schemas.enums import Outcome, Status

Codes = NDArray[np.int8]

SUCCESS, TIMEOUT, FAILURE, NOT_RUN = 0, 1, 2, 3
_CODES: dict[str | None, int] = {Outcome.SUCCESS: SUCCESS, Outcome.TIMEOUT: TIMEOUT, Outcome.FAILURE: FAILURE}
_CODES |= {None: NOT_RUN, "not_run": NOT_RUN}
_CODES |= {status: _CODES[status.outcome] for status in Status if status.outcome is not None}


@dataclass(frozen=True, eq=False)
class Problem:
    """One problem as environments see it.

    base_tests: |T_0|, original public, private and generated tests. added_tests: |T_+|, correctness tests added later.
    chars: (T,) len(u_t) + len(v_t) of each optimization test; None where it is unknown (character filters then refuse).
    references: H references on the T optimization tests, columns in order of test_id.

    Raises:
        InvalidInputError: negative counts, or chars and references that disagree on T.
    """

    base_tests: int
    added_tests: int
    chars: Any
    references: References
    kept: dict[Any, Bools] = field(default_factory=dict, init=False, repr=False)  # by filter, with the whole pool
    limits: dict[Any, Floats] = field(default_factory=dict, init=False, repr=False)  # by filter and limit

    def __post_init__(self) -> None:
        if self.base_tests < 0 or self.added_tests < 0:
            raise InvalidInputError("a problem cannot have a negative number of tests")
        if self.chars is None:
            return
        chars = np.array(self.chars)
        chars.setflags(write=False)  # what filters kept is remembered
        if chars.shape != (self.references.n_tests,):
            raise InvalidInputError(
                f"chars has shape {chars.shape} but the references cover {self.references.n_tests} optimization tests"
            )
        object.__setattr__(self, "chars", chars)

    @property
    def n_tests(self) -> int:
        """T, optimization tests before any filter."""
        return self.references.n_tests


@dataclass(frozen=True, eq=False)
class Rollout:
    """Execution record of one program: statuses "success" | "timeout" | "failure", durations in seconds.

    base_status: (B,) on T_0. added_status: (A,) on T_+. opt_status, opt_duration_s: (T,) on the optimization tests,
    run under the 10 s cap; a missing duration is NaN. base_duration_s, added_duration_s: only read by `mc_tloc`.
    Detailed statuses of the executor are accepted and mapped by Eq. 9; infrastructure is refused, it is no verdict.
    A test that was not run has status None (a whole group not run may be empty): the environment does not use it,
    or a failure elsewhere ended the trajectory early.
    """

    base_status: Any
    added_status: Any
    opt_status: Any
    opt_duration_s: Any
    base_duration_s: Any = None
    added_duration_s: Any = None


class Rollouts:
    """K rollouts of one problem as arrays; one rollout is a batch of one.

    Args:
        base_status: (K, B) statuses, as names or as codes 0 success, 1 timeout, 2 failure, 3 not run.
        added_status: (K, A).
        opt_status: (K, T).
        opt_duration_s: (K, T) seconds, NaN missing.
        exclude: (K,) row of the references that each rollout is, left out of its own pool; -1 for none.
        base_duration_s, added_duration_s: (K, B), (K, A) seconds or None.

    Attributes:
        duration_s: (K, T) δ_t(y): a timeout lasts the cap, a missing duration takes the cap, others are as measured.

    Raises:
        InvalidInputError: unknown statuses, lengths that disagree, negative durations.
    """

    def __init__(
        self,
        base_status: ArrayLike,
        added_status: ArrayLike,
        opt_status: ArrayLike,
        opt_duration_s: ArrayLike,
        *,
        exclude: ArrayLike | None = None,
        base_duration_s: ArrayLike | None = None,
        added_duration_s: ArrayLike | None = None,
    ) -> None:
        self.status = status_codes(opt_status, "opt_status")
        self.base = status_codes(base_status, "base_status")
        self.added = status_codes(added_status, "added_status")
        measured = _durations(opt_duration_s, self.status, "opt_duration_s")
        self.duration_s: Floats = np.where((self.status == TIMEOUT) | ~np.isfinite(measured), CAP_S, measured)
        self.base_duration_s = None if base_duration_s is None else _durations(base_duration_s, self.base, "base")
        self.added_duration_s = None if added_duration_s is None else _durations(added_duration_s, self.added, "added")
        self.exclude: Ints | None = None if exclude is None else np.asarray(exclude, dtype=np.int64)
        lengths = {len(self.status), len(self.base), len(self.added)}
        if self.exclude is not None:
            lengths.add(len(self.exclude))
        if len(lengths) != 1:
            raise InvalidInputError(f"a batch needs the same number of rollouts in every array; got {sorted(lengths)}")

    @classmethod
    def stack(cls, rollouts: Sequence[Rollout]) -> "Rollouts":
        """K rollouts of the same problem as one batch."""
        try:
            return cls(
                [_row(r.base_status) for r in rollouts],
                [_row(r.added_status) for r in rollouts],
                [_row(r.opt_status) for r in rollouts],
                np.array([r.opt_duration_s for r in rollouts], dtype=np.float64),
                base_duration_s=_optional(r.base_duration_s for r in rollouts),
                added_duration_s=_optional(r.added_duration_s for r in rollouts),
            )
        except InvalidInputError:
            raise
        except ValueError as error:
            raise InvalidInputError(f"rollouts of one problem must have the same tests: {error}") from error

    @classmethod
    def from_references(cls, problem: Problem, rows: ArrayLike | None = None) -> "Rollouts":
        """References as candidates against the others: correct, with their calibrated durations (paper E.1).

        A cell that is missing or at the cap is a timeout.

        Args:
            problem: the problem whose references run.
            rows: (K,) rows to take, repetitions allowed; None takes every reference once.
        """
        references = problem.references
        exclude = np.arange(references.n_references) if rows is None else np.asarray(rows, dtype=np.int64)
        durations = references.durations[exclude]
        status = np.where(durations < CAP_S, SUCCESS, TIMEOUT).astype(np.int8)  # NaN compares false
        passed = [np.zeros((len(exclude), n), dtype=np.int8) for n in (problem.base_tests, problem.added_tests)]
        return cls(passed[0], passed[1], status, durations, exclude=exclude)

    def __len__(self) -> int:
        """K."""
        return len(self.status)

    def fit(self, problem: Problem) -> "Rollouts":
        """This batch with the tests of the problem; a group without any status becomes one that was not run.

        Raises:
            InvalidInputError: a number of statuses that is neither that of the problem nor zero.
        """
        fitted = self.part(slice(None))
        for name, attribute, expected in (
            ("base_status", "base", problem.base_tests),
            ("added_status", "added", problem.added_tests),
            ("opt_status", "status", problem.n_tests),
        ):
            codes = getattr(self, attribute)
            if codes.shape[1] == 0 < expected:
                setattr(fitted, attribute, np.full((len(self), expected), NOT_RUN, dtype=np.int8))
            elif codes.shape[1] != expected:
                raise InvalidInputError(f"{name} has {codes.shape[1]} tests but the problem has {expected}")
        if self.duration_s.shape[1] == 0 < problem.n_tests:
            fitted.duration_s = np.full((len(self), problem.n_tests), CAP_S)
        return fitted

    def part(self, rows: slice) -> "Rollouts":
        """The rollouts of a slice, without copying."""
        part = object.__new__(Rollouts)
        for name, value in vars(self).items():
            setattr(part, name, None if value is None else value[rows])
        return part


@dataclass(frozen=True, eq=False)
class Signals:
    """The interface between environments and rewards; scalars for one rollout, arrays for a batch.

    c_cor: c_cor, every correctness test succeeded. c_strict: c̃_cor, and no failure on an executed optimization test.
    g: hard optimization gate. q: graded quality in [0, 1], 0 best.
    g_to, g_dur, q_to, q_dur: the status side and the duration side of g and q (paper Eq. 26).
    phi: φ, share of used optimization tests that timed out. n_used: how many were used.
    qar, qp: ranked scalars of ranking environments; None (NaN in a batch) where nothing is ranked.
    complete: every test the environment uses was run. A trajectory that a failure ended early is not: its c̃_cor is 0,
    its g and q are the worst there are, and rewards that would look at them refuse it.
    """

    c_cor: Any
    c_strict: Any
    g: Any
    q: Any
    g_to: Any = None
    g_dur: Any = None
    q_to: Any = None
    q_dur: Any = None
    phi: Any = None
    n_used: Any = None
    qar: Any = None
    qp: Any = None
    complete: Any = True


def status_codes(status: ArrayLike, name: str) -> Codes:
    """Status names or codes as codes, (K, n).

    Raises:
        InvalidInputError: a name that is no status, or `infrastructure`, which is never a verdict.
    """
    array = np.asarray(status)
    if array.ndim != 2:
        raise InvalidInputError(f"{name} must have one row for each rollout; got shape {array.shape}")
    if array.size == 0:
        return np.zeros(array.shape, dtype=np.int8)
    if np.issubdtype(array.dtype, np.integer):
        if array.min() < SUCCESS or array.max() > NOT_RUN:
            raise InvalidInputError(f"{name} has codes outside 0 success, 1 timeout, 2 failure, 3 not run")
        return array.astype(np.int8)
    flat = array.ravel().tolist()
    try:
        return np.array([_CODES[value] for value in flat], dtype=np.int8).reshape(array.shape)
    except (KeyError, TypeError) as error:
        bad = error.args[0] if isinstance(error, KeyError) else error
        hint = "; rerun it, infrastructure is no verdict" if bad == Status.INFRASTRUCTURE else ""
        raise InvalidInputError(f"{name}: {bad!r} is not success, timeout or failure{hint}") from None


def _durations(seconds: ArrayLike, codes: Codes, name: str) -> Floats:
    array = np.asarray(seconds, dtype=np.float64)
    if array.shape != codes.shape:
        raise InvalidInputError(f"{name} has shape {array.shape} but the statuses have {codes.shape}")
    if np.any(array < 0):
        raise InvalidInputError(f"{name} must not be negative; mark a missing duration as NaN")
    return array


def _row(status: Any) -> list[Any]:
    return status.tolist() if isinstance(status, np.ndarray) else list(status)


def _optional(rows: Any) -> list[Any] | None:
    listed = list(rows)
    return None if any(row is None for row in listed) else listed
