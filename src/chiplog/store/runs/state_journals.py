"""The journals of a run as its state needs them: listed once, and their ends decoded once."""

from __future__ import annotations

import os
import stat
from bisect import bisect_left
from collections.abc import Collection, Iterator
from operator import itemgetter
from pathlib import Path

from chiplog.core.files import reading
from chiplog.core.records import AnyRecord
from chiplog.store import layout
from chiplog.store.contents.segment import SegmentContents
from chiplog.store.journal import lines
from chiplog.store.layout import Segment

SHORT = 64 << 10  # bytes: a shorter journal is decoded as a whole
FIRST = 8 << 10  # bytes that usually hold the first record


class StateJournals:
    """The segments of a run as of now, of all ranks or some; a segment may be compressed."""

    def __init__(self, run: Path, ranks: Collection[int] | None = None) -> None:
        self.run = run

        def wanted(name: str) -> bool:
            return ranks is None or ((segment := layout.parse_segment(name)) is not None and segment.rank in ranks)

        self.entries = reading.entries(run, layout.JOURNAL, wanted)
        self._status: dict[Segment, os.stat_result] = {}  # of those that are not compressed
        self._packed: dict[Segment, os.stat_result] = {}
        for name, about in self.entries:
            segment = layout.parse_segment(name)
            if segment is not None:
                (self._packed if name.endswith(".zst") else self._status)[segment] = about
        self.segments = sorted(self._status.keys() | self._packed.keys())
        self._ends: dict[Segment, tuple[int, list[tuple[int, AnyRecord]]]] = {}  # from a byte: (begin, record)

    def streams(self, rank: int | None = None) -> dict[tuple[int, int], list[Segment]]:
        """The segments by rank and attempt; of one rank, or of all."""
        streams: dict[tuple[int, int], list[Segment]] = {}
        for segment in self.segments:
            if rank in (None, segment.rank):
                streams.setdefault((segment.rank, segment.attempt), []).append(segment)
        return streams

    def is_readable(self) -> bool:
        """Whether the first journal is there and may be read."""
        return bool(self.segments) and os.access(self._path(self.segments[0]), os.R_OK)

    def contents(self, segment: Segment) -> SegmentContents:
        return SegmentContents(self.run, segment)

    def is_pruned(self, segment: Segment) -> bool:
        """Whether only its part and a compressed copy are left."""
        return segment not in self._status

    def beat(self, segment: Segment) -> float:
        """When it was written or touched last, in seconds since the epoch."""
        about = self._status.get(segment) or self._packed.get(segment)
        return about.st_mtime if about is not None else 0.0

    def newest_beat(self) -> float:
        return max((about.st_mtime for about in (*self._status.values(), *self._packed.values())), default=0.0)

    def first(self, segment: Segment) -> AnyRecord | None:
        """The first record; reads one line unless that is damaged."""
        if not self.is_pruned(segment) and self._size(segment) <= SHORT:
            return next((records[0] for records in self.endings(segment, SHORT) if records), None)
        path = lines.located(self._path(segment))
        record = None
        try:
            with lines.open_plain(path) as file:
                record = lines.unseal(file.read(FIRST).partition(b"\n")[0])
        except OSError:
            pass
        return record or next(lines.Scanner(path).read(), None)

    def endings(self, segment: Segment, *looks: int) -> Iterator[list[AnyRecord]]:
        """The end of a journal, in growing sizes up to the whole; nothing of a compressed one."""
        if self.is_pruned(segment) or not stat.S_ISREG(self._status[segment].st_mode):
            return
        size = self._size(segment)
        for look in looks:
            yield self._from(segment, max(0, size - look), 0 if size <= SHORT else max(0, size - look))
            if size <= look:
                return

    def stamps(self) -> list[str]:
        """What changes whenever a journal is written."""
        return sorted(
            f"{name} {about.st_size} {about.st_mtime_ns} {about.st_mode}"
            for name, about in self.entries
            if layout.parse_segment(name)
        )

    def _from(self, segment: Segment, wanted: int, read_from: int) -> list[AnyRecord]:
        """The records of the lines that begin at a byte or later; decodes more if that saves another look."""
        first, read = self._ends.get(segment, (1 << 62, []))
        if wanted < first:
            read, begin = [], read_from
            for end, record in lines.Scanner(self._path(segment), read_from).read_at():
                read.append((begin, record))
                begin = end
            self._ends[segment] = read_from, read
        later = bisect_left(read, wanted, key=itemgetter(0))
        return [record for _, record in read[later:]]

    def _size(self, segment: Segment) -> int:
        about = self._status.get(segment)
        return about.st_size if about is not None else 0

    def _path(self, segment: Segment) -> Path:
        return self.run / layout.JOURNAL / segment.filename
