"""Events: named facts, recorded and passed to rules."""

from __future__ import annotations

from collections.abc import Mapping

from chiplog.core import records
from chiplog.core.engine.recorder import Recorder
from chiplog.core.engine.rules import Rules
from chiplog.core.records import Number, Plain
from chiplog.core.values import convert
from chiplog.core.values.convert import NUMBERS
from chiplog.core.values.redact import hide


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
