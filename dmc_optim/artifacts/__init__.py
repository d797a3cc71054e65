"""dmc_optim/artifacts."""
