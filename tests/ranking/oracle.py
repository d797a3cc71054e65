"""Ranking recomputed from the definitions: loops over cells and exact fractions, no NumPy, nothing of the library.

A missing duration is None. Percentiles are Fractions; a table is a list of rows (one a reference).
"""

from fractions import Fraction
from math import isinf, isnan

CAP = Fraction(10)


def exact(value):
    """A float as the Fraction it is; None for NaN."""
    return None if value is None or isnan(value) else Fraction(value)


def sanitise(value, calibration=None):
    """Eq. 10 on one cell."""
    if value is None or isnan(value):
        return None
    psi = CAP if isinf(value) or value <= 0 else Fraction(value)
    if calibration is not None:
        psi = Fraction(calibration[0]) * psi + Fraction(calibration[1])
    return min(CAP, max(Fraction(0), psi))


def table(durations, calibration=None):
    return [[sanitise(float(cell), calibration) for cell in row] for row in durations]


def column(rows, t):
    """D_t."""
    return [row[t] for row in rows if row[t] is not None]


def percentile(value, others):
    """Reward path: exact ties have the percentile of the previous participant."""
    return Fraction(sum(other < value for other in others), len(others))


def tied_percentile(value, others):
    """Eq. 27, from 0 to 100: average tied rank in the sorted list with the value in it."""
    everyone = sorted([*others, value])
    ranks = [i + 1 for i, other in enumerate(everyone) if other == value]
    average = Fraction(sum(ranks), len(ranks))
    return 100 * (average - 1) / (len(everyone) - 1)


def mean(values):
    values = list(values)
    return sum(values, Fraction(0)) / len(values) if values else None


def median(values):
    values = sorted(values)
    if not values:
        return None
    middle = len(values) // 2
    return values[middle] if len(values) % 2 else (values[middle - 1] + values[middle]) / 2


def leaderboard(delta, rows, used):
    """p (list over all tests), a(y), q_QP, N_rank with the candidate inserted; None where nothing is ranked."""
    n_tests = len(delta)
    p = [percentile(delta[t], column(rows, t)) if column(rows, t) else None for t in range(n_tests)]
    a = mean(p[t] for t in used if p[t] is not None)
    scores = []
    for h, row in enumerate(rows):
        own = []
        for t in used:
            if row[t] is None:
                continue
            others = [r[t] for i, r in enumerate(rows) if i != h and r[t] is not None] + [delta[t]]
            own.append(percentile(row[t], others))
        if own:
            scores.append(mean(own))
    n_rank = len(scores) + 1
    if a is None:
        return p, None, None, n_rank
    return p, a, Fraction(sum(score < a for score in scores), max(1, n_rank - 1)), n_rank


def quantile(values, percent):
    """Linear interpolation between order statistics."""
    values = sorted(values)
    place = Fraction(str(percent)) / 100 * (len(values) - 1)
    low = int(place)
    high = min(low + 1, len(values) - 1)
    return values[low] + (values[high] - values[low]) * (place - low)


def best_references(rows, used, percent):
    """H_p: rows of the best p% by average per-test rank, ties by row."""
    averages = []
    for h, row in enumerate(rows):
        ranks = [1 + sum(other < row[t] for other in column(rows, t)) for t in used if row[t] is not None]
        if ranks:
            averages.append((mean(Fraction(rank) for rank in ranks), h))
    averages.sort()
    share = Fraction(str(percent)) / 100 * len(averages)
    size = max(1, -int(-share // 1)) if averages else 0
    return [h for _, h in averages[:size]]
