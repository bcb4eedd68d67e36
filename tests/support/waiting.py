"""Waiting for something to become true, instead of sleeping."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def wait_for(condition: Callable[[], T], timeout: float = 10, what: str = "") -> T:
    """The first true value of a condition; fails after `timeout` seconds."""
    deadline = time.monotonic() + timeout
    while not (value := condition()):
        assert time.monotonic() < deadline, f"not true within {timeout} s{': ' + what if what else ''}"
        time.sleep(0.01)
    return value
