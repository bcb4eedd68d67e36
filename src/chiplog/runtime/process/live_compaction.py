"""Has the segments of a live journal compacted as they close, so that a run of any size and age opens at once."""

from __future__ import annotations

from collections.abc import Mapping

from chiplog.store import layout
from chiplog.store.journal.writer import Journal
from chiplog.store.layout import Segment

LONG = 1 << 20  # bytes: a shorter segment is quickly decoded
EVERY = 5.0  # s between looks


class LiveCompaction:
    """The segments of a journal that are closed: by the next one, by its end, or since an earlier attempt."""

    def __init__(self, journal: Journal, environ: Mapping[str, str]) -> None:
        self._journal, self._environ = journal, environ
        self._seen = journal.segment._replace(attempt=1, number=0)

    def __call__(self) -> float:
        """Have them compacted if there are more; returns the seconds until the next look."""
        if self._journal.segment != self._seen:
            self._seen = self._journal.segment
            if any(map(self._is_worth_it, layout.segments(self._journal.run))):
                self._compact(live=True)
        return EVERY

    def compact_all(self) -> None:
        """Have the whole journal compacted, at its end."""
        if self._journal.settled:
            self._compact(live=False)

    def _is_worth_it(self, segment: Segment) -> bool:
        """Whether a segment is closed, long and not compacted; short ones wait for the end of the run."""
        if segment == self._seen or layout.has_part(self._journal.run, segment):
            return False
        try:
            return (self._journal.run / layout.JOURNAL / segment.filename).stat().st_size >= LONG
        except OSError:  # compressed, or gone
            return False

    def _compact(self, *, live: bool) -> None:
        from chiplog.runtime.process.start_compaction import compact_beside  # imports subprocess, which takes a while

        compact_beside(self._journal.run, self._environ, live=live)
