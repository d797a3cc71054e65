"""dmc_optim/ces."""
