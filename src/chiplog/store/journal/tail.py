"""Reads a journal from a position as it grows, for sinks and `follow`."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path

from chiplog.core.records import AnyRecord
from chiplog.store import layout
from chiplog.store.journal.lines import Damage, Scanner, size_of
from chiplog.store.layout import Segment

# By rank and attempt, "r00000-a01": the segment, the byte reached in it, and the byte reached in the one before, which
# may still grow a little after the next one has started.
Position = tuple[int, int, int]
Positions = dict[str, Position]
BATCH = 1 << 20  # bytes of journal per batch
LIST_EVERY = 2.0  # s between searches for new journals


class Tail:
    """The records of a run's journals, each once, in order of arrival; of one rank, or of all."""

    def __init__(
        self,
        run: Path,
        *,
        rank: int | None = None,
        attempt: int | None = None,
        positions: Mapping[str, Position] | None = None,
    ) -> None:
        self._run, self._rank, self._attempt = run, rank, attempt
        self._streams: dict[str, _Stream] = {}
        self._start = dict(positions or {})
        self._listed = float("-inf")
        self.more = False  # the last read stopped at its limit: more is available at once
        self.source = Segment(0, 0, 0)  # the source of the last batch, which has one rank and attempt
        self.find_journals()

    def read(self, limit: int = BATCH) -> list[AnyRecord]:
        """The next records, about `limit` bytes of them; empty if there are none yet."""
        if time.monotonic() - self._listed > LIST_EVERY:
            self.find_journals()
        for stream in self._streams.values():
            before = stream.position
            if batch := stream.read(limit):
                self.source = stream.segment
                self.more = (
                    len(self._streams) > 1 or stream.position[1] - before[1] >= limit or before[0] != stream.position[0]
                )
                return batch
        self.more = False
        return []

    def positions(self) -> Positions:
        """The current positions; a Tail created with them continues from there."""
        return {**self._start, **{key: stream.position for key, stream in self._streams.items()}}

    def lag(self) -> int:
        """How many bytes have not been read."""
        return sum(stream.lag() for stream in self._streams.values())

    @property
    def damage(self) -> list[Damage]:
        return [damage for stream in self._streams.values() for damage in stream.damage]

    def find_journals(self) -> None:
        """Find new journals."""
        self._listed = time.monotonic()
        for segment in layout.segments(self._run):
            key = stream_key(segment)
            if (
                key not in self._streams
                and self._rank in (None, segment.rank)
                and self._attempt in (None, segment.attempt)
            ):
                self._streams[key] = _Stream(self._run, segment, self._start.get(key, (0, 0, -1)))


class _Stream:
    """The segments of one rank and attempt, in order.

    A write in progress when the next segment starts still ends in the previous one, so that one is checked too.
    """

    def __init__(self, run: Path, segment: Segment, position: Position) -> None:
        self._folder = run / layout.JOURNAL
        number, byte, before = position
        self.segment = segment._replace(number=number)
        self._scanner = Scanner(self._folder / self.segment.filename, byte)
        self._before: Scanner | None = None
        if before >= 0 and number > 0:
            self._before = Scanner(self._folder / self.segment._replace(number=number - 1).filename, before)
        self._damage: list[Damage] = []

    @property
    def position(self) -> Position:
        return self.segment.number, self._scanner.offset, self._before.offset if self._before else -1

    @property
    def damage(self) -> list[Damage]:
        return self._damage + (self._before.damage if self._before else []) + self._scanner.damage

    def read(self, limit: int) -> list[AnyRecord]:
        batch = list(self._before.read(limit)) if self._before else []
        batch += self._scanner.read(limit)
        if not batch:
            following = self.segment._replace(number=self.segment.number + 1)
            path = f"{self._folder}/{following.filename}"
            if os.path.lexists(path) or os.path.lexists(f"{path}.zst"):  # called five times per second
                # What was written between our last read and the start of the next segment.
                batch = list(self._scanner.read(limit))
                if batch:
                    return batch
                self._damage += self._before.damage if self._before else []
                self._before = self._scanner
                self.segment = following
                self._scanner = Scanner(self._folder / following.filename)
                batch = list(self._scanner.read(limit))
        return batch

    def lag(self) -> int:
        lag = -self._scanner.offset
        segment = self.segment
        while True:
            try:
                lag += size_of(self._folder / segment.filename)
            except OSError:
                return max(0, lag)
            segment = segment._replace(number=segment.number + 1)


def stream_key(segment: Segment) -> str:
    return f"r{segment.rank:05d}-a{segment.attempt:02d}"


def near_end(run: Path, size: int) -> Positions:
    """Positions at most `size` bytes before the end of each journal; a partial first line is skipped."""
    positions: Positions = {}
    for segment in layout.segments(run):  # the newest of each attempt is last
        try:
            end = size_of(run / layout.JOURNAL / segment.filename)
        except OSError:
            end = 0  # compressed, so it no longer grows
        positions[stream_key(segment)] = segment.number, max(0, end - size), -1
    return positions
