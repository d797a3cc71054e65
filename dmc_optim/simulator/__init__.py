"""Offline simulator: what an environment would reward as samples get better, from stored durations (paper E)."""

from dmc_optim.simulator.curves import Diagnostics, DiagnosticsTable, diagnose, diagnostics

__all__ = ["Diagnostics", "DiagnosticsTable", "diagnose", "diagnostics"]
