"""The segments of one run, each decoded once, for everything that reads the run."""

from __future__ import annotations

import threading
from collections.abc import Collection
from pathlib import Path

from chiplog.store import layout
from chiplog.store.contents.segment import SegmentContents, by_attempt
from chiplog.store.layout import Segment


class RunSegments:
    """The segments of a run, with their points or without, and with other records of all kinds or some.

    Hold `lock` while reading from several threads.
    """

    def __init__(
        self, run: Path, *, points: bool = True, kinds: Collection[str] = (), cache: Path | None = None
    ) -> None:
        self.run = run
        self.lock = threading.RLock()
        self._points, self._kinds, self._cache = points, kinds, cache
        self._segments: dict[Segment, SegmentContents] = {}

    def __call__(self, ranks: Collection[int] | None = None) -> list[SegmentContents]:
        """The segments by attempt, rank and number; of all ranks or some."""
        chosen = [one for one in layout.segments(self.run) if ranks is None or one.rank in ranks]
        return [self.one(segment) for segment in by_attempt(chosen)]

    def one(self, segment: Segment) -> SegmentContents:
        """A segment; the same object every time."""
        if segment not in self._segments:
            self._segments[segment] = SegmentContents(
                self.run, segment, points=self._points, kinds=self._kinds, cache=self._cache
            )
        return self._segments[segment]
