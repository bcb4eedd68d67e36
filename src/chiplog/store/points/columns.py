"""Records as columns: the steps, values and order of every series."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from operator import itemgetter
from typing import NamedTuple

import numpy as np
from msgspec.structs import astuple
from numpy.typing import NDArray

from chiplog.core import messages, records
from chiplog.core.records import AnyRecord, Number
from chiplog.core.values.convert import double
from chiplog.store.journal.row_decoder import RowBatch

EXACT = 2**53  # from here on a double may differ from the integer it came from
FEW = 256  # rows that are added one by one, so that a growing journal does not become many short arrays
PACK = 8192  # rows that wait as Python objects before they become arrays

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Steps = Ints | Floats


class Column(NamedTuple):
    """The points of one series; `exact` maps an index to the text of a value that a double cannot hold."""

    steps: Steps
    seqs: Ints
    values: Floats
    exact: dict[int, str]


EMPTY = Column(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.float64), {})


class Columns:
    """Collects records, and returns their points by series; reading and feeding may alternate."""

    def __init__(self) -> None:
        self._groups: dict[tuple[str, ...], _SameNames] = {}
        self._of: dict[str, list[tuple[_SameNames, int]]] = {}
        self._seqs: list[int] = []
        self._times: list[int] = []
        self._clocks: list[tuple[Ints, Ints]] = []
        self.begin_step: Number | None = None  # of the first row, given or counted
        self._begin_seq = -1
        self.first_step: Number | None = None  # of the first row whose step was given
        self.first_seq = -1
        self.last_step: Number | None = None
        self.last_seq = -1

    def feed(self, record: AnyRecord) -> None:
        self._seqs.append(record.seq)
        self._times.append(record.time)
        if isinstance(record, records.Step):
            metrics = record.metrics
            names, values, step = tuple(metrics), tuple(metrics.values()), record.step
            self._note_step(record.seq, step, record.auto)
        else:
            pairs = list(records.points(record, _refuse))
            if not pairs:
                return
            names, values = zip(*pairs, strict=True)
            step = getattr(record, "step", None) or 0
        self._group(names).add(step, record.seq, values)  # type: ignore[arg-type]

    def feed_rows(self, batch: RowBatch) -> None:
        """Add rows that were decoded together."""
        rows = batch.rows
        cells = chain.from_iterable([astuple(row.metrics) for row in rows])
        values = np.fromiter(cells, np.float64, len(rows) * len(batch.names)).reshape(len(rows), -1)
        inexact = np.abs(values).max(axis=1) >= EXACT
        if inexact.any():  # an integer may be among them that is not a double
            for at in np.flatnonzero(inexact).tolist():
                self.feed(records.decode(batch.lines[at]))
            kept = np.flatnonzero(~inexact)
            rows, values = [rows[at] for at in kept.tolist()], values[kept]
        if len(rows) < FEW:
            for row, numbers in zip(rows, values.tolist(), strict=True):
                self._seqs.append(row.seq)
                self._times.append(row.time)
                self._note_step(row.seq, row.step, row.auto)
                self._group(batch.names).add(row.step, row.seq, tuple(numbers))
            return
        seqs, times = [row.seq for row in rows], [row.time for row in rows]
        steps = [row.step for row in rows]
        for at in {seqs.index(min(seqs)), seqs.index(max(seqs))}:
            self._note_step(seqs[at], steps[at], auto=True)
        explicit = [(row.seq, row.step) for row in rows if not row.auto]
        if explicit:
            self._note_step(*min(explicit, key=itemgetter(0)), auto=False)
        self._clocks.append((np.array(seqs, np.int64), np.array(times, np.int64)))
        self._group(batch.names).add_packed(as_steps(steps), self._clocks[-1][0], np.ascontiguousarray(values.T))

    def feed_points(
        self, names: Sequence[str], which: Ints, steps: Steps, seqs: Ints, times: Ints, values: Floats
    ) -> None:
        """Add rows of one point each, in order: the i-th is of the series `names[which[i]]`."""
        for at in (0, -1):
            self._note_step(int(seqs[at]), steps[at].item(), auto=False)
        self._clocks.append((seqs, times))
        for index in np.unique(which).tolist():
            chosen = which == index
            self._group((names[index],)).add_packed(steps[chosen], seqs[chosen], values[chosen][np.newaxis])

    def _note_step(self, seq: int, step: Number, auto: bool) -> None:
        """Consider a row that may be the first, the first with an explicit step, or the last."""
        if self.begin_step is None or seq < self._begin_seq:
            self.begin_step, self._begin_seq = step, seq
        if not auto and (self.first_step is None or seq < self.first_seq):
            self.first_step, self.first_seq = step, seq
        if seq > self.last_seq:
            self.last_step, self.last_seq = step, seq

    def _group(self, names: tuple[str, ...]) -> _SameNames:
        group = self._groups.get(names)
        if group is None:
            group = self._groups[names] = _SameNames()
            for index, name in enumerate(names):
                self._of.setdefault(name, []).append((group, index))
        return group

    def names(self) -> list[str]:
        return list(self._of)

    def __contains__(self, name: str) -> bool:
        return name in self._of

    def column(self, name: str) -> Column:
        return join(group.column(index) for group, index in self._of.get(name, ()))

    def last(self) -> Iterator[tuple[str, int, Number]]:
        """(name, seq, value) of the last point of every series."""
        for name in self._of:
            last = self.last_of(name)
            assert last is not None, "a name that was seen has a point"
            yield name, *last

    def last_of(self, name: str) -> tuple[int, Number] | None:
        """(seq, value) of the last point of a series."""
        return last_of(self.column(name))

    def count(self, name: str) -> int:
        """How many points a series has."""
        return sum(len(group) for group, _ in self._of.get(name, ()))

    def clock(self) -> tuple[Ints, Ints]:
        """(seqs, times) of all records."""
        if self._seqs:
            self._clocks.append((np.array(self._seqs, np.int64), np.array(self._times, np.int64)))
            self._seqs, self._times = [], []
        if len(self._clocks) > 1:
            seqs, times = zip(*self._clocks, strict=True)
            self._clocks = [(np.concatenate(seqs), np.concatenate(times))]
        return self._clocks[0] if self._clocks else (EMPTY.seqs, EMPTY.seqs)


def _refuse(prefix: str) -> None:
    start = f"{prefix[:60]}..."
    messages.once(f"long prefix {start}", f"numbers in {start!r} have names that are too long for series")


class _SameNames:
    """Rows with the same names in the same order."""

    def __init__(self) -> None:
        self._steps: list[Number] = []
        self._seqs: list[int] = []
        self._rows: list[tuple[Number, ...]] = []
        self._packed: list[tuple[Steps, Ints, list[tuple[Floats, dict[int, str]]]]] = []

    def add(self, step: Number, seq: int, row: tuple[Number, ...]) -> None:
        self._steps.append(step)
        self._seqs.append(seq)
        self._rows.append(row)
        if len(self._rows) >= PACK:
            self._pack()

    def add_packed(self, steps: Steps, seqs: Ints, values: Floats) -> None:
        """Add rows as columns, all of whose values are doubles."""
        self._packed.append((steps, seqs, [(column, {}) for column in values]))

    def __len__(self) -> int:
        return len(self._rows) + sum(len(seqs) for _, seqs, _ in self._packed)

    def column(self, index: int) -> Column:
        self._pack()
        return join(Column(steps, seqs, *columns[index]) for steps, seqs, columns in self._packed)

    def _pack(self) -> None:
        if not self._rows:
            return
        seqs = np.array(self._seqs, np.int64)
        columns = [_doubles(column) for column in zip(*self._rows, strict=True)]
        self._packed.append((as_steps(self._steps), seqs, columns))
        self._steps, self._seqs, self._rows = [], [], []


def join(parts: Iterable[Column]) -> Column:
    """Concatenate columns."""
    columns = [column for column in parts if len(column.seqs)]
    if not columns:
        return EMPTY
    if len(columns) == 1:
        return columns[0]
    exact: dict[int, str] = {}
    start = 0
    for column in columns:
        exact.update((start + at, text) for at, text in column.exact.items())
        start += len(column.seqs)
    return Column(
        np.concatenate([column.steps for column in columns]),
        np.concatenate([column.seqs for column in columns]),
        np.concatenate([column.values for column in columns]),
        exact,
    )


def take(column: Column, chosen: NDArray[np.intp] | NDArray[np.bool_]) -> Column:
    """The points at some indices, in that order; or those for which a mask is true."""
    exact: dict[int, str] = {}
    if column.exact:
        places = np.flatnonzero(chosen) if chosen.dtype == np.bool_ else chosen
        exact = {now: column.exact[before] for now, before in enumerate(places.tolist()) if before in column.exact}
    return Column(column.steps[chosen], column.seqs[chosen], column.values[chosen], exact)


def last_of(column: Column) -> tuple[int, Number] | None:
    """(seq, value) of the last point."""
    if not len(column.seqs):
        return None
    at = int(column.seqs.argmax())
    text = column.exact.get(at)
    return int(column.seqs[at]), column.values[at].item() if text is None else from_text(text)


def by_seq(column: Column) -> Column:
    """The points in the order they were logged."""
    seqs = column.seqs
    if len(seqs) < 2 or bool(np.all(seqs[1:] >= seqs[:-1])):
        return column
    return take(column, np.argsort(seqs, kind="stable"))


def as_steps(steps: list[Number]) -> Steps:
    """Steps as integers if all of them are, otherwise as doubles."""
    try:
        if set(map(type, steps)) <= {int}:
            return np.array(steps, np.int64)
    except OverflowError:
        pass
    return np.array([_double(step) for step in steps], np.float64)


def exact_text(value: Number) -> str | None:
    """The text of a value that a double cannot hold: true, false, and large integers."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int) and (value >= EXACT or value <= -EXACT) and _double(value) != value:
        return str(value)
    return None


def from_text(text: str) -> Number:
    return text == "true" if text in ("true", "false") else int(text)


def repeats(ordered: Steps) -> Ints:
    """For each of the steps in order, how many like it stand before it."""
    places = np.arange(len(ordered))
    begins = np.append(True, ordered[1:] != ordered[:-1])
    earlier: Ints = places - np.maximum.accumulate(np.where(begins, places, 0))
    return earlier


def _doubles(column: tuple[Number, ...]) -> tuple[Floats, dict[int, str]]:
    kinds = set(map(type, column))
    if kinds == {float}:
        return np.array(column, np.float64), {}
    doubles = np.array([_double(value) for value in column], np.float64)
    suspects: Iterable[int] = range(len(column)) if bool in kinds else np.flatnonzero(np.abs(doubles) >= EXACT).tolist()
    exact = {at: text for at in suspects if (text := exact_text(column[at])) is not None}
    return doubles, exact


def _double(value: Number) -> float:
    try:
        return double(value)
    except (TypeError, ValueError):  # a valid line, but not ours
        return float("nan")
