"""The adaptive option: what a second round of prompts says, after the first round's tests were measured.

Ours, on top of the paper's plain loop, and off by default. A problem whose optimization tests do not spread enough
is asked again with the measured durations in the prompt; a problem with a wrong program that passes everything is
asked again with that program shown. Pure functions: measurements in, parts of a prompt out.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass

from dmc_optim.llm.prompts import Part, build_part, fenced

SHOWN = 16
FAST_S = 0.02  # below this the interpreter's own start-up is as large as the work


@dataclass(frozen=True, slots=True)
class MeasuredInput:
    """One accepted input of the first round. n_chars: of the input; mean_s: over the verified solutions that ran it."""

    method: str
    n_chars: int
    mean_s: float


@dataclass(frozen=True, slots=True)
class Spread:
    """Quartile figures of the mean durations (paper Eq. 6), in seconds; robust_cv None when the median is 0."""

    robust_cv: float | None
    iqr_s: float
    median_s: float


def durations_part(measured: Sequence[MeasuredInput], spread: Spread, wanted_cv: float, wanted_iqr_s: float) -> Part:
    """The measurements for a prompt: at most `SHOWN` inputs from the fastest to the slowest, and what to change.

    wanted_cv: least robust CV; wanted_iqr_s: least interquartile range in seconds.
    """
    ordered = sorted(measured, key=lambda m: (m.mean_s, m.n_chars, m.method))
    step = max(1, -(-len(ordered) // SHOWN))
    shown = [*ordered[::step], *([ordered[-1]] if ordered and (len(ordered) - 1) % step else [])]
    lines = [f"- `{m.method}`, {m.n_chars} characters: {m.mean_s:.4f} s" for m in shown]
    return build_part(
        "durations",
        measurements="\n".join(lines),
        iqr=f"{spread.iqr_s:.4f}",
        median=f"{spread.median_s:.4f}",
        cv="none" if spread.robust_cv is None else f"{spread.robust_cv:.2f}",
        wanted=f"{wanted_cv:g}",
        advice=_advice(ordered, wanted_iqr_s),
    )


def _advice(ordered: Sequence[MeasuredInput], wanted_iqr_s: float) -> str:
    """What the measurements call for."""
    slowest = ordered[-1].mean_s if ordered else 0.0
    if slowest < max(FAST_S, wanted_iqr_s):
        return "Even the slowest input is too small to measure: go to the limits of the constraints."
    fast = sum(m.mean_s < FAST_S for m in ordered)
    if 2 * fast >= len(ordered):
        return (
            "Most inputs are too small to measure: let `edge` return corner cases at the largest sizes too, and draw"
            " `sample` larger than the statement's examples where the constraints allow it."
        )
    return "Most inputs take about the same time: vary their size and structure more."


def survivor_part(code: str) -> Part:
    """The wrong program that passes every test, for a prompt."""
    return build_part("survivor", survivor=fenced(code, "python"))


def shown_survivor(seed: int, problem_id: str, extra: int, survivors: Sequence[str]) -> str:
    """Which survivor the extra attempt number `extra` (from 0) shows: a seeded order, each once before any twice."""
    order = sorted(survivors)
    random.Random(f"{seed}/{problem_id}/survivors").shuffle(order)
    return order[extra % len(order)]
