"""The points of one stream: the parts of its segments, and the tails beyond them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from operator import itemgetter
from typing import TypeVar

import numpy as np

from chiplog.core import records
from chiplog.core.records import Number
from chiplog.store.contents.segment import SegmentContents
from chiplog.store.parts.part import Part
from chiplog.store.points.blocks import Blocks, each
from chiplog.store.points.columns import Column, Columns, Floats, Ints, Steps, by_seq, join, last_of, take
from chiplog.store.points.hidden_points import before

T = TypeVar("T")


class StreamPoints:
    """All series of one rank in one attempt; `refresh` reads what is new in one of its segments."""

    def __init__(self, rank: int, attempt: int) -> None:
        self.rank, self.attempt = rank, attempt
        self.launch = f"a{attempt:02d}"
        self.start = self.end = 0
        self._segments: dict[int, SegmentContents] = {}
        self._clock: tuple[Ints, Ints] | None = None

    def refresh(self, segment: SegmentContents) -> None:
        tail = segment.refresh()
        rows = list(tail.records) if not self.start else []
        if segment.segment.number not in self._segments and not self.start:
            rows += [one for attempts in segment.ask(lambda part: part.rows("attempt")) for one in attempts]
        for record in rows:
            if isinstance(record, records.Attempt):
                self.launch, self.start = record.launch, record.time
        self._segments[segment.segment.number] = segment
        self.end = max(self.end, tail.last_time, segment.part.about.last_time if segment.part is not None else 0)

    @property
    def first_step(self) -> Number | None:
        """The step of the first row that was logged with one."""
        firsts = list(
            self._pieces(
                lambda part: (part.about.first_seq, part.about.first_step),
                lambda columns: (columns.first_seq, columns.first_step),
            )
        )
        return min(((seq, step) for seq, step in firsts if step is not None), default=(0, None))[1]

    def names(self) -> list[str]:
        return [name for names in self._pieces(lambda part: list(part.about.names), Columns.names) for name in names]

    def has(self, name: str) -> bool:
        return any(self._pieces(lambda part: name in part.about.names, lambda columns: name in columns))

    def column(self, name: str) -> Column:
        return by_seq(join(self._pieces(lambda part: part.column(name), lambda tail: tail.column(name))))

    def places(self, name: str) -> Iterator[tuple[Steps, Floats]]:
        """The steps and values of a series, piece by piece."""

        def places_of(tail: Columns) -> tuple[Steps, Floats]:
            column = by_seq(tail.column(name))
            return column.steps, column.values

        return self._pieces(lambda part: part.places(name), places_of)

    def count(self, name: str) -> int:
        """How many points a series has."""
        return sum(self._pieces(lambda part: part.count(name), lambda tail: tail.count(name)))

    def last(self, name: str, limit: Number | None = None) -> Number | None:
        """The last value of a series, exact; with a limit, of the steps before it."""
        if limit is not None:
            column = self.column(name)
            mask = before(column.steps, limit)
            newest = last_of(column if mask is None else take(column, mask))
            return None if newest is None else newest[1]
        lasts = [one for one in self._pieces(lambda part: part.last_of(name), lambda tail: tail.last_of(name)) if one]
        return max(lasts, key=itemgetter(0))[1] if lasts else None

    def blocks(self, name: str, limit: Number | None) -> Iterator[Blocks]:
        """A series before a limit, piece by piece: in the blocks of its part, or else in blocks of one point."""

        def of_part(part: Part) -> Blocks:
            blocks = part.blocks(name)
            if blocks is not None and (limit is None or bool(np.all(blocks.high < limit))):
                return blocks
            return of_points(*part.places(name))

        def of_tail(tail: Columns) -> Blocks:
            column = tail.column(name)
            order = np.lexsort((column.seqs, column.steps))
            return of_points(column.steps[order], column.values[order])

        def of_points(steps: Steps, values: Floats) -> Blocks:
            mask = before(steps, limit)
            return each(steps, values) if mask is None else each(steps[mask], values[mask])

        return self._pieces(of_part, of_tail)

    def last_time(self, name: str) -> int:
        """When the last point of a series was logged; 0 if there is none. Reads the clock of one segment."""

        def of_part(part: Part) -> int:
            where = part.about.names.get(name)
            return 0 if where is None else _time(where.last_seq, *part.clock)

        def of_tail(tail: Columns) -> int:
            return _time(int(tail.column(name).seqs.max()), *tail.clock()) if name in tail else 0

        for number in sorted(self._segments, reverse=True):
            segment = self._segments[number]
            latest = max([*segment.ask(of_part), of_tail(_tail_of(segment))])
            if latest:
                return latest
        return 0

    def times(self, seqs: Ints) -> Ints:
        """When the records with these numbers were logged; all of them are sorted again only when more arrive."""
        clocks = list(self._pieces(lambda part: part.clock, Columns.clock))
        if self._clock is None or len(self._clock[0]) != sum(len(part) for part, _ in clocks):
            all_seqs = np.concatenate([part for part, _ in clocks])
            order = np.argsort(all_seqs, kind="stable")
            self._clock = all_seqs[order], np.concatenate([times for _, times in clocks])[order]
        all_seqs, all_times = self._clock
        if not len(all_seqs):
            return np.zeros(len(seqs), np.int64)
        times: Ints = all_times[np.minimum(np.searchsorted(all_seqs, seqs), len(all_seqs) - 1)]
        return times

    def _pieces(self, of_part: Callable[[Part], T], of_tail: Callable[[Columns], T]) -> Iterator[T]:
        """Something of every segment: of its part, if it has one that is whole, and of its tail."""
        for number in sorted(self._segments):
            segment = self._segments[number]
            yield from segment.ask(of_part)
            yield of_tail(_tail_of(segment))


def _tail_of(segment: SegmentContents) -> Columns:
    collected = segment.tail.collected
    assert collected is not None, "points were asked for"
    return collected.points


def _time(seq: int, seqs: Ints, times: Ints) -> int:
    """The time of a record, from those of all."""
    matching = times[seqs == seq]
    return int(matching[-1]) if len(matching) else 0
