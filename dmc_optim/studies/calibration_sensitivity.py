"""How far scores move when the calibration, or the durations, are a little wrong (paper C.9, C.10, C.12).

Candidates are references of the campaign, each against the others, with their own fresh durations; only the corrected
stored durations of the board, or the noise on the candidate, change. On a right calibration about τ% of references lie
at or under the leaderboard percentile τ, by construction.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dmc_optim.ces.calibration.fit import Array
from dmc_optim.ces.calibration.grid import Affine, relative_sweeps, reward_calibrations, score_calibrations
from dmc_optim.ces.calibration.runs import ProblemRuns
from dmc_optim.ces.replay import Noise, inject_noise
from dmc_optim.ranking import References, rank_many
from dmc_optim.studies.report import Column, Table

Row = dict[str, Any]

MAX_CANDIDATES = 40  # references a problem contributes
NOISES = (
    Noise(uniform_s=(0.005, 0.005)),
    Noise(uniform_s=(0.05, 0.05)),
    Noise(additive_s=0.005),
    Noise(additive_s=0.05),
    Noise(multiplicative=0.05),
    Noise(multiplicative=0.2),
    Noise(additive_s=0.005, short_boost=4.0),
)


@dataclass(frozen=True, eq=False)
class Board:
    """One problem: candidates' mean fresh durations (K, T) seconds, stored references (H, T), and who is who."""

    candidates: Array
    stored: Array
    rows: list[int]


def boards(problems: Sequence[ProblemRuns], seed: int = 0) -> list[Board]:
    """Usable triples of each problem, with a seeded choice of its references as candidates."""
    result = []
    for problem in problems:
        if not problem.usable.any():
            continue
        n = len(problem.solution_ids)
        rng = np.random.default_rng([seed, 2, *problem.problem_id.encode()])
        rows = sorted(int(row) for row in rng.choice(n, size=min(n, MAX_CANDIDATES), replace=False))
        mean = np.where(problem.usable, problem.mean, np.nan).T
        stored = np.where(problem.usable, problem.stored, np.nan).T
        result.append(Board(mean[rows], stored, rows))
    return result


def leaderboard_percentiles(board: Board, calibration: Affine, candidates: Array | None = None) -> Array:
    """(K,) leaderboard percentile in [0, 1] of each candidate among the other, corrected references; NaN unranked."""
    delta = board.candidates if candidates is None else candidates
    references = References(board.stored, (calibration.alpha, calibration.beta_s))
    weights = np.isfinite(delta).astype(float)
    return np.asarray(rank_many(delta, references, weights=weights, exclude=board.rows).qp)


def shares(percentiles: Sequence[Array]) -> dict[str, float]:
    """Share of candidates at or under p50, p20 and p10, mean over problems."""
    known = [values[np.isfinite(values)] for values in percentiles]
    known = [values for values in known if values.size]
    if not known:
        return {}
    return {f"p{tau}": float(np.mean([np.mean(v <= tau / 100) for v in known])) for tau in (50, 20, 10)}


def calibration_sweep(prepared: Sequence[Board], fit: Affine, count: int = 8) -> Table:
    """β alone and α alone, moved from the fit by Figure 34's relative amounts, and the grids of Table 34."""
    rows = []
    for axis, points in relative_sweeps(fit, count).items():
        for step, point in enumerate(points):
            rows.append(_sweep_row(prepared, f"{axis} −{_moved(axis, fit, point):.0%}", point, axis, step))
    for family in (reward_calibrations(), score_calibrations()):
        rows += [_sweep_row(prepared, name, point, "paper", 0) for name, point in family.items()]
    columns = (
        Column("name", "Calibration"),
        Column("alpha", "α", ".6f"),
        Column("beta_s", "β (s)", ".6f"),
        Column("p50", "At or under p50", ".1%"),
        Column("p20", "p20", ".1%"),
        Column("p10", "p10", ".1%"),
    )
    return Table("sensitivity", "References as candidates under other calibrations (C.9, C.10)", columns, rows)


def noise_sweep(prepared: Sequence[Board], fit: Affine, seed: int = 0) -> Table:
    """Known noise on the candidates' durations: how far percentiles move, and how many decisions flip (C.12)."""
    clean = [leaderboard_percentiles(board, fit) for board in prepared]
    rows = []
    for index, noise in enumerate(NOISES):
        moved = [
            leaderboard_percentiles(board, fit, inject_noise(board.candidates, noise, seed + 1000 * index + i))
            for i, board in enumerate(prepared)
        ]
        before, after = np.concatenate(clean), np.concatenate(moved)
        both = np.isfinite(before) & np.isfinite(after)
        before, after = before[both], after[both]
        flips = {f"flips_p{tau}": _flipped(before, after, tau / 100) for tau in (50, 20, 10)}
        shift = float(np.mean(100 * (after - before))) if before.size else None
        size = float(np.mean(100 * np.abs(after - before))) if before.size else None
        rows.append({"noise": _noise_name(noise), "shift": shift, "size": size, **flips})
    columns = (
        Column("noise", "Added to every duration"),
        Column("shift", "Mean shift (points)", "+.2f"),
        Column("size", "Mean size (points)", ".2f"),
        Column("flips_p50", "Decisions flipped at p50", ".1%"),
        Column("flips_p20", "p20", ".1%"),
        Column("flips_p10", "p10", ".1%"),
    )
    return Table("injected_noise", "Known noise on candidates' durations (C.12)", columns, rows)


def _sweep_row(prepared: Sequence[Board], name: str, point: Affine, axis: str, step: int) -> Row:
    values = shares([leaderboard_percentiles(board, point) for board in prepared])
    return {"name": name, "axis": axis, "step": step, "alpha": point.alpha, "beta_s": point.beta_s, **values}


def _moved(axis: str, fit: Affine, point: Affine) -> float:
    start, now = (fit.beta_s, point.beta_s) if axis == "beta" else (fit.alpha, point.alpha)
    return 1.0 - now / start if start else 0.0


def _flipped(before: Array, after: Array, threshold: float) -> float | None:
    return float(np.mean((before <= threshold) != (after <= threshold))) if before.size else None


def _noise_name(noise: Noise) -> str:
    parts = []
    if noise.uniform_s != (0.0, 0.0):
        parts.append(f"{1000 * noise.uniform_s[0]:g} ms")
    if noise.additive_s:
        parts.append(f"N(0, {1000 * noise.additive_s:g} ms)")
    if noise.multiplicative:
        parts.append(f"× (1 + N(0, {noise.multiplicative:g}))")
    if noise.short_boost:
        parts.append(f"up to × {1 + noise.short_boost:g} on short tests")
    return ", ".join(parts)
