"""What limits an engine can keep: beyond these a number is a mistake, and kernel and arithmetic would refuse it."""

import math

from dmc_optim.ces.types import Limits
from dmc_optim.errors import ConfigError

_TIB = 1 << 40
_BOUNDS: dict[str, tuple[float, float]] = {  # least and most, both allowed
    "time_s": (1e-9, 86_400.0),
    "wall_factor": (1.0, 1000.0),
    "memory_bytes": (1, _TIB),
    "output_bytes": (0, 1 << 32),
    "stderr_bytes": (0, 1 << 30),
    "tmp_bytes": (0, _TIB),
    "processes": (1, 1 << 20),
}


def check(limits: Limits) -> None:
    """Raises ConfigError naming the first limit that is out of its bounds or no number."""
    for name, (least, most) in _BOUNDS.items():
        value = getattr(limits, name)
        if not (math.isfinite(value) and least <= value <= most):
            raise ConfigError(f"limit {name} = {value:g} cannot be kept: give {least:g} to {most:g}")
