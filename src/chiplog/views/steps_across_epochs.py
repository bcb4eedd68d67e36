"""A stored run in the order of its calls: which names each call had, and where steps start again.

Steps that start again with each epoch would overlap. Here they continue: in datasets, pictures and text plots, the
first value of the second epoch follows the last one of the first. Datasets keep the steps as they were logged.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

import numpy as np

from chiplog.core.records import Eval, Event, MatrixRecord, Step, TextRecord, points
from chiplog.sinks.shared.history_updates import UPDATE
from chiplog.store.contents.contents import Bounds, Contents
from chiplog.store.points.columns import Steps
from chiplog.store.points.series import Series
from chiplog.store.reader import Stored
from chiplog.views.metric_families import group_of


class ByCall(Stored):
    """A stored run whose series continue where steps start again."""

    @cached_property
    def calls(self) -> CallOrder:
        order = CallOrder()
        for record in self.records():
            order.add(record)
        return order

    def series(
        self, name: str, *, rank: int | None = None, attempt: int | None = None, missing_ok: bool = False
    ) -> Series:
        series = super().series(name, rank=rank, attempt=attempt, missing_ok=missing_ok)
        if not self.calls.starts_again or not len(series):
            return series
        places = self.calls.places
        steps = [places.get(seq, step) for seq, step in zip(series.seqs.tolist(), series.steps.tolist(), strict=True)]
        return series.moved(np.array(steps))

    def contents(self, *kinds: str, bounds: Bounds | None = None) -> Contents:
        contents = super().contents(*kinds, bounds=bounds)
        if self.calls.starts_again:
            for frames in contents.matrices.values():
                frames[:] = [one._replace(step=self.calls.places.get(one.seq, one.step)) for one in frames]
        return contents

    def steps_at(self, places: Steps) -> Steps:
        """The steps as they were logged, by place."""
        logged = self.calls.logged
        return np.array([logged.get(place, place) for place in places.tolist()]) if self.calls.starts_again else places


class CallOrder:
    """The calls that wrote the records of a run."""

    def __init__(self) -> None:
        self.starts_again = False
        self.places: dict[int, int | float] = {}  # by seq
        self.logged: dict[int | float, int | float] = {}  # steps, by place
        self.apart: set[str] = set()  # names without a group that were logged in a call without any group
        self._open: dict[int | float, list[set[str]]] = {}  # names that are still expected, by step
        self._last: dict[str, int | float] = {}  # step of each name
        self._newest: dict[int | float, int | float] = {}  # the place of each step
        self._ahead: int | float = 0  # how far places are ahead of steps
        self._top: int | float = -1

    def add(self, record: object) -> None:
        """Add the next record."""
        if isinstance(record, Event):
            if record.name == UPDATE and record.step is not None:
                names = set(map(str, record.data.get("names", ())))
                self._open.setdefault(record.step, []).append(names)
                self._begin(record.step, names)
            self._place(record.seq, record.step)
        elif isinstance(record, (Step, Eval)):
            names = set(record.metrics) if isinstance(record, Step) else {name for name, _ in points(record)}
            if not record.across and not self._belongs_to_open_call(record.step, names):
                self._begin(record.step, names)
            self._place(record.seq, record.step)
        elif isinstance(record, (MatrixRecord, TextRecord)):
            if record.step is not None and not self._belongs_to_open_call(record.step, {record.name}):
                self._begin(record.step, {record.name})
            self._place(record.seq, record.step)

    def _belongs_to_open_call(self, step: int | float, names: set[str]) -> bool:
        for missing in self._open.get(step, ()):
            if not missing.isdisjoint(names):
                missing.difference_update(names)
                if not missing:
                    self._open[step].remove(missing)
                return True
        return False

    def _begin(self, step: int | float, names: Iterable[str]) -> None:
        """Start a call; steps start again if one of its names already had a later one."""
        names = set(names)
        if any(self._last.get(name, step) > step for name in names):
            self.starts_again = True
            self._ahead = self._top + 1 - step
        self._last.update(dict.fromkeys(names, step))
        place = step + self._ahead
        self._top = max(self._top, place)
        self._newest[step] = place
        self.logged[place] = step
        if not any(map(group_of, names)):
            self.apart |= names

    def _place(self, seq: int, step: int | float | None) -> None:
        if step is not None:
            self.places[seq] = self._newest.get(step, step + self._ahead)
