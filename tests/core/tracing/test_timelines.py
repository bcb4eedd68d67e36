"""How work shares a device."""

from __future__ import annotations

from chiplog.core.tracing.timelines import Device


def test_work_that_overlaps_is_put_in_turn() -> None:
    """a 0-2 and b 1-3: b is at work from 2 on and has waited from 1; the queue holds one wait after another."""
    device = Device("tpu0")
    assert device.place(0, 20) == (0, None)
    assert device.place(10, 30) == (20, (10, 20))
    assert device.place(50, 80) == (50, None)
    assert device.place(60, 90) == (80, (60, 80))
    assert device.place(65, 100) == (90, (80, 90))
    assert device.place(100, 110) == (100, None)


def test_work_that_was_over_before_the_device_was_free_has_no_length() -> None:
    """Both were seen to end at the same moment: it waited all its time, and is still there."""
    device = Device("tpu0")
    device.place(0, 50)
    assert device.place(10, 50) == (50, (10, 50))
    assert device.place(20, 40) == (40, None)
