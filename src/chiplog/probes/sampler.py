"""The thread that samples a probe and records what it says."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any

from chiplog.core import notes
from chiplog.core.protocols import Probe


class Sampler:
    """Calls `emit(name, data)` for everything a probe says, every `interval` seconds, until stopped."""

    def __init__(self, probe: Probe, emit: Callable[[str, Mapping[str, Any]], None]) -> None:
        self._probe, self._emit = probe, emit
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._work, name=f"chiplog-{probe.name}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()

    def _work(self) -> None:
        while not self._stop.is_set():
            try:
                for data in self._probe.sample():
                    self._emit(self._probe.name, data)
            except Exception as error:
                notes.once(
                    f"probe {self._probe.name}",
                    f"probe {self._probe.name!r} fails and is tried again: {error!r}",
                )
            self._stop.wait(self._probe.interval)
