"""Evaluation of generated solutions (paper Sections 4-6)."""

from dmc_optim.evaluate.passk import pass_at_k

__all__ = ["pass_at_k"]
