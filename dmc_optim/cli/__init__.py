"""dmc_optim/cli."""
