"""What a run is doing: judged from its journal's first and last lines and its heartbeat, never from a stored flag."""

from __future__ import annotations

import os
import socket
import time
from pathlib import Path
from typing import NamedTuple

from chiplog.core import records
from chiplog.core.records import AnyRecord
from chiplog.store import layout, lines, process
from chiplog.store.layout import Segment

LOST = 60.0  # s without a beat
END = 64 << 10  # bytes looked at from the end


class AttemptState(NamedTuple):
    """One start of a run, of one rank."""

    rank: int
    attempt: int
    start: records.Attempt | None
    finish: records.Finish | None
    last: AnyRecord | None
    beat: float  # seconds since the epoch
    state: str
    first_bytes: int = 0

    @property
    def launch(self) -> str:
        return self.start.launch if self.start else f"a{self.attempt:02d}"


def attempts(run: Path, *, rank: int | None = None) -> list[AttemptState]:
    """All attempts of a run, oldest first; of one rank, or of all."""
    streams: dict[tuple[int, int], list[Segment]] = {}
    for segment in layout.segments(run):
        if rank in (None, segment.rank):
            streams.setdefault((segment.rank, segment.attempt), []).append(segment)
    found = [_attempt(run, segments) for segments in streams.values()]
    return sorted(found, key=lambda one: (one.start.time if one.start else 0, one.attempt, one.rank))


def state(run: Path) -> str:
    """running, finished, failed, interrupted, killed or lost; empty when nothing was ever written."""
    ranks = {segment.rank for segment in layout.segments(run)}
    if not ranks:
        return "empty"
    main = attempts(run, rank=min(ranks))
    return "running" if any(one.state == "running" for one in main) else main[-1].state


def _attempt(run: Path, segments: list[Segment]) -> AttemptState:
    first, newest = segments[0], segments[-1]
    start = next(lines.Scanner(lines.located(run / layout.JOURNAL / first.filename)).read(), None)
    start = start if isinstance(start, records.Attempt) else None
    path = lines.located(run / layout.JOURNAL / newest.filename)
    last, finish = _ending(path)
    try:
        beat = path.stat().st_mtime
    except OSError:
        beat = 0.0
    return AttemptState(first.rank, first.attempt, start, finish, last, beat, _judge(start, finish, beat))


def _judge(start: records.Attempt | None, finish: records.Finish | None, beat: float) -> str:
    if finish is not None:
        return finish.state
    here = start is not None and start.host == socket.gethostname() and start.boot in ("", process.boot_id())
    if here and start is not None:
        return "running" if process.alive(start.pid, start.born) else "killed"
    return "running" if time.time() - beat < LOST else "lost"


def _ending(path: Path) -> tuple[AnyRecord | None, records.Finish | None]:
    """The last record of a segment, and the finish record if there is one near the end."""
    try:
        size = os.path.getsize(path)
    except OSError:
        return None, None
    last, finish = None, None
    for look in (END, 1 << 20):
        scanner = lines.Scanner(path, max(0, size - look) if path.suffix != ".zst" else 0)
        for record in scanner.read():
            if last is None or record.seq >= last.seq:
                last = record
            if isinstance(record, records.Finish):
                finish = record
        if last is not None or size <= look:
            break
    return last, finish
