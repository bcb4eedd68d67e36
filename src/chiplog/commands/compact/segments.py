"""The segments of a run that `chiplog compact` may compact and prune, and what it prints about each."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from chiplog.core import display, messages
from chiplog.core.files import reading
from chiplog.sinks.shared.lease import Lease
from chiplog.store import layout
from chiplog.store.journal import lines
from chiplog.store.journal.cursors import cursors
from chiplog.store.layout import Segment
from chiplog.store.parts import compaction
from chiplog.store.parts.part import load
from chiplog.store.runs import state
from chiplog.store.runs.state_journals import StateJournals

OVER = ("finished", "failed", "interrupted", "killed", "ended")  # a lost attempt may still run on another machine


class Claim:
    """The right to compact a run: of one process at a time, however often the run is resumed."""

    def __init__(self, path: Path, lease: Lease) -> None:
        self._path, self._lease = path, lease
        self._seen: set[Segment] = set()

    def renew(self) -> None:
        self._lease.hold()

    def fresh(self) -> dict[Segment, int]:
        """The closed segments that were not returned before, with the bytes that are still to compact."""
        self.renew()
        fresh = [segment for segment in closed(self._path) if segment not in self._seen]
        self._seen.update(fresh)
        return {segment: self._size(segment) for segment in fresh}

    def _size(self, segment: Segment) -> int:
        try:
            done = layout.has_part(self._path, segment)
            return 0 if done else lines.size_of(self._path / layout.JOURNAL / segment.filename)
        except OSError:  # compressed, or gone
            return 0


@contextmanager
def claimed(path: Path, quiet: bool) -> Iterator[Claim | None]:
    """A claim on a run that has closed segments; None if it has none, or another process is compacting it."""
    if not closed(path):
        yield None
        return
    lease = Lease(path / layout.PARTS / "compact.lease")
    if not lease.hold():
        if not quiet:
            messages.say(f"another process is compacting {path.parent.name}/{path.name}")
        yield None
        return
    try:
        yield Claim(path, lease)
    finally:
        lease.release()


def work_on(path: Path, segment: Segment, *, prune: bool) -> list[str]:
    """Compact a segment, and prune it if asked; lines about what was done."""
    return [*compact(path, segment), *(_prune(path, segment) if prune else ())]


def closed(path: Path) -> list[Segment]:
    """The segments that no longer grow: a later one exists, or the attempt has ended."""
    segments = layout.segments(path)
    running = {(one.rank, one.attempt) for one in state.journals(path) if one.state == "running"}
    newest = {(segment.rank, segment.attempt): segment for segment in segments}
    return [
        segment
        for segment in segments
        if (segment.rank, segment.attempt) not in running or segment != newest[segment.rank, segment.attempt]
    ]


def compact(path: Path, segment: Segment) -> Iterator[str]:
    """Compact a segment, unless it is; one line about the sizes."""
    file = path / layout.JOURNAL / segment.filename
    if compaction.compact(path, segment):
        parts = reading.entries(path, layout.PARTS)
        after = sum(about.st_size for name, about in parts if name.startswith(f"{segment.stem}."))
        yield _sizes(lines.size_of(file), after)


def _prune(path: Path, segment: Segment) -> Iterator[str]:
    """Compress a segment's journal if nothing needs it; one line about the sizes, or why it stays."""
    file = path / layout.JOURNAL / segment.filename
    try:
        before = lines.size_of(file)
    except OSError:
        return  # pruned already, or not a file
    if (reason := kept(path, segment, before)) is not None:
        yield f"journal kept: {reason}"
    elif compaction.prune(path, segment):
        yield f"journal {_sizes(before, lines.size_of(file.with_name(f'{file.name}.zst')))}"


def kept(path: Path, segment: Segment, size: int) -> str | None:
    """Why a segment must stay as it is; None if it may be compressed."""
    own = StateJournals(path, {segment.rank})  # a large run has thousands of other ranks
    states = {(one.rank, one.attempt): one.state for one in state.journals(path, files=own)}
    if (attempt_state := states.get((segment.rank, segment.attempt), "lost")) not in OVER:
        return f"its attempt is {attempt_state}"
    part = load(path, segment)
    if part is None:
        return "its part cannot be read"
    if part.about.covers != size:
        return f"its part covers {display.count(part.about.covers)} of {display.count(size)} bytes"
    waiting = [sink.name for sink in cursors(path) if sink.needs(segment, size)]
    return f"not yet delivered to {', '.join(waiting)}" if waiting else None


def _sizes(before: int, after: int) -> str:
    ratio = f"{before / after:.1f}x smaller" if before >= after > 0 else f"{after / max(1, before):.1f}x larger"
    return f"{display.size(before)} -> {display.size(after)}  {ratio}"
