"""The lines that a run printed, assembled from its records."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from chiplog.core.records import AnyRecord, ConsoleRecord
from chiplog.store import layout
from chiplog.store.journal.lines import endings
from chiplog.store.layout import Segment

NEAR = 512 << 10  # bytes before the end of a journal that are searched first for the last lines


class PrintedLine(NamedTuple):
    """One line as it was printed, escape sequences included."""

    text: str
    time: int  # wall-clock nanoseconds
    stream: str  # stdout or stderr
    rank: int
    attempt: int


class Printed:
    """Assembles lines from the records it is fed; keeps the newest `most`, and unfinished lines apart."""

    def __init__(self, most: int | None = None) -> None:
        self.ended: deque[PrintedLine] = deque(maxlen=most)
        self.count = 0  # all finished lines so far
        self._open: dict[tuple[int, str], PrintedLine] = {}

    def feed(self, record: AnyRecord, rank: int, attempt: int) -> None:
        if not isinstance(record, ConsoleRecord):
            return
        errors, unended = set(record.stderr), set(record.open)
        for at, (text, time) in enumerate(zip(record.lines, record.times, strict=False)):
            line = PrintedLine(text, time, "stderr" if at in errors else "stdout", rank, attempt)
            before = self._open.pop((rank, line.stream), None)
            if before is not None and before.attempt != attempt:  # the attempt is over, so the line stays unfinished
                self._end(before)
            if at in unended:
                self._open[rank, line.stream] = line
            else:
                self._end(line)

    @property
    def open(self) -> list[PrintedLine]:
        """The unfinished lines, newest last."""
        return sorted(self._open.values(), key=lambda line: line.time)

    def __iter__(self) -> Iterator[PrintedLine]:
        yield from self.ended
        yield from self.open

    def __len__(self) -> int:
        return self.count + len(self._open)

    def _end(self, line: PrintedLine) -> None:
        self.ended.append(line)
        self.count += 1


def lines(path: Path, read: Callable[[Segment], Iterable[AnyRecord]], last: int | None = None) -> list[PrintedLine]:
    """All lines of a run or the last ones; by attempt and time if several ranks printed."""
    printed: list[PrintedLine] = []
    ranks = 0
    by_rank = sorted(layout.segments(path), key=lambda one: (one.rank, one.attempt, one.number))
    for rank, segments in groupby(by_rank, key=lambda one: one.rank):
        ranks += 1
        printed += _of_rank(path, rank, list(segments), read, last)
    if ranks > 1:
        printed.sort(key=lambda line: (line.attempt, line.time))
    return printed if last is None else printed[max(0, len(printed) - last) :]


def _of_rank(
    path: Path, rank: int, segments: list[Segment], read: Callable[[Segment], Iterable[AnyRecord]], last: int | None
) -> list[PrintedLine]:
    """Read back from the newest segment until there are enough lines."""
    batches: list[tuple[Segment, list[ConsoleRecord]]] = []
    count = 0
    for segment in reversed(segments):
        if last is not None and count > last:
            break
        near = () if last is None or batches else endings(path / layout.JOURNAL / segment.filename, NEAR)
        records = _ordered(next(iter(near), ()))
        if last is None or _ended(records) <= last:
            records = _ordered(read(segment))
        batches.append((segment, records))
        count += _ended(records)
    printed = Printed()
    for segment, records in reversed(batches):
        for record in records:
            printed.feed(record, rank, segment.attempt)
    return list(printed)


def _ended(records: Iterable[ConsoleRecord]) -> int:
    return sum(len(one.lines) - len(one.open) for one in records)


def _ordered(records: Iterable[AnyRecord]) -> list[ConsoleRecord]:
    return sorted((one for one in records if isinstance(one, ConsoleRecord)), key=lambda one: one.seq)
