"""The affine calibrations of the paper's sensitivity studies, as linear families (C.9, C.10, Table 34)."""

from dataclasses import dataclass

import numpy as np

from dmc_optim.errors import InvalidInputError


@dataclass(frozen=True)
class Affine:
    """d ↦ α·d + β: alpha without unit, beta_s in seconds."""

    alpha: float
    beta_s: float


PAPER_CAMPAIGN_1 = Affine(0.6306, 0.0529)  # Eq. 8
PAPER_CAMPAIGN_2 = Affine(0.6243, 0.038)  # Table 33

REWARD_ENDS = (Affine(0.594939, 0.054482), Affine(0.719699, 0.048993))  # ab1, ab8
SCORE_ENDS = (Affine(0.701876, 0.049777), Affine(0.606033, 0.038306))  # s0, s9
ALPHA_SWEEP = (0.7019, 0.5692)  # Figure 34, β fixed
BETA_SWEEP_S = (0.0498, 0.0344)  # Figure 34, α fixed


def linear_family(first: Affine, last: Affine, count: int) -> tuple[Affine, ...]:
    """`count` calibrations equally spaced from `first` to `last`, both included.

    Raises InvalidInputError for fewer than two.
    """
    if count < 2:
        raise InvalidInputError(f"a linear family needs at least 2 members, got {count}")
    alphas = np.linspace(first.alpha, last.alpha, count)
    betas = np.linspace(first.beta_s, last.beta_s, count)
    return tuple(Affine(float(alpha), float(beta)) for alpha, beta in zip(alphas, betas, strict=True))


def reward_calibrations() -> dict[str, Affine]:
    """ab1 … ab8: the corrections that the reward of a training run may use (Table 34)."""
    return {f"ab{i}": point for i, point in enumerate(linear_family(*REWARD_ENDS, 8), start=1)}


def score_calibrations() -> dict[str, Affine]:
    """s0 … s9: the corrections under which finished runs are scored (Table 34)."""
    return {f"s{i}": point for i, point in enumerate(linear_family(*SCORE_ENDS, 10))}


def named_calibration(name: str) -> Affine:
    """`ab1`…`ab8`, `s0`…`s9`, or `ALPHA,BETA` in plain numbers, as a calibration.

    Raises InvalidInputError for anything else.
    """
    named = {**reward_calibrations(), **score_calibrations()}
    if name in named:
        return named[name]
    try:
        alpha, beta = (float(part) for part in name.split(","))
    except ValueError:
        raise InvalidInputError(
            f"{name!r} is no calibration: use ab1…ab8, s0…s9 or ALPHA,BETA (for example 0.6306,0.0529)"
        ) from None
    return Affine(alpha, beta)


def relative_sweeps(centre: Affine, count: int = 8) -> dict[str, tuple[Affine, ...]]:
    """Figure 34's two sweeps around any fit: β alone and α alone, shrunk by the paper's relative amounts.

    The paper moves β by 31% and α by 19% from its starting point; `centre` is the lenient end of both.
    """
    alpha_share = ALPHA_SWEEP[1] / ALPHA_SWEEP[0]
    beta_share = BETA_SWEEP_S[1] / BETA_SWEEP_S[0]
    return {
        "beta": linear_family(centre, Affine(centre.alpha, centre.beta_s * beta_share), count),
        "alpha": linear_family(centre, Affine(centre.alpha * alpha_share, centre.beta_s), count),
    }
