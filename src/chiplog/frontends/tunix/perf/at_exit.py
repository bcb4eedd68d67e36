"""What the end of the interpreter waits for, a few seconds at most: devices first, then trace files.

After a cluster or an exporter has been closed there is nothing left to wait for.
"""

from __future__ import annotations

import atexit
import time
from collections.abc import Callable

from chiplog.core.background import forks

PATIENCE = 5.0  # s for everything together

Wait = Callable[[float], None]  # called with the seconds that it may take


class ExitWaits:
    """The functions to call at exit."""

    def __init__(self) -> None:
        self._devices: dict[Wait, None] = {}
        self._files: dict[Wait, None] = {}
        forks.watch(self)

    def add(self, wait: Wait, *, devices: bool = False) -> None:
        """Call a function at exit; those that wait for devices come first."""
        if not self._devices and not self._files:  # registered last, it runs first, when all it needs still works
            atexit.unregister(self._run)
            atexit.register(self._run)
        (self._devices if devices else self._files)[wait] = None

    def remove(self, wait: Wait) -> None:
        self._devices.pop(wait, None)
        self._files.pop(wait, None)

    def forked(self) -> None:
        """In a forked child, forget everything: the parent waits for it."""
        self._devices.clear()
        self._files.clear()

    def _run(self) -> None:
        deadline = time.monotonic() + PATIENCE
        for wait in list(self._devices):
            wait(max(0.1, deadline - 1 - time.monotonic()))
        for wait in list(self._files):
            wait(max(0.1, deadline - time.monotonic()))


exit_waits = ExitWaits()
