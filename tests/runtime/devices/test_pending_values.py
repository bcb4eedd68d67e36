"""Values that are still on a device."""

from __future__ import annotations

import pytest

from chiplog.core.values.media import Histogram
from chiplog.runtime.devices.pending_values import PendingValues


class Array:
    """A small array of JAX's shape, which arrives when the test says so."""

    def __init__(self, value: float) -> None:
        self.value, self.ready, self.deleted = value, False, False

    def is_ready(self) -> bool:
        return self.ready

    def is_deleted(self) -> bool:
        return self.deleted

    def copy_to_host_async(self) -> None:
        pass

    def item(self) -> float:
        return self.value

    def __float__(self) -> float:
        return self.value


def test_rows_are_ready_in_the_order_they_were_logged() -> None:
    """A later row that has arrived waits for an earlier one."""
    values, first, second = PendingValues(), Array(1.0), Array(2.0)
    assert values.holds(first) and not values.holds(3.0)
    values.add(1, {"loss": first})
    values.add(2, {"loss": second})
    second.ready = True
    assert values.ready() == [] and len(values) == 2
    first.ready = True
    assert values.ready() == [(1, {"loss": 1.0}), (2, {"loss": 2.0})] and len(values) == 0


def test_a_deleted_array_is_left_out_and_reported(capsys: pytest.CaptureFixture[str]) -> None:
    """The rest of its row is ready."""
    values, array = PendingValues(), Array(1.0)
    values.add(1, {"donated": object(), "loss": array})
    array.ready = True
    assert values.ready() == [(1, {"loss": 1.0})]
    assert "'donated'" in capsys.readouterr().err


def test_media_on_the_host_do_not_wait() -> None:
    """Only arrays on a device do."""
    assert not PendingValues().holds(Histogram([1.0, 2.0]))
