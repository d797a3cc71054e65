"""Ranking of measured durations against reference solutions (paper Appendix D.2 and D.3)."""

from dmc_optim.ranking.leaderboard import Ranking, Rankings, rank, rank_many
from dmc_optim.ranking.metrics import METRICS, Metric, all_metrics, percentiles
from dmc_optim.ranking.noise import (
    NOISE_AWARE_METRICS,
    SuiteNoise,
    noise_aware_metrics,
    noise_aware_rank,
    suite_noise,
)
from dmc_optim.ranking.pool import Pool
from dmc_optim.ranking.references import CAP_S, TOLERANCE, References
from dmc_optim.ranking.strong import StrongReferences
from dmc_optim.ranking.synthetic import SyntheticPool, synthetic_pool

__all__ = [
    "CAP_S",
    "METRICS",
    "NOISE_AWARE_METRICS",
    "TOLERANCE",
    "Metric",
    "Pool",
    "Ranking",
    "Rankings",
    "References",
    "StrongReferences",
    "SuiteNoise",
    "SyntheticPool",
    "all_metrics",
    "noise_aware_metrics",
    "noise_aware_rank",
    "percentiles",
    "rank",
    "rank_many",
    "suite_noise",
    "synthetic_pool",
]
