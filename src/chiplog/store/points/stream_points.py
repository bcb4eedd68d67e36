"""The points of one stream: the parts of its segments, and the tails beyond them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import numpy as np

from chiplog.core import records
from chiplog.core.records import AnyRecord, Number
from chiplog.store.contents.segment import SegmentContents
from chiplog.store.journal.lines import Scanner
from chiplog.store.layout import Segment
from chiplog.store.parts.errors import BrokenPart
from chiplog.store.parts.part import Part
from chiplog.store.points.columns import Column, Columns, Floats, Ints, Steps, by_seq, join

T = TypeVar("T")


class StreamPoints:
    """All series of one rank in one attempt; `refresh` reads what is new."""

    def __init__(self, rank: int, attempt: int) -> None:
        self.rank, self.attempt = rank, attempt
        self.launch = f"a{attempt:02d}"
        self.start = self.end = 0
        self._parts: dict[int, Part] = {}
        self._tails: dict[int, tuple[Scanner, Columns]] = {}
        self._clock: tuple[Ints, Ints] | None = None

    def refresh(self, run: Path, segment: Segment) -> None:
        if segment.number not in self._tails:
            parts, scanner = SegmentContents(run, segment).query(lambda part: [(part, part.rows("attempt"))])
            for part, attempts in parts:
                self._parts[segment.number] = part
                self.end = max(self.end, part.about.last_time)
                for record in attempts:
                    self._note_start(record)
            self._tails[segment.number] = scanner, Columns()
        self._read_tail(segment.number)

    @property
    def first_step(self) -> Number | None:
        """The step of the first row that was logged with one."""
        firsts = [(part.about.first_seq, part.about.first_step) for part in self._parts.values()]
        firsts += [(columns.first_seq, columns.first_step) for _, columns in self._tails.values()]
        return min(((seq, step) for seq, step in firsts if step is not None), default=(0, None))[1]

    def names(self) -> list[str]:
        names = [name for part in self._parts.values() for name in part.about.names]
        return names + [name for _, columns in self._tails.values() for name in columns.names()]

    def has(self, name: str) -> bool:
        return any(name in part.about.names for part in self._parts.values()) or any(
            name in columns for _, columns in self._tails.values()
        )

    def column(self, name: str) -> Column:
        return by_seq(join(self._pieces(lambda part: part.column(name), lambda tail: tail.column(name))))

    def places(self, name: str) -> Iterator[tuple[Steps, Floats]]:
        """The steps and values of a series, piece by piece."""

        def places_of(tail: Columns) -> tuple[Steps, Floats]:
            column = by_seq(tail.column(name))
            return column.steps, column.values

        return self._pieces(lambda part: part.places(name), places_of)

    def times(self, seqs: Ints) -> Ints:
        """When the records with these numbers were logged; all of them are sorted again only when more arrive."""
        clocks = list(self._pieces(lambda part: part.clock, Columns.clock))
        if self._clock is None or len(self._clock[0]) != sum(len(part) for part, _ in clocks):
            all_seqs = np.concatenate([part for part, _ in clocks])
            order = np.argsort(all_seqs, kind="stable")
            self._clock = all_seqs[order], np.concatenate([times for _, times in clocks])[order]
        all_seqs, all_times = self._clock
        times: Ints = all_times[np.searchsorted(all_seqs, seqs)]
        return times

    def _pieces(self, of_part: Callable[[Part], T], of_tail: Callable[[Columns], T]) -> Iterator[T]:
        """Something of every segment: of its part, if it has one that is whole, and of its tail."""
        for number in sorted(self._tails):
            if number in self._parts:
                try:
                    yield of_part(self._parts[number])
                except BrokenPart:
                    self._drop_part(number)
            yield of_tail(self._tails[number][1])

    def _drop_part(self, number: int) -> None:
        """Read all of a segment instead of its broken part."""
        del self._parts[number]
        self._tails[number] = Scanner(self._tails[number][0].path), Columns()
        self._read_tail(number)

    def _read_tail(self, number: int) -> None:
        scanner, columns = self._tails[number]
        for record in scanner.read():
            columns.feed(record)
            self.end = max(self.end, record.time)
            self._note_start(record)

    def _note_start(self, record: AnyRecord) -> None:
        if isinstance(record, records.Attempt):
            self.launch, self.start = record.launch, record.time
