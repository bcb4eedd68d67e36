"""Writes the journal of a run from a foreign source: the same lines as a training process, many at a time.

Closed segments become parts at once, from the columns at hand, so that nothing is decoded again.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import BinaryIO
from zlib import crc32

import msgspec
import numpy as np

from chiplog.core import records
from chiplog.core.files import writing
from chiplog.core.paths import make_dir
from chiplog.core.records import AnyRecord, Known
from chiplog.store import layout
from chiplog.store.contents.tail_columns import TailColumns
from chiplog.store.foreign.protocol import Points
from chiplog.store.journal import lines
from chiplog.store.layout import Segment
from chiplog.store.parts import compaction
from chiplog.store.parts.format import KINDS, PartInfo, file_of
from chiplog.store.parts.writer import write
from chiplog.store.points.columns import Floats, Ints
from chiplog.store.spans.columns import SpanColumns
from chiplog.version import VERSION

LARGEST = 32 << 20  # bytes of a segment: half of a live one, because its columns are in memory too
BUFFER = 1 << 20
WORTHWHILE = 1 << 20  # bytes of a segment from which on a part is written


class Written(msgspec.Struct):
    """How far a journal has been written; saved next to it, so that the next conversion continues from there."""

    launch: str
    attempt: int = 0
    segment: int = 0
    size: int = 0  # bytes of this segment
    seq: int = 0
    finished: bool = False
    first_time: int = 0
    last_time: int = 0
    points: int = 0
    launches: int = 0


class RunWriter:
    """Appends records to the journal of a run that only we write."""

    def __init__(self, run: Path, written: Written, host: str = "") -> None:
        self.run, self.written, self._host = run, written, host
        make_dir(run / layout.JOURNAL)
        self._file: BinaryIO | None = None
        self._waiting: list[bytes] = []
        self._waiting_size = 0
        self._collected: TailColumns | None = None  # None: the segment was begun by an earlier conversion
        self._rows: list[AnyRecord] = []
        self._count = 0
        self._times = 1 << 62, 0
        self._discard_unrecorded()
        if written.attempt:
            self._continue()

    def start(self, time: int) -> None:
        """Start the first attempt, at a time before its first record."""
        self._ready(time)

    def append(self, record: Known) -> None:
        """Append one record; its `seq` becomes the next one."""
        self._ready(record.time)
        record = msgspec.structs.replace(record, seq=self.written.seq)
        line = lines.line_of(record)
        if self._collected is not None:
            self._collected.add(record)
            if not isinstance(record, (records.Step, records.SpansRecord)):
                self._rows.append(record)
        if isinstance(record, (records.Step, records.Eval)):
            self.written.points += len(record.metrics)
        self._add([line], record.time, record.time)

    def append_points(self, points: Points) -> None:
        """Append rows of one point each."""
        if not len(points.steps):
            return
        self._ready(int(points.times[0]))
        count, seq, names = len(points.steps), self.written.seq, points.names
        seqs = np.arange(seq, seq + count, dtype=np.int64)
        new = _lines(points, seqs)
        if self._collected is not None:
            self._collected.points.feed_points(names, points.which, points.steps, seqs, points.times, points.values)
        self.written.points += count
        self._add(new, int(points.times.min()), int(points.times.max()))

    def restart(self, time: int, step: int | float | None) -> None:
        """Start another attempt, which hides the points of earlier ones from a step on."""
        if self.written.attempt and self.written.seq:
            self._close_segment()
            self.written.launches += 1
            self._start_attempt(max(time, self.written.last_time + 1))  # attempts at one time would not hide each other
            if step is not None:
                self.append(records.Step(0, time, step, {}))

    def finish(self, state: str, reason: str = "", time: int = 0) -> None:
        self._ready(self.written.last_time)
        self.append(records.Finish(0, max(time, self.written.last_time), state, reason))
        self.written.finished = True

    def flush(self) -> None:
        """Hand everything to the operating system."""
        if self._waiting and self._file is not None:
            self._file.write(b"".join(self._waiting))
            self._file.flush()
        self._waiting, self._waiting_size = [], 0

    def close(self) -> None:
        """Write what is left, and the part of a segment that is worth one."""
        self.flush()
        if self._file is not None:
            self._file.close()
            self._file = None
            if self.written.size >= WORTHWHILE:
                self._write_part()

    def abandon(self) -> None:
        """Close the file without another write: the process is about to end."""
        if self._file is not None:
            self._file.close()
            self._file = None

    # -- inside ----------------------------------------------------------------------------------------------------

    def _ready(self, time: int) -> None:
        if not self.written.attempt:
            self._start_attempt(time)
        elif self.written.finished:  # there is more after all: the same launch continues
            self._close_segment()
            self._start_attempt(max(time, self.written.last_time))
        elif self.written.size >= LARGEST:
            self._close_segment()
            self.written.segment += 1
            self._open()

    def _start_attempt(self, time: int) -> None:
        written = self.written
        written.attempt, written.segment, written.seq, written.finished = written.attempt + 1, 0, 0, False
        written.first_time = written.first_time or time
        self._open()
        launch = f"{written.launch}-{written.launches}" if written.launches else written.launch
        self.append(records.Attempt(0, time, written.attempt, launch, 0, 1, self._host, 0, 0, "imported", VERSION))

    def _open(self) -> None:
        self.written.size = 0
        self._collected, self._rows, self._count, self._times = TailColumns(), [], 0, (1 << 62, 0)
        self._file = os.fdopen(writing.open_update(self._path(), 0o600), "r+b", buffering=0)

    def _discard_unrecorded(self) -> None:
        """Remove what a conversion that was cut off has left behind what is recorded as written."""
        newest = self.written.attempt, self.written.segment
        for segment in layout.segments(self.run):
            path = self.run / layout.JOURNAL / segment.filename
            beyond = (segment.attempt, segment.number) > newest
            if beyond or ((segment.attempt, segment.number) == newest and lines.size_of(path) > self.written.size):
                for kind in KINDS:
                    file_of(self.run / layout.PARTS, segment, kind).unlink(missing_ok=True)
            if beyond:
                path.unlink()

    def _continue(self) -> None:
        self._file = os.fdopen(writing.open_update(self._path(), 0o600), "r+b", buffering=0)
        size = os.fstat(self._file.fileno()).st_size
        if size < self.written.size:
            raise OSError(f"{self._path()} is shorter than it was")
        if size > self.written.size:
            self._file.truncate(self.written.size)
        self._file.seek(self.written.size)

    def _path(self) -> Path:
        return self.run / layout.JOURNAL / self._segment.filename

    @property
    def _segment(self) -> Segment:
        return Segment(0, self.written.attempt, self.written.segment)

    def _add(self, new: list[bytes], first: int, last: int) -> None:
        size = sum(map(len, new))
        self._waiting += new
        self._waiting_size += size
        self._count += len(new)
        self._times = min(self._times[0], first), max(self._times[1], last)
        written = self.written
        written.seq += len(new)
        written.size += size
        written.last_time = max(written.last_time, last)
        if self._waiting_size >= BUFFER:
            self.flush()

    def _close_segment(self) -> None:
        self.flush()
        if self._file is not None:
            self._file.close()
            self._file = None
        if self.written.size >= WORTHWHILE:
            self._write_part()

    def _write_part(self) -> None:
        segment, collected = self._segment, self._collected
        if collected is None:  # it holds lines that were not seen here
            compaction.compact(self.run, segment)
            return
        points = collected.points
        spans = SpanColumns()
        for batch in collected.spans:
            spans.append(batch, segment.rank, segment.attempt)
        about = PartInfo(
            segment.stem, self.written.size, self._count, self._times[0], self._times[1], self.written.seq - 1,
            points.first_step, points.first_seq, points.last_step, points.begin_step,
        )  # fmt: skip
        write(self.run / layout.PARTS, segment, about, points=points, rows=self._rows, spans=spans)


def _lines(points: Points, seqs: Ints) -> list[bytes]:
    """A line per point, as `lines.line_of` writes it, a column at a time."""
    names = [_encode(name) for name in points.names]
    columns = (_texts(seqs), _texts(points.times), _texts(points.steps), [names[at] for at in points.which.tolist()])
    heads = [_HEAD % row for row in zip(*columns, _texts(points.values), strict=True)]
    new = [_LINE % row for row in zip(heads, map(crc32, heads), strict=True)]
    odd = ~(np.isfinite(points.values) & np.isfinite(points.steps))  # JSON has no such numbers
    for at in np.flatnonzero(odd).tolist():
        metrics: dict[str, int | float | bool | str] = {points.names[points.which[at]]: float(points.values[at])}
        new[at] = lines.line_of(records.Step(int(seqs[at]), int(points.times[at]), points.steps[at].item(), metrics))
    return new


def _texts(numbers: Ints | Floats) -> list[bytes]:
    return _encode(numbers.tolist())[1:-1].split(b",")


_encode = msgspec.json.Encoder().encode
_HEAD = b'{"log":"step","seq":%b,"time":%b,"step":%b,"metrics":{%b:%b}'
_LINE = b'%b,"crc":%d}\n'
