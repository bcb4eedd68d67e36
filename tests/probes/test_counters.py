"""Rates from counters that only grow."""

from chiplog.probes.counters import Rates


def test_rates_need_two_looks_and_time_between():
    """Nothing is divided by zero, and a new counter has no past."""
    rates = Rates()
    assert rates.per_second(1.0, {"a": 5}) == {}
    assert rates.per_second(1.0, {"a": 6}) == {}
    assert rates.per_second(3.0, {"a": 10, "b": 1}) == {"a": 2.0}


def test_a_counter_that_wraps_around_goes_on_and_one_that_was_reset_is_omitted():
    """A 32-bit counter near its end has wrapped; any other decrease is a reset."""
    rates = Rates()
    assert rates.per_second(0.0, {"wrapped": (1 << 32) - 10, "reset": 1000}) == {}
    assert rates.per_second(2.0, {"wrapped": 10, "reset": 5}) == {"wrapped": 10.0}
