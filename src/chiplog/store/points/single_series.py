"""Reads one series of one journal, and nothing else: for one metric across a thousand ranks.

Every line is checked against its CRC as always, but only one value of each row is decoded. If a line is damaged, the
usual scanner reads the journal instead.
"""

from __future__ import annotations

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
from chiplog.store.journal.lines import Scanner, is_whole, number
from chiplog.store.layout import Segment
from chiplog.store.points.columns import Column, as_steps, by_seq, join

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
            with path.open("rb") as file:
                file.seek(offset)
                data = file.read()
        except OSError:
            return
        end = data.rfind(b"\n") + 1
        lines = [line for line in data[:end].split(b"\n") if line]
        try:
            if not all(map(is_whole, lines)):
                raise ValueError("a line is damaged")
            self._add_lines(lines)
            self._offsets[segment.number] = offset + end
        except ValueError:  # msgspec's errors, too
            scanner = Scanner(path, offset)
            self._add_records(list(scanner.read()))
            self._offsets[segment.number] = scanner.offset

    def column(self, name: str) -> Column:
        assert name == self.name
        self._pieces = [by_seq(join(self._pieces))]
        return self._pieces[0]

    def _add_lines(self, lines: list[bytes]) -> None:
        rows = _decoder(self.name).decode(b"[%b]" % b",".join([line for line in lines if line.startswith(_STEP)]))
        others = [records.decode(line) for line in lines if not line.startswith(_STEP)]
        if rows:
            self.end = max(self.end, *[row.time for row in rows])
            self._note_first([(row.seq, _step(row.step)) for row in rows if not row.auto])
            points = [(row.step, row.seq, row.metrics.value) for row in rows]
            self._add([point for point in points if point[2] is not msgspec.UNSET])  # type: ignore[misc]
        self._add_records(others)

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
        "Metrics", [("value", int | float | bool | str | msgspec.UnsetType, msgspec.UNSET)], rename={"value": name}
    )
    row = msgspec.defstruct(
        "Row",
        [("seq", int), ("time", int), ("step", int | float | str), ("metrics", metrics), ("auto", bool, False)],
        gc=False,
    )
    return cast("msgspec.json.Decoder[list[_DecodedRow]]", msgspec.json.Decoder(list[row]))  # type: ignore[valid-type]


def _step(step: Number | str) -> Number:
    return records.NONFINITE.get(step, 0.0) if type(step) is str else step  # type: ignore[return-value]
