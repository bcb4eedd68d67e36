"""Events: named facts, recorded and shown to the rules that ask for them."""

from __future__ import annotations

from typing import Any

from chiplog.core import records
from chiplog.core.engine.recorder import Recorder
from chiplog.core.engine.rules import Rules
from chiplog.core.values import convert
from chiplog.core.values.convert import NUMBERS
from chiplog.core.values.redact import hide


class Events:
    """Of one run."""

    def __init__(self, recorder: Recorder, rules: Rules) -> None:
        self._recorder, self._rules = recorder, rules

    def write(self, name: str, data: dict[str, Any], step: int | float) -> None:
        record = self._recorder.write(records.Event, name=convert.name(name), data=_plain(data), step=step)
        if self._rules.active and isinstance(record, records.Event):
            self._rules.hear(record.name, record.data, step)
            self._rules.look(dict(records.points(record)), step)


def _plain(data: dict[str, Any]) -> dict[str, Any]:
    """The data of an event without secrets; quick where it is numbers, as from a probe."""
    left = {name: value for name, value in data.items() if type(value) not in NUMBERS}
    return {**data, **hide(convert.plain(left))} if left else data
