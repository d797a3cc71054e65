"""The client of the execution service: an `Executor` over HTTP.

policy      how often, how long and when it tries again
pool        endpoints: which is free, busy or ejected
contents    what travels inline, what is uploaded once
exchange    one call to one endpoint, and what can go wrong with it
client      requests to results, across endpoints and faults
"""

from dmc_optim.ces.client.client import Client
from dmc_optim.ces.client.policy import RetryPolicy

__all__ = ["Client", "RetryPolicy"]
