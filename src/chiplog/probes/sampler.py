"""The thread that samples a probe and records the result."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping

from chiplog.core import messages
from chiplog.core.protocols import Probe
from chiplog.core.values.text import words

LONGEST = 60.0  # s between retries of a failing probe
PATIENCE = 1.0  # s that the end of a run waits for a running sample


class Sampler:
    """Calls `emit(name, data)` for everything that a probe returns, every `interval` seconds, until stopped.

    A probe may have `first()`, which returns what to record once, as pairs of an event's name and data; and `close()`.
    A failing probe is retried with growing pauses.
    """

    def __init__(self, probe: Probe, emit: Callable[[str, Mapping[str, object]], None]) -> None:
        self._probe, self._emit = probe, emit
        self._stop = threading.Event()
        self._started = False
        self._thread = threading.Thread(target=self._work, name=f"chiplog-{probe.name}", daemon=True)

    def start(self) -> None:
        try:
            self._thread.start()
        except RuntimeError as error:
            messages.say(f"probe {self._probe.name!r} is not sampled: {error}")

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
                messages.once(
                    f"probe {self._probe.name}",
                    f"probe {self._probe.name!r} failed and will be retried: {words(error)}",
                )
            self._stop.wait(pause)
        self._close()

    def _sample(self) -> None:
        if not self._started:
            first = getattr(self._probe, "first", None)
            for name, data in first() if first is not None else ():
                self._emit(name, data)
            self._started = True
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
                messages.once(f"probe {self._probe.name} close", f"probe {self._probe.name!r}: {words(error)}")
