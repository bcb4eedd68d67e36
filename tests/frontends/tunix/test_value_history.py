"""The values of one metric."""

from __future__ import annotations

import math

import numpy as np
import pytest

from chiplog.frontends.tunix.value_history import ValueHistory


def test_a_history_has_its_means() -> None:
    """A1, A2: the arithmetic one, and the geometric one of perplexities."""
    history = ValueHistory(lambda _: False)
    for value in (10, np.float32(1000)):
        history.append(value)
    assert history.mean() == 505.0 and history.geometric_mean() == pytest.approx(100)
    history.append(0.0)
    assert history.values().tolist() == [10.0, 1000.0, 0.0] and history.geometric_mean() == 0.0


def test_a_mean_costs_only_what_is_new() -> None:
    """Asking after every value of a long run is cheap."""
    history = ValueHistory(lambda _: False)
    for number in range(20_000):
        history.append(float(number))
        assert history.mean() == number / 2


def test_a_history_waits_for_a_device_only_when_asked() -> None:
    """And then has the value in its place."""
    away = [True]
    history = ValueHistory(lambda value: away[0] and isinstance(value, np.ndarray))
    history.append(np.array(2.0))
    history.append(1.0)
    assert len(history) == 2
    assert history.values().tolist() == [2.0, 1.0]


def test_what_is_no_number_is_no_history() -> None:
    """It is said, and nothing is appended."""
    history = ValueHistory(lambda _: False)
    with pytest.raises(TypeError, match="is not a number"):
        history.append("a")
    assert len(history) == 0 and math.isnan(history.mean())
