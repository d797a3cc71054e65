"""dmc_optim."""
