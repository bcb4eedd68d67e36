"""The thread that samples a probe and records what it says."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any

from chiplog.core import notes
from chiplog.core.protocols import Probe
from chiplog.core.texts import words

LONGEST = 60.0  # s between two tries of a probe that fails
PATIENCE = 1.0  # s that the end of a run waits for a sample under way


class Sampler:
    """Calls `emit(name, data)` for everything a probe says, every `interval` seconds, until stopped.

    A probe may have `first()`, what it says once, as pairs of an event's name and data; and `close()`. One that fails
    is tried again with growing pauses.
    """

    def __init__(self, probe: Probe, emit: Callable[[str, Mapping[str, Any]], None]) -> None:
        self._probe, self._emit = probe, emit
        self._stop = threading.Event()
        self._begun = False
        self._thread = threading.Thread(target=self._work, name=f"chiplog-{probe.name}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        if self._thread.ident is not None and self._thread is not threading.current_thread():
            self._thread.join(PATIENCE)

    def _work(self) -> None:
        failures = 0
        while not self._stop.is_set():
            pause = self._probe.interval
            try:
                self._sample()
                failures = 0
            except Exception as error:
                failures += 1
                pause = max(pause, min(LONGEST, pause * 2**failures))
                notes.once(
                    f"probe {self._probe.name}",
                    f"probe {self._probe.name!r} fails and is tried again: {words(error)}",
                )
            self._stop.wait(pause)
        self._close()

    def _sample(self) -> None:
        if not self._begun:
            first = getattr(self._probe, "first", None)
            for name, data in first() if first is not None else ():
                self._emit(name, data)
            self._begun = True
        for data in self._probe.sample():
            if self._stop.is_set():
                return
            self._emit(self._probe.name, data)

    def _close(self) -> None:
        close = getattr(self._probe, "close", None)
        if close is not None:
            try:
                close()
            except Exception as error:
                notes.once(f"probe {self._probe.name} close", f"probe {self._probe.name!r}: {words(error)}")
