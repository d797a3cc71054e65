"""RL environments for code optimization (paper Section 4, Appendix D.2).

>>> from dmc_optim.environments import parse
>>> str(parse("qar(p=0.3)"))
'qar(p=0.3)'
"""

from dmc_optim.environments.environment import Environment, Grid
from dmc_optim.environments.names import FAMILIES, build, compose, parse
from dmc_optim.environments.records import Problem, Rollout, Rollouts, Signals
from dmc_optim.environments.table38 import GRID, KEEPERS, configurations

__all__ = [
    "FAMILIES",
    "GRID",
    "KEEPERS",
    "Environment",
    "Grid",
    "Problem",
    "Rollout",
    "Rollouts",
    "Signals",
    "build",
    "compose",
    "configurations",
    "parse",
]
