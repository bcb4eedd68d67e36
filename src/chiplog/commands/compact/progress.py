"""The progress of compacting a large run, on stderr if that is a terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from chiplog.core import display
from chiplog.store.layout import Segment

LONG = 32 << 20  # bytes of journal; less is done before anybody reads about it
WIPE = "\r\x1b[K"


class CompactionProgress:
    """A line that changes with the segments that are done; nothing for short work or without a terminal."""

    def __init__(self, label: str, sizes: Mapping[Segment, int], *, quiet: bool) -> None:
        self._label, self._sizes = label, sizes
        self._total, self._done, self._began = sum(sizes.values()), 0, time.monotonic()
        self._shown = not quiet and self._total >= LONG and sys.stderr.isatty()

    def add(self, segment: Segment) -> None:
        """Count a segment as done."""
        self._done += self._sizes.get(segment, 0)

    def show(self) -> None:
        if not self._shown:
            return
        seconds = time.monotonic() - self._began
        share = self._done / self._total
        left = f"  {display.duration(seconds / share - seconds)} left" if share else ""
        _write(f"{WIPE}{self._label}  compacting {display.size(self._total)}  {share:.0%}{left}")

    @contextmanager
    def wiped(self) -> Iterator[None]:
        """Without the line, for other output."""
        if self._shown:
            _write(WIPE)
        yield


def _write(text: str) -> None:
    sys.stderr.write(text)
    sys.stderr.flush()
