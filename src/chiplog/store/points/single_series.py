"""Reads one series of one journal, and nothing else: for one metric across a thousand ranks.

Every line is checked against its CRC as always; only the one value of each row is decoded.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from operator import itemgetter
from pathlib import Path
from typing import Any
from zlib import crc32

import msgspec
import numpy as np

from chiplog.core import records
from chiplog.core.records import AnyRecord, Number
from chiplog.store import layout
from chiplog.store.journal.lines import Scanner, number
from chiplog.store.layout import Segment
from chiplog.store.points.columns import Column, as_steps, join, take

_STEP = b'{"log":"step"'


class SingleSeries:
    """One series of one rank in one attempt; `refresh` reads what is new."""

    def __init__(self, rank: int, attempt: int, name: str) -> None:
        self.rank, self.attempt, self.name = rank, attempt, name
        self.launch = f"a{attempt:02d}"
        self.start = self.end = 0
        self.first_step: Number | None = None
        self._first_seq = -1
        self._offsets: dict[int, int] = {}
        self._pieces: list[Column] = []
        self._column: Column | None = None

    def refresh(self, run: Path, segment: Segment) -> None:
        path = run / layout.JOURNAL / segment.filename
        begin = self._offsets.get(segment.number, 0)
        try:
            with path.open("rb") as file:
                file.seek(begin)
                data = file.read()
        except OSError:
            return
        cut = data.rfind(b"\n") + 1
        lines = list(filter(None, data[:cut].split(b"\n")))
        whole = [line for line in lines if (cut_up := line.rpartition(b',"crc":'))[2] == b"%d}" % crc32(cut_up[0])]
        try:
            if len(whole) != len(lines):
                raise ValueError("a line is damaged")
            self._take(whole)
            self._offsets[segment.number] = begin + cut
        except ValueError:  # msgspec's error, too: fall back to the reader that handles damage
            scanner = Scanner(path, begin)
            self._feed(list(scanner.read()))
            self._offsets[segment.number] = scanner.offset
        self._column = None

    def column(self, _: str) -> Column:
        if self._column is None:
            found = join(self._pieces)
            in_order = len(found.seqs) < 2 or bool(np.all(found.seqs[1:] >= found.seqs[:-1]))
            self._column = found if in_order else take(found, np.argsort(found.seqs, kind="stable"))
            self._pieces = [self._column]
        return self._column

    def _take(self, lines: list[bytes]) -> None:
        rows = _decoder(self.name).decode(b"[%b]" % b",".join([line for line in lines if line.startswith(_STEP)]))
        others = [records.decode(line) for line in lines if not line.startswith(_STEP)]
        if rows:
            self.end = max(self.end, *[row.time for row in rows])
            self._begin([(row.seq, row.step) for row in rows if not row.auto])
            self._add([(row.step, row.seq, row.metrics.value) for row in rows])
        self._feed(others)

    def _feed(self, found: list[AnyRecord]) -> None:
        """Valid records of any kind."""
        for record in found:
            self.end = max(self.end, record.time)
            if isinstance(record, records.Attempt):
                self.launch, self.start = record.launch, record.time
            elif isinstance(record, records.Step) and not record.auto:
                self._begin([(record.seq, record.step)])
        self._add(
            [
                (getattr(record, "step", None) or 0, record.seq, value)
                for record in found
                for name, value in records.points(record)
                if name == self.name
            ]
        )

    def _begin(self, rows: Iterable[tuple[int, Any]]) -> None:
        """Rows that may be the first whose step was given."""
        seq, step = min(rows, key=itemgetter(0), default=(0, None))
        if step is not None and (self.first_step is None or seq < self._first_seq):
            self.first_step, self._first_seq = _finite(step), seq

    def _add(self, rows: list[tuple[Any, int, Any]]) -> None:
        kinds = {type(row[2]) for row in rows}
        if msgspec.UnsetType in kinds:
            rows = [row for row in rows if row[2] is not msgspec.UNSET]
        if rows:
            steps, seqs, values = zip(*rows, strict=True)
            doubles = values if kinds == {float} else [_double(value) for value in values]
            numbers = as_steps([_finite(step) for step in steps] if str in set(map(type, steps)) else list(steps))
            self._pieces.append(Column(numbers, np.array(seqs, np.int64), np.array(doubles, np.float64), {}))


@lru_cache(maxsize=8)
def _decoder(name: str) -> Any:
    """Decodes one value of each row, and skips the others."""
    metrics = msgspec.defstruct(
        "Metrics", [("value", int | float | bool | str | msgspec.UnsetType, msgspec.UNSET)], rename={"value": name}
    )
    row = msgspec.defstruct(
        "Row",
        [("seq", int), ("time", int), ("step", int | float | str), ("metrics", metrics), ("auto", bool, False)],
        gc=False,
    )
    return msgspec.json.Decoder(list[row])  # type: ignore[valid-type]


def _finite(step: Any) -> Number:
    number: Number = records.NONFINITE.get(step, 0.0) if type(step) is str else step
    return number


def _double(value: Any) -> float:
    return value if type(value) is float else number(value)
