"""How far a run has come on its way to the end, as the thread of the ranks sees it."""

from __future__ import annotations

import threading


class ShutdownFlags:
    """Flags that the training thread sets, and events that the thread of the ranks sets in return."""

    def __init__(self) -> None:
        self.closing = False  # the run has finished: send what is left, and a farewell
        self.exiting = False  # the process ends
        self.stopped = False  # no more rounds
        self.drained = threading.Event()  # everything has been sent and written
        self.disconnected = threading.Event()  # the group has broken up
