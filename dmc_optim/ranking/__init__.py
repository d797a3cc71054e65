"""Ranking of measured durations against reference solutions (paper Appendix D.2 and D.3)."""

from dmc_optim.ranking.leaderboard import Ranking, Rankings, rank, rank_many
from dmc_optim.ranking.pool import Pool
from dmc_optim.ranking.references import CAP_S, TOLERANCE, References
from dmc_optim.ranking.strong import StrongReferences

__all__ = [
    "CAP_S",
    "TOLERANCE",
    "Pool",
    "Ranking",
    "Rankings",
    "References",
    "StrongReferences",
    "rank",
    "rank_many",
]
