"""dmc_optim/studies."""
