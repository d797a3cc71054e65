"""What each published configuration is for, in one line."""

DESCRIPTIONS = {
    "rl_pool": "duration-filterable problems, for optimization RL; correct solutions only",
    "rl_pool_mixed": "ablation: filterable and other problems at the corpus ratio, of the train split's size",
    "rl_pool_complement": "ablation: problems that are not duration filterable, of the train split's size",
    "cleaned": "every problem with both generated suites; incorrect solutions too",
    "lightweight": "one correct and one incorrect solution a problem, no optimization tests",
}
