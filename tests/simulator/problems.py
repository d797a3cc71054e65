"""Stored problems from plain arrays."""

import numpy as np

from dmc_optim.simulator.stored import Cells, StoredProblem


def cells(seconds, status=None, std=None, repetitions=1, chars=None):
    """Cells of any (H, n) seconds; NaN has no verdict, 10 s and more is a time-out unless status says otherwise."""
    seconds = np.asarray(seconds, dtype=np.float64)
    if status is None:
        status = np.where(np.isnan(seconds), -1, np.where(seconds >= 10, 1, 0))
    return Cells(
        tuple(f"t{i:03d}" for i in range(seconds.shape[1])),
        np.arange(1, seconds.shape[1] + 1) * 100 if chars is None else np.asarray(chars),
        seconds,
        np.full(seconds.shape, np.nan) if std is None else np.asarray(std, dtype=np.float64),
        np.full(seconds.shape, repetitions),
        np.asarray(status, dtype=np.int8),
    )


def stored_problem(name, seconds, *, base=2, added=1, split="train", **options):
    """A problem whose references pass every correctness test."""
    optimization = cells(seconds, **options)
    n = len(optimization.duration_s)
    passed = [cells(np.full((n, count), 0.01)) for count in (base, added)]
    return StoredProblem(name, split, tuple(f"s{i:03d}" for i in range(n)), *passed, optimization)
