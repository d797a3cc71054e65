"""The grid of Table 38 as data: 1,582 configurations."""

from itertools import product

from dmc_optim.environments.environment import Environment
from dmc_optim.environments.names import build, parse

LIMITS_S = (0.1, 0.2, 0.5, 1, 2, 5, 10)  # 𝓛
CHARACTERS = tuple(10**k for k in range(2, 9))  # 𝓒
PERCENTS = tuple(range(10, 100, 10))  # 𝓟
TOLERANCES = (0, 0.01, 0.02, 0.05, 0.10, 0.20, 0.50, 0.90)  # 𝓡
FRACTIONS = tuple(k / 10 for k in range(1, 10))  # 𝓖

GRID: dict[str, dict[str, tuple[float | str, ...]]] = {
    "rlvr": {},
    "mc": {},
    "mc_tloc": {},
    "mc_mo": {},
    "abs_filter": {"a": LIMITS_S, "limit": LIMITS_S, "rho": TOLERANCES},
    "charlen_filter": {"chars": CHARACTERS, "limit": LIMITS_S, "rho": TOLERANCES},
    "rel_filter": {"r": PERCENTS, "limit": LIMITS_S, "rho": TOLERANCES},
    "abs_timeout": {"limit": LIMITS_S, "rho": TOLERANCES},
    "rel_timeout": {"p": PERCENTS, "rho": TOLERANCES},
    "ranked_timeout": {"p": PERCENTS, "agg": ("max", "median"), "rho": TOLERANCES},
    "qar": {"p": FRACTIONS},
    "qp": {"p": FRACTIONS},
}

KEEPERS = tuple(  # the four settings the paper carries into its follow-up experiments
    parse(name)
    for name in (
        "abs_filter(a=2,limit=0.5,rho=0.1)",
        "ranked_timeout(p=80,agg=max,rho=0.1)",
        "qar(p=0.5)",
        "qar(p=0.3)",
    )
)


def configurations(*families: str) -> list[Environment]:
    """Every configuration of the named families, of all of them when none is named, in the order of Table 38."""
    return [
        build(family, **dict(zip(GRID[family], values, strict=True)))
        for family in (families or GRID)
        for values in product(*GRID[family].values())
    ]
