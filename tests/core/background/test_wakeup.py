"""What background threads sleep on."""

from __future__ import annotations

import threading
import time

from chiplog.core.background.wakeup import WakeUp


def test_it_wakes_once_for_all_that_rang() -> None:
    """Also when it rang before anybody listened."""
    wakeup = WakeUp()
    wakeup.set()
    wakeup.set()
    assert wakeup.wait(10)
    assert not wakeup.wait(0)
    assert not wakeup.wait(-1)


def test_a_sleep_ends_with_its_time_however_short() -> None:
    """Half a second of the shortest sleeps beside threads that ring: none of them lasts."""
    wakeup, over, longest = WakeUp(), threading.Event(), 0.0

    def ring() -> None:
        while not over.is_set():
            wakeup.set()
            time.sleep(0)

    ringing = [threading.Thread(target=ring) for _ in range(2)]
    for thread in ringing:
        thread.start()
    until = time.monotonic() + 0.5
    while (now := time.monotonic()) < until:
        wakeup.wait(1e-6)
        longest = max(longest, time.monotonic() - now)
    over.set()
    for thread in ringing:
        thread.join()
    assert longest < 5
