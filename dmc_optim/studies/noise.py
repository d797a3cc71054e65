"""Timing-noise study: when can a noisy measurement tell the faster of two programs? (paper Appendix A, Figures 11–13)

    d_obs = d_true · (1 + ε_mult) + ε_add                                        (Eq. 1)
    d_A = b · (1 + Δ/2 + η_A),   d_B = b · (1 − Δ/2 + η_B),   b ~ LogNormal      (Eq. 5)

B is the faster program. A timeout metric credits the program all of whose observed durations stay within τ; a win rate
counts the tests on which one program was observed strictly faster. A trial that a metric leaves undecided scores ½.
Noise is Gaussian (ours), and observed durations are not clipped at zero: only their order is used.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from dmc_optim.errors import InvalidInputError

Floats = NDArray[np.float64]

_BLOCK_CELLS = 1 << 19  # trials are drawn in blocks of about this many durations, whatever their number


class NoiseKind(StrEnum):
    """Which term of Eq. 1 is active."""

    ADDITIVE = "additive"
    MULTIPLICATIVE = "multiplicative"


@dataclass(frozen=True)
class Regime:
    """A family of problems. b ~ LogNormal(log_mean, log_std) seconds, n_tests tests a problem."""

    name: str
    log_mean: float
    log_std: float
    n_tests: int


LCB_LIKE = Regime("LCB-like", -2.3, 0.5, 35)
DMC_OPTIM_LIKE = Regime("DMC-Optim-like", 1.0, 0.5, 122)


@dataclass(frozen=True)
class NoiseStudyConfig:
    """What is swept. Defaults are the paper's Appendix A where it states them; the sweeps' points are ours."""

    trials: int = 20_000
    seed: int = 0
    gap: float = 0.2  # Δ, Eq. 5
    variability: float = 0.15  # standard deviation of η, Eq. 5
    additive_s: float = 0.1  # ε_add of Figures 11 and 12, seconds
    multiplicative: float = 0.1  # ε_mult of Figures 11 and 12
    regimes: tuple[Regime, ...] = (LCB_LIKE, DMC_OPTIM_LIKE)
    thresholds: tuple[float, ...] = tuple(np.geomspace(0.5, 20, 41).tolist())  # τ over the median base duration
    test_counts: tuple[int, ...] = (1, 2, 5, 10, 20, 35, 50, 80, 122, 200, 300)
    additive_sweep_s: tuple[float, ...] = (0.0, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0)
    multiplicative_sweep: tuple[float, ...] = (0.0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5)

    def __post_init__(self) -> None:
        if self.trials < 1:
            raise InvalidInputError(f"the study needs one trial a point or more, got {self.trials}")
        if self.seed < 0:
            raise InvalidInputError(f"a seed is 0 or positive, got {self.seed}")


@dataclass(frozen=True)
class NoisePoint:
    """Accuracy of both metrics at one setting. threshold_s: τ, None for the oracle's own τ in each trial."""

    figure: int
    regime: str
    noise: str
    sigma: float
    n_tests: int
    threshold_s: float | None
    trials: int
    timeout_accuracy: float
    win_rate_accuracy: float


@dataclass(frozen=True)
class Trials:
    """One block of trials, all in seconds: true and observed durations (R, N) of A (slower) and B (faster)."""

    true_a: Floats
    true_b: Floats
    observed_a: Floats
    observed_b: Floats


def draw_trials(
    rng: np.random.Generator,
    regime: Regime,
    n_trials: int,
    n_tests: int,
    noise: tuple[NoiseKind, float],
    config: NoiseStudyConfig,
) -> Trials:
    """Fresh problems, gap factors and noise for each trial (Eq. 5, then Eq. 1)."""
    kind, sigma = noise
    shape = (n_trials, n_tests)
    base = rng.lognormal(regime.log_mean, regime.log_std, shape)
    true_a = base * (1 + config.gap / 2 + config.variability * rng.standard_normal(shape))
    true_b = base * (1 - config.gap / 2 + config.variability * rng.standard_normal(shape))
    return Trials(true_a, true_b, observe(rng, true_a, kind, sigma), observe(rng, true_b, kind, sigma))


def observe(rng: np.random.Generator, true_s: Floats, kind: NoiseKind, sigma: float) -> Floats:
    """Eq. 1 with one active term. sigma: seconds when additive, a share of the duration when multiplicative."""
    noise = sigma * rng.standard_normal(true_s.shape)
    return true_s + noise if kind is NoiseKind.ADDITIVE else true_s * (1 + noise)


def oracle_thresholds(trials: Trials) -> Floats:
    """The τ (R,) midway between the true maxima: a threshold nobody could know (ours, per trial)."""
    return (trials.true_a.max(axis=1) + trials.true_b.max(axis=1)) / 2


def timeout_scores(trials: Trials, threshold_s: Floats | float) -> Floats:
    """1 where only B passes, 0 where only A passes, else ½ (Eq. 3). threshold_s: τ, broadcast against (R,)."""
    a_passes = trials.observed_a.max(axis=1) <= threshold_s
    b_passes = trials.observed_b.max(axis=1) <= threshold_s
    return (1.0 + b_passes - a_passes) / 2


def win_rate_scores(trials: Trials) -> Floats:
    """1 where B is strictly faster on more tests than A, 0 where on fewer, ½ on equally many (Eq. 4). (R,)."""
    b_wins = (trials.observed_b < trials.observed_a).sum(axis=1)
    a_wins = (trials.observed_a < trials.observed_b).sum(axis=1)
    return (1.0 + np.sign(b_wins - a_wins)) / 2


def run_noise_study(config: NoiseStudyConfig, on_point: Callable[[str], None] = lambda _: None) -> list[NoisePoint]:
    """All points of Figures 11, 12 and 13.

    Each setting (regime, kind and strength of noise, number of tests) has a seeded stream of its own: no point depends
    on another, and a setting that two figures share has one value. on_point is told of each finished sweep.
    """
    points: list[NoisePoint] = []
    for figure, sweep in ((11, _threshold_sweep), (12, _test_count_sweep), (13, _noise_sweep)):
        for regime in config.regimes:
            for kind in NoiseKind:
                points += sweep(config, regime, kind)
                on_point(f"Figure {figure}, {regime.name}, {kind}")
    return points


def _sigma(config: NoiseStudyConfig, kind: NoiseKind) -> float:
    return config.additive_s if kind is NoiseKind.ADDITIVE else config.multiplicative


def _threshold_sweep(config: NoiseStudyConfig, regime: Regime, kind: NoiseKind) -> Iterator[NoisePoint]:
    sigma = _sigma(config, kind)
    thresholds = [float(share * np.exp(regime.log_mean)) for share in config.thresholds]
    scores = _accuracies(config, regime, regime.n_tests, (kind, sigma), thresholds)
    for threshold, timeout in zip(thresholds, scores.timeouts, strict=True):
        yield _point(11, config, regime, (kind, sigma), regime.n_tests, threshold, timeout, scores.win_rate)


def _test_count_sweep(config: NoiseStudyConfig, regime: Regime, kind: NoiseKind) -> Iterator[NoisePoint]:
    sigma = _sigma(config, kind)
    for n_tests in config.test_counts:
        scores = _accuracies(config, regime, n_tests, (kind, sigma), None)
        yield _point(12, config, regime, (kind, sigma), n_tests, None, scores.timeouts[0], scores.win_rate)


def _noise_sweep(config: NoiseStudyConfig, regime: Regime, kind: NoiseKind) -> Iterator[NoisePoint]:
    sweep = config.additive_sweep_s if kind is NoiseKind.ADDITIVE else config.multiplicative_sweep
    for sigma in sweep:
        scores = _accuracies(config, regime, regime.n_tests, (kind, sigma), None)
        yield _point(13, config, regime, (kind, sigma), regime.n_tests, None, scores.timeouts[0], scores.win_rate)


@dataclass(frozen=True)
class _Accuracies:
    timeouts: list[float]  # one a threshold, or the oracle's alone
    win_rate: float


def _accuracies(
    config: NoiseStudyConfig,
    regime: Regime,
    n_tests: int,
    noise: tuple[NoiseKind, float],
    thresholds: list[float] | None,
) -> _Accuracies:
    """Mean scores over `config.trials` trials. thresholds: None for the oracle."""
    kind, sigma = noise
    setting = f"{regime.name}/{regime.log_mean}/{regime.log_std}/{kind}/{sigma}/{n_tests}"
    rng = np.random.default_rng([config.seed, *setting.encode()])
    block = max(1, _BLOCK_CELLS // n_tests)
    timeouts, wins = np.zeros(1 if thresholds is None else len(thresholds)), 0.0
    for start in range(0, config.trials, block):
        trials = draw_trials(rng, regime, min(block, config.trials - start), n_tests, noise, config)
        taus = [oracle_thresholds(trials)] if thresholds is None else thresholds
        timeouts += [float(timeout_scores(trials, tau).sum()) for tau in taus]
        wins += float(win_rate_scores(trials).sum())
    return _Accuracies((timeouts / config.trials).tolist(), wins / config.trials)


def _point(
    figure: int,
    config: NoiseStudyConfig,
    regime: Regime,
    noise: tuple[NoiseKind, float],
    n_tests: int,
    threshold_s: float | None,
    timeout: float,
    win_rate: float,
) -> NoisePoint:
    kind, sigma = noise
    return NoisePoint(figure, regime.name, kind.value, sigma, n_tests, threshold_s, config.trials, timeout, win_rate)
