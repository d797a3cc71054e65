"""Rewards: how the signals of an environment become one number in [-1, 1] (paper D.4, D.5)."""

from dmc_optim.rewards.compositions import COMPOSITIONS, Multitask, Reward, all_rewards, multitask, parse
from dmc_optim.rewards.maps import BINARY, MAPS
from dmc_optim.rewards.raw_seconds import mean_duration, naive

__all__ = [
    "BINARY",
    "COMPOSITIONS",
    "MAPS",
    "Multitask",
    "Reward",
    "all_rewards",
    "mean_duration",
    "multitask",
    "naive",
    "parse",
]
