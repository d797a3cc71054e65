"""dmc_optim/report."""
