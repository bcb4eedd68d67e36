"""Events: named facts, and changes to what describes a run (its config, summary, name and tags)."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from chiplog.core import records
from chiplog.core.engine.recorder import Recorder
from chiplog.core.engine.rules import Rules
from chiplog.core.records import Event, Number, Plain
from chiplog.core.values import convert
from chiplog.core.values.convert import NUMBERS
from chiplog.core.values.redact import hide, redact

ChangeListener = Callable[[str, Mapping[str, Plain]], object]


class Events:
    """The events of one run."""

    def __init__(self, recorder: Recorder, rules: Rules) -> None:
        self._recorder, self._rules = recorder, rules

    def write(self, name: str, data: Mapping[str, object], step: Number) -> None:
        record = self._recorder.write(records.Event, name=convert.name(name), data=_plain(data), step=step)
        if self._rules.active and record is not None:
            self._rules.check_event(record.name, record.data, step)
            self._rules.check(dict(records.points(record)), step)


def _plain(data: Mapping[str, object]) -> Mapping[str, Plain]:
    """The data of an event without secrets; fast for plain numbers, which is what probes send."""
    others = {name: value for name, value in data.items() if type(value) not in NUMBERS}
    return {**data, **hide(convert.plain(others))} if others else data


class Changes:
    """Records each change as an event, and passes it to listeners as it was recorded."""

    def __init__(self, recorder: Recorder, wake: Callable[[], None] | None) -> None:
        self._recorder, self._wake = recorder, wake
        self.listeners: list[ChangeListener] = []

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
