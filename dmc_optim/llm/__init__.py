"""dmc_optim/llm."""
