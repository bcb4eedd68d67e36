"""One segment of a journal as a reader sees it: its part, if it has one, and the tail beyond it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from chiplog.core.records import AnyRecord
from chiplog.store import layout
from chiplog.store.journal import lines
from chiplog.store.journal.lines import Scanner
from chiplog.store.journal.tail import stream_key
from chiplog.store.layout import Segment
from chiplog.store.parts.errors import BrokenPart

if TYPE_CHECKING:
    from chiplog.store.parts.part import Part

T = TypeVar("T")


class SegmentContents:
    """A segment of one run. Its part is opened on first use, even if it appears later."""

    def __init__(self, run: Path, segment: Segment) -> None:
        self.segment = segment
        self.path = run / layout.JOURNAL / segment.filename
        self._run = run
        self._part: Part | None = None

    @property
    def stream(self) -> str:
        """The rank and attempt it belongs to."""
        return stream_key(self.segment)

    @property
    def part(self) -> Part | None:
        """Its part, if it is whole and pyarrow can be imported; otherwise the journal holds the same."""
        if self._part is None and layout.has_part(self._run, self.segment):
            try:
                from chiplog.store.parts.part import load  # a journal can be read without pyarrow
            except ImportError:
                return None
            self._part = load(self._run, self.segment)
        return self._part

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
    ordered = sorted(layout.segments(run), key=lambda one: (one.attempt, one.rank, one.number))
    return [SegmentContents(run, segment) for segment in ordered]
