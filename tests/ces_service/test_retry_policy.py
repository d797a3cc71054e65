"""How the client tries again: addresses, choice of endpoint, back-off, patience."""

import random

import pytest

from dmc_optim.ces.client import RetryPolicy
from dmc_optim.ces.client.policy import Troubles
from dmc_optim.ces.client.pool import EndpointPool, NoEndpointError, parse_urls
from dmc_optim.errors import ConfigError
from tests.ces_service.conftest import QUICK


@pytest.mark.parametrize("url", ["", "ftp://a", "localhost:80", "http://", "http://a:b", "http://u:p@a", "dns+a:80"])
def test_addresses_that_are_none(url: str) -> None:
    with pytest.raises(ConfigError) as wrong:
        parse_urls(url)
    assert "http://host:port" in str(wrong.value) and "\n" not in str(wrong.value)


class _Never:
    called = False


def test_the_pool_takes_the_least_loaded_and_leaves_out_the_ejected() -> None:
    now = [0.0]
    pool = EndpointPool("http://a,http://b,http://c", QUICK, lambda: now[0], random.Random(0))
    a, b, c = pool.endpoints
    a.slots, b.slots, c.slots = 2, 2, 4
    with pool.lease(1.0, None, None, _Never()) as first, pool.lease(1.0, None, None, _Never()) as second:
        assert first is not second
        pool.failed(a)
        pool.failed(b)
        with pool.lease(1.0, None, None, _Never()) as third:
            assert third is c
        pool.refused(c, 5.0)
        with pytest.raises(NoEndpointError), pool.lease(0.0, None, None, _Never()):
            pass
        now[0] = 0.5  # a's pause is over: one thread tries whether it is back, no other joins it
        with pool.lease(0.6, None, b, _Never()) as fourth:
            assert fourth is a
            pool.succeeded(a)
            assert a.free_at == 0.0
    assert [endpoint.in_flight for endpoint in (a, b, c)] == [0, 0, 0]


def test_back_off_doubles_and_is_capped() -> None:
    policy = RetryPolicy(base_s=0.1, cap_s=2.0)
    for faults, whole in [(1, 0.1), (2, 0.2), (4, 0.8), (6, 2.0), (5000, 2.0)]:
        waits = [policy.backoff_s(faults, random.Random(seed)) for seed in range(50)]
        assert whole / 2 <= min(waits) < max(waits) <= whole


def test_troubles_are_over_with_progress() -> None:
    now = [0.0]
    troubles = Troubles(RetryPolicy(attempts=3, faulty_s=10.0, busy_s=100.0), lambda: now[0])
    troubles.fault("a")
    troubles.fault("b")
    assert not troubles.hopeless
    now[0] = 10.0
    assert troubles.hopeless
    troubles.progress()
    assert not troubles.hopeless and (troubles.in_a_row, troubles.total) == (0, 2)
    now[0] = 100.0
    troubles.busy("full")
    assert not troubles.hopeless
    now[0] = 110.0
    assert troubles.hopeless and "full" in troubles.account()
