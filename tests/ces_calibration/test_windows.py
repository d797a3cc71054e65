"""Rates a window, bursts as Table 29 lists them, and what a metrics endpoint gets."""

import threading

import pytest

from dmc_optim.ces.health.windows import (
    Burst,
    Execution,
    HealthMonitor,
    Window,
    count_windows,
    find_bursts,
    health_gauges,
)
from dmc_optim.errors import InvalidInputError
from schemas.enums import Status


def window(key, service_only, n=1000, fallback=0, timeout=0):
    return Window(key, n, service_only, fallback=fallback, timeout=timeout)


def test_each_kind_is_counted_and_kinds_overlap():
    rows = [
        Execution(Status.SUCCESS),
        Execution(Status.WRONG_ANSWER),
        Execution(Status.TIMEOUT),
        Execution(Status.INFRASTRUCTURE),
        Execution(Status.INFRASTRUCTURE, fell_back=True, timed_out=True),
        Execution(None, fell_back=True),
        Execution(None),
        Execution(Status.SUCCESS, fell_back=True),
    ]
    (counted,) = count_windows((3, row) for row in rows)
    assert counted == Window(3, 8, service_only=3, fallback=3, infrastructure=2, unknown=2, timeout=2)
    assert counted.rates["service_only"] == pytest.approx(3 / 8)


def test_windows_come_in_order_and_empty_ones_have_no_rate():
    ok = Execution(Status.SUCCESS)
    assert [w.key for w in count_windows([(5, ok), (2, ok), (5, ok)])] == [2, 5]
    assert set(Window(0).rates.values()) == {None}


def test_the_papers_worst_burst():
    # CWM 32B p30 run 2: 8 records from step 9,240, service-only down to 54.3%, fallback to 41.6%, time-outs to 14.1%.
    steady = [window(k, 981) for k in range(9200, 9240, 10)]
    low = [897, 700, 543, 600, 700, 800, 850, 899]
    burst = [
        window(9240 + 10 * i, v, fallback=416 if v == 543 else 100, timeout=141 if i == 2 else 20)
        for i, v in enumerate(low)
    ]
    after = [window(k, 975) for k in range(9320, 9340, 10)]
    assert find_bursts([*steady, *burst, *after]) == [Burst(9240, 9310, 8, 8000, 0.543, 0.416, 0.141)]


def test_ninety_percent_itself_is_no_burst():
    assert find_bursts([window(0, 900)]) == []
    assert find_bursts([window(0, 899)])[0].windows == 1
    assert find_bursts([window(0, 9, n=10)]) == []


def test_bursts_are_maximal_and_may_touch_the_ends():
    bursts = find_bursts([window(0, 10), window(1, 999), window(2, 20), window(3, 30)])
    assert [(b.first_key, b.last_key, b.windows) for b in bursts] == [(0, 0, 1), (2, 3, 2)]


def test_thin_windows_say_nothing():
    series = [window(0, 500), Window(1, 2, 2), window(2, 400)]
    assert [b.windows for b in find_bursts(series, min_executions=10)] == [2]
    assert find_bursts([Window(0)]) == []


def test_bad_arguments_are_refused():
    with pytest.raises(InvalidInputError):
        find_bursts([], threshold=1.5)
    with pytest.raises(InvalidInputError, match="ascending"):
        find_bursts([window(1, 1), window(0, 1)])
    with pytest.raises(InvalidInputError):
        HealthMonitor(lambda: 0.0, width_s=0)


class Clock:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


def test_the_monitor_fills_windows_by_its_clock_and_forgets_old_ones():
    clock = Clock()
    monitor = HealthMonitor(clock, width_s=10, keep=3)
    for now in (1, 2, 11, 25, 39, 41):
        clock.now = now
        monitor.record(Execution(Status.SUCCESS))
    assert [(w.key, w.n) for w in monitor.windows()] == [(2, 1), (3, 1), (4, 1)]


def test_gauges_are_those_of_the_last_window_that_is_over():
    clock = Clock()
    monitor = HealthMonitor(clock, width_s=10)
    for status in (Status.SUCCESS, None, Status.INFRASTRUCTURE, Status.TIMEOUT):
        monitor.record(Execution(status))
    assert monitor.gauges() == {"bursts": 0.0, "in_burst": 0.0}  # its window is still open
    clock.now = 12
    gauges = monitor.gauges()
    assert gauges["service_only_rate"] == 0.5
    assert gauges["unknown_rate"] == gauges["infrastructure_rate"] == gauges["timeout_rate"] == 0.25
    assert (gauges["window_executions"], gauges["in_burst"], gauges["bursts"]) == (4, 1, 1)
    clock.now = 55  # long after: nothing was seen, and that is not a rate of zero
    assert monitor.gauges() == {"bursts": 1.0, "in_burst": 0.0}


def test_gauges_of_nothing():
    assert health_gauges([]) == {"bursts": 0.0, "in_burst": 0.0}


def test_the_monitor_loses_no_count_between_threads():
    monitor = HealthMonitor(lambda: 0.0)
    work = [threading.Thread(target=lambda: [monitor.record(Execution(None)) for _ in range(500)]) for _ in range(4)]
    for thread in work:
        thread.start()
    for thread in work:
        thread.join()
    assert monitor.windows() == [Window(0, 2000, unknown=2000)]
