"""Reads one series of one journal, and nothing else: for one metric across a thousand ranks.

Every line is checked against its CRC as usual, but only one value of each row is decoded. If a line is damaged, the
usual scanner reads the journal instead.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from functools import lru_cache
from operator import itemgetter
from pathlib import Path
from typing import Protocol, cast

import msgspec
import numpy as np

from chiplog.core import records
from chiplog.core.records import AnyRecord, Number
from chiplog.store import layout
from chiplog.store.journal.lines import Scanner, are_whole, number, open_plain
from chiplog.store.layout import Segment
from chiplog.store.points.columns import Column, as_steps, by_seq, join

WHOLE = 256 << 20  # bytes to read at once; a segment has 64 MiB
_STEP = b'{"log":"step"'


class SingleSeries:
    """One series of one rank in one attempt, without exact values; `refresh` reads what is new."""

    def __init__(self, rank: int, attempt: int, name: str) -> None:
        self.rank, self.attempt, self.name = rank, attempt, name
        self.launch = f"a{attempt:02d}"
        self.start = self.end = 0
        self.first_step: Number | None = None
        self._first_seq = -1
        self._offsets: dict[int, int] = {}
        self._pieces: list[Column] = []

    def refresh(self, run: Path, segment: Segment) -> None:
        path = run / layout.JOURNAL / segment.filename
        offset = self._offsets.get(segment.number, 0)
        try:
            with open_plain(path) as file:
                file.seek(offset)
                size = os.fstat(file.fileno()).st_size - offset
                data = file.read(size) if size <= WHOLE else b""
        except OSError:
            return
        if size > WHOLE:
            self._add_rest(path, segment)
            return
        end = data.rfind(b"\n") + 1
        lines = [line for line in data[:end].split(b"\n") if line]
        try:
            if not are_whole(lines):
                raise ValueError("a line is damaged")
            self._add_lines(lines)
            self._offsets[segment.number] = offset + end
        except ValueError:  # msgspec's errors, too
            self._add_rest(path, segment)

    def _add_rest(self, path: Path, segment: Segment) -> None:
        """Add what the usual scanner reads."""
        scanner = Scanner(path, self._offsets.get(segment.number, 0))
        self._add_records(list(scanner.read()))
        self._offsets[segment.number] = scanner.offset

    def column(self, name: str) -> Column:
        assert name == self.name
        self._pieces = [by_seq(join(self._pieces))]
        return self._pieces[0]

    def _add_lines(self, lines: list[bytes]) -> None:
        steps = [line for line in lines if line.startswith(_STEP)]
        rows = _decoder(self.name).decode(b"[%b]" % b",".join(steps))
        others = [records.decode(line) for line in lines if not line.startswith(_STEP)]
        if rows:
            self.end = max(self.end, *[row.time for row in rows])
            self._add_rows([row.step for row in rows], [row.seq for row in rows], [row.metrics.value for row in rows])
            if any(row.auto for row in rows):
                rows = [row for row in rows if not row.auto]
            self._note_first([(row.seq, _step(row.step)) for row in rows[:1]])
            first = min([row.seq for row in rows], default=-1)
            if rows and rows[0].seq != first:
                self._note_first([(row.seq, _step(row.step)) for row in rows if row.seq == first])
        self._add_records(others)

    def _add_rows(
        self, steps: list[Number | str], seqs: list[int], values: list[Number | str | msgspec.UnsetType]
    ) -> None:
        """Add the points of rows; some may not have the series."""
        if {*map(type, values)} <= {float, int} and {*map(type, steps)} == {int}:
            try:
                column = Column(np.array(steps, np.int64), np.array(seqs, np.int64), np.array(values, np.float64), {})
                self._pieces.append(column)
                return
            except OverflowError:  # a step beyond 64 bits, or an integer beyond all doubles
                pass
        points = zip(steps, seqs, values, strict=True)
        self._add([point for point in points if point[2] is not msgspec.UNSET])  # type: ignore[misc]

    def _add_records(self, records_: Sequence[AnyRecord]) -> None:
        for record in records_:
            self.end = max(self.end, record.time)
            if isinstance(record, records.Attempt):
                self.launch, self.start = record.launch, record.time
            elif isinstance(record, records.Step) and not record.auto:
                self._note_first([(record.seq, record.step)])
        self._add(
            [
                (getattr(record, "step", None) or 0, record.seq, value)
                for record in records_
                for name, value in records.points(record)
                if name == self.name
            ]
        )

    def _note_first(self, rows: Iterable[tuple[int, Number]]) -> None:
        """Consider rows that may be the first one logged with a step."""
        seq, step = min(rows, key=itemgetter(0), default=(0, None))
        if step is not None and (self.first_step is None or seq < self._first_seq):
            self.first_step, self._first_seq = step, seq

    def _add(self, points: list[tuple[Number | str, int, Number | str]]) -> None:
        if points:
            steps, seqs, values = zip(*points, strict=True)
            doubles = values if set(map(type, values)) == {float} else [number(value) for value in values]
            numbers = as_steps([_step(step) for step in steps])
            self._pieces.append(Column(numbers, np.array(seqs, np.int64), np.array(doubles, np.float64), {}))


class _Value(Protocol):
    value: Number | str | msgspec.UnsetType


class _DecodedRow(Protocol):
    seq: int
    time: int
    step: Number | str
    metrics: _Value
    auto: bool


@lru_cache(maxsize=8)
def _decoder(name: str) -> msgspec.json.Decoder[list[_DecodedRow]]:
    """Decodes one value of each row, and skips the others."""
    metrics = msgspec.defstruct(
        "Metrics",
        [("value", int | float | bool | str | msgspec.UnsetType, msgspec.UNSET)],
        rename={"value": name},
        gc=False,
    )
    row = msgspec.defstruct(
        "Row",
        [("seq", int), ("time", int), ("step", int | float | str), ("metrics", metrics), ("auto", bool, False)],
        gc=False,
    )
    return cast("msgspec.json.Decoder[list[_DecodedRow]]", msgspec.json.Decoder(list[row]))  # type: ignore[valid-type]


def _step(step: Number | str) -> Number:
    return records.NONFINITE.get(step, 0.0) if type(step) is str else step  # type: ignore[return-value]
