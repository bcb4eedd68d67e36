"""Changes to what describes a run while it goes on: its config, summary, name and tags."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from chiplog.core.engine.recorder import Recorder
from chiplog.core.records import Event, Plain
from chiplog.core.values import convert
from chiplog.core.values.redact import redact

Listener = Callable[[str, Mapping[str, Plain]], object]


class Changes:
    """Records each change as an event, and passes it to listeners as it was recorded."""

    def __init__(self, recorder: Recorder, wake: Callable[[], None] | None) -> None:
        self._recorder, self._wake = recorder, wake
        self.listeners: list[Listener] = []

    def write(self, name: str, changed: Mapping[str, object]) -> None:
        """Record new values of the config, the summary, the name or the tags."""
        with self._recorder.guard(name):
            data = redact(convert.plain(changed))
            if not data or self._recorder.write(Event, name=name, data=data) is None:
                return
            for call in self.listeners:
                call(name, data)
            if self._wake is not None:
                self._wake()
