"""Parts that a reader keeps for itself, of segments that have none: those of a run that was killed, or still runs.

They are in a folder of the user's, never in a run, and may be deleted at any time. The name of a part is made from the
identity of its segment's file, so a segment that has changed since is decoded again.
"""

from __future__ import annotations

import os
import shutil
from hashlib import sha256
from pathlib import Path

from chiplog.store import layout
from chiplog.store.layout import Segment
from chiplog.store.parts.compaction import write_part
from chiplog.store.parts.errors import BrokenPart
from chiplog.store.parts.part import Part, load

MOST = 4 << 30  # bytes in the cache; the parts that were not used for longest go first
_FOLDER = "parts"


def part(run: Path, segment: Segment, cache: Path | None) -> Part | None:
    """The part of a segment in its run, or else in the cache, written if it is not there yet."""
    published = load(run, segment)
    if published is not None or cache is None:
        return published
    try:
        return _cached(run / layout.JOURNAL / segment.filename, segment, cache / _FOLDER)
    except OSError:  # whatever goes wrong here, the journal is read instead
        return None


def _cached(journal: Path, segment: Segment, cache: Path) -> Part | None:
    folder = cache / _key(journal, segment)
    part = _load(folder, segment)
    if part is None:
        shutil.rmtree(folder, ignore_errors=True)  # damaged, or unfinished
        write_part(journal, segment, folder)
        _make_room(cache)
        part = _load(folder, segment)
        if part is None or _key(journal, segment) != folder.name:  # it has changed meanwhile
            return None
    os.utime(folder)
    return part


def _key(journal: Path, segment: Segment) -> str:
    """What a segment's file is: another one, or one that has changed, has another key."""
    status = journal.lstat()
    identity = status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns, segment.stem
    return sha256(repr(identity).encode()).hexdigest()[:32]


def _load(folder: Path, segment: Segment) -> Part | None:
    try:
        return Part(folder, segment)
    except BrokenPart:
        return None


def _make_room(cache: Path) -> None:
    """Delete the parts that were not used for longest, until the others fit."""
    used = sorted(((entry.stat().st_mtime, Path(entry)) for entry in os.scandir(cache)), reverse=True)
    total = 0
    for _, folder in used:
        total += sum(entry.stat().st_size for entry in os.scandir(folder))
        if total > MOST:
            shutil.rmtree(folder, ignore_errors=True)
