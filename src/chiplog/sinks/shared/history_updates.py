"""Updates: joins the records of everything that one call of a history has logged.

A row of numbers is one record. A row that also has vectors, texts or values on a device becomes several records, some
of them later, after an event `update` with the names of the row, and the values that have more than two dimensions.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import msgspec

from chiplog.core import records
from chiplog.core.records import (
    NONFINITE,
    AnyRecord,
    Attempt,
    Eval,
    Event,
    Finish,
    MatrixRecord,
    Plain,
    Step,
    TextRecord,
)
from chiplog.core.values import convert
from chiplog.core.values.text import LONGEST

UPDATE = "update"
PATIENCE = 30 * 1_000_000_000  # ns that a row waits for a value, whose device may have failed


class Update(NamedTuple):
    step: int | float | None
    time: int  # of its first record
    metrics: Mapping[str, Plain]


def nested_text(value: object) -> str:
    """A value of more than two dimensions, for which a run has no record, as text in the event; empty if too long."""
    listed = convert.plain(value)
    text = msgspec.json.encode(records.fields(Event(0, 0, UPDATE, {"value": listed}))["data"]["value"]).decode()
    return text if isinstance(listed, list) and len(text) <= LONGEST else ""


def numbers(value: Plain) -> Plain:
    """A vector or matrix with its NaN and infinities as numbers."""
    if not isinstance(value, list):
        return value
    return [numbers(NONFINITE.get(one, one) if isinstance(one, str) else one) for one in value]


class _Open(NamedTuple):
    """An update whose values have not all arrived."""

    step: int | float | None
    time: int
    names: tuple[str, ...]
    metrics: dict[str, Plain]
    missing: set[str]

    def whole(self) -> Update:
        """The update with its values in the order they were logged, statistics last."""
        ordered = {name: self.metrics[name] for name in self.names if name in self.metrics}
        return Update(self.step, self.time, ordered | self.metrics)


class Updates:
    """Turns records into updates, in the order they were made.

    What was not logged by an update (late statistics, the numbers of events) makes none.
    """

    def __init__(self) -> None:
        self._waiting: deque[_Open | Update] = deque()  # the first is open; later ones may be whole

    def feed(self, record: AnyRecord) -> list[Update]:
        """The updates that this record completes."""
        if type(record) is Step:
            if not self._waiting:
                return [] if record.across else [Update(record.step, record.time, record.metrics)]
            if not self._join(record.step, record.metrics, record.across) and not record.across:
                self._waiting.append(Update(record.step, record.time, record.metrics))
        elif isinstance(record, Eval):
            if record.across:
                return []
            self._waiting.append(Update(record.step, record.time, dict(records.points(record))))
        elif isinstance(record, (MatrixRecord, TextRecord)):
            value = _value(record)
            if not self._join(record.step, {record.name: value}):
                self._waiting.append(Update(record.step, record.time, {record.name: value}))
        elif isinstance(record, Event):
            if record.name != UPDATE:
                return []
            names = tuple(map(str, record.data.get("names", ())))
            values = {name: numbers(msgspec.json.decode(text)) for name, text in record.data.get("values", {}).items()}
            self._waiting.append(_Open(record.step, record.time, names, values, set(names) - values.keys()))
        elif isinstance(record, (Attempt, Finish)):
            return self.drain()
        else:
            return []
        return self._complete(record.time)

    def drain(self) -> list[Update]:
        """All that are waiting, with the values that have arrived."""
        updates = [one if isinstance(one, Update) else one.whole() for one in self._waiting]
        self._waiting.clear()
        return [one for one in updates if one.metrics]

    def save(self) -> list[Plain]:
        """What is waiting, as plain data; an `Updates` that loads it continues from here."""
        waiting = [
            {
                "step": one.step,
                "time": one.time,
                "metrics": dict(one.metrics),
                **({"names": list(one.names), "missing": sorted(one.missing)} if isinstance(one, _Open) else {}),
            }
            for one in self._waiting
        ]
        saved: list[Plain] = records.fields(Event(0, 0, UPDATE, {"waiting": waiting}))["data"]["waiting"]
        return saved

    def load(self, saved: Iterable[Plain] | None) -> None:
        self._waiting.clear()
        for one in saved or ():
            step, time, metrics = one["step"], one["time"], dict(one["metrics"])
            if "names" in one:
                self._waiting.append(_Open(step, time, tuple(one["names"]), metrics, set(one["missing"])))
            else:
                self._waiting.append(Update(step, time, metrics))

    def _join(self, step: int | float | None, metrics: Mapping[str, Plain], across: bool = False) -> bool:
        """Add values to the first update that waits for them, and statistics to the one that has their metric."""
        for one in self._waiting:
            if not isinstance(one, _Open) or one.step != step:
                continue
            if across and one.metrics.keys().isdisjoint(name.rpartition("/")[0] for name in metrics):
                continue
            if not across and one.missing.isdisjoint(metrics):
                continue
            one.metrics.update(metrics)
            one.missing.difference_update(metrics)
            return True
        return False

    def _complete(self, now: int) -> list[Update]:
        complete: list[Update] = []
        while self._waiting:
            first = self._waiting[0]
            if isinstance(first, _Open):
                if first.missing and now - first.time < PATIENCE:
                    break
                first = first.whole()
            self._waiting.popleft()
            if first.metrics:
                complete.append(first)
        return complete


def _value(record: MatrixRecord | TextRecord) -> Plain:
    if isinstance(record, TextRecord):
        return record.text
    return record.values[0] if len(record.values) == 1 else record.values
