"""Clocks and devices for tests of performance tracing."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from tests.frontends.tunix.devices import Later, set_clock


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Sets the seconds at which spans of hosts start and end."""
    return partial(set_clock, monkeypatch)


@pytest.fixture
def later() -> Later:
    """Devices whose work ends when a test says so."""
    return Later()
