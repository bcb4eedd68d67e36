"""One segment of a journal as a reader sees it: its part, if it has one, and the tail beyond it."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from chiplog.core import records
from chiplog.core.records import AnyRecord, Number
from chiplog.store import layout
from chiplog.store.contents.journal_tail import JournalTail, Range
from chiplog.store.journal import lines
from chiplog.store.journal.lines import Damage, Scanner
from chiplog.store.journal.tail import stream_key
from chiplog.store.layout import Segment
from chiplog.store.parts.errors import BrokenPart

if TYPE_CHECKING:
    from chiplog.store.contents.tail_columns import TailColumns
    from chiplog.store.parts.part import Part

SMALL = 1 << 20  # bytes: a shorter segment is decoded as quickly as its part is opened
STILL = 15.0  # s since the last write; a live segment is written at least every 5 s

T = TypeVar("T")


class SegmentContents:
    """A segment of one run. Its part is opened on first use, even if it appears later.

    A segment that no longer grows and has no part gets one in the reader's `cache`, if there is one.
    """

    def __init__(
        self,
        run: Path,
        segment: Segment,
        *,
        points: bool = False,
        kinds: Collection[str] = (),
        cache: Path | None = None,
    ) -> None:
        self.segment = segment
        self.path = run / layout.JOURNAL / segment.filename
        self._run, self._cache = run, cache
        self._points, self._kinds = points, kinds
        self._part: Part | None = None
        self._broken = False
        self._tail: JournalTail | None = None

    @property
    def stream(self) -> str:
        """The rank and attempt it belongs to."""
        return stream_key(self.segment)

    @property
    def part(self) -> Part | None:
        """Its part, if it is whole and pyarrow can be imported; otherwise the journal holds the same.

        One that appears after the tail was read has to wait for `refresh`: its points are in that tail.
        """
        if self._tail is None:
            self._find_part()
        return self._part

    def _find_part(self) -> None:
        if self._part is None and not self._broken and (self._has_part() or self._is_worth_a_part()):
            try:
                from chiplog.store.parts import part_cache  # a journal can be read without pyarrow
            except ImportError:
                return
            self._part = part_cache.part(self._run, self.segment, self._cache)

    def _has_part(self) -> bool:
        return layout.has_part(self._run, self.segment)

    def _is_worth_a_part(self) -> bool:
        """Whether there is a cache, and the segment is long and no longer grows."""
        if self._cache is None:
            return False
        try:
            status = self.path.lstat()
        except OSError:
            return False
        return status.st_size >= SMALL and time.time() - status.st_mtime >= STILL

    @property
    def tail(self) -> JournalTail:
        """The journal beyond the part, as of the last `refresh`."""
        return self._tail if self._tail is not None else self.refresh()

    def refresh(self) -> JournalTail:
        """Read what is new; a part that has appeared since replaces what was decoded."""
        before = self._part
        self._find_part()
        part = self._part
        if self._tail is None or part is not before:
            scanner = part.beyond(self.path) if part is not None else Scanner(self.path)
            self._tail = JournalTail(scanner, collected=_collected() if self._points else None, kinds=self._kinds)
        self._tail.refresh()
        return self._tail

    def drop_part(self) -> None:
        """Read all of the journal instead of a part that is broken."""
        self._part, self._broken, self._tail = None, True, None
        self.refresh()

    def ask(self, of_part: Callable[[Part], T]) -> Iterator[T]:
        """What the part answers, if there is one; one that is broken is dropped, and its records are in the tail."""
        if self.part is not None:
            try:
                yield of_part(self.part)
            except BrokenPart:
                self.drop_part()

    def last_values(self) -> Iterator[tuple[str, int, Number]]:
        """(name, seq, value) of the last point of every series in the part, and then of those in the tail."""
        for values in self.ask(lambda part: list(part.last())):
            yield from values
        if self.tail.collected is not None:
            yield from self.tail.collected.points.last()
        else:  # without numpy
            for record in self.query(lambda _: ())[1].read():
                yield from ((name, record.seq, value) for name, value in records.points(record))

    @property
    def ranges(self) -> list[Range]:
        """The `seq` numbers of its records."""
        in_part = [one for ranges in self.ask(lambda part: part.ranges) for one in ranges]
        return in_part + self.tail.ranges

    @property
    def damage(self) -> list[Damage]:
        """Bytes that cannot be read, by range."""
        damage = [] if self.part is None else [Damage(self.segment.filename, *one) for one in self.part.about.damage]
        if self.part is not None and self.pruned and not lines.located(self.path).stat().st_size:
            # The part has its numbers, not its records.
            damage.append(Damage(self.segment.filename, 0, self.part.about.covers, "compressed copy is empty"))
        return damage + self.tail.scanner.damage

    @property
    def pruned(self) -> bool:
        """Whether only its part and a compressed copy are left."""
        return lines.located(self.path) != self.path

    def query(self, of_part: Callable[[Part], Iterable[T]]) -> tuple[Iterable[T], Scanner]:
        """What the part returns, and a scanner for the tail; without a whole part, nothing and a scanner for all."""
        part = self.part
        if part is not None:
            try:
                return of_part(part), part.beyond(self.path)
            except BrokenPart:
                pass
        return (), Scanner(self.path)

    def records(self, *kinds: str) -> Iterator[AnyRecord]:
        """All its records; with rare `kinds`, only those from the part, then all records beyond it."""
        if not kinds:
            yield from Scanner(self.path).read()
            return
        rows, scanner = self.query(lambda part: part.rows(*kinds))
        yield from rows
        yield from scanner.read()

    def table(self, name: str) -> Iterator[AnyRecord]:
        """The records of a table, then all records beyond the part; never loads a whole part at once."""
        rows, scanner = self.query(lambda part: part.table(name))
        yielded: set[int] = set()
        try:
            for record in rows:
                yielded.add(record.seq)
                yield record
        except Exception:  # a later page is damaged; the segment has the rest
            scanner = Scanner(self.path)
        yield from (record for record in scanner.read() if record.seq not in yielded)


def segments(run: Path) -> list[SegmentContents]:
    """The segments of a run by attempt, rank and number."""
    return [SegmentContents(run, segment) for segment in by_attempt(layout.segments(run))]


def by_attempt(segments: Iterable[Segment]) -> list[Segment]:
    """Segments by attempt, rank and number."""
    return sorted(segments, key=lambda one: (one.attempt, one.rank, one.number))


def _collected() -> TailColumns | None:
    try:
        from chiplog.store.contents.tail_columns import TailColumns
    except ImportError:  # without numpy there are no series
        return None
    return TailColumns()
