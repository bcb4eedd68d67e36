"""Opens the runs of other trackers in place: converted into the user's cache, and brought up to date when they change.

Nothing is ever written next to the source. The runs of a source are an ordinary directory of runs in the
cache, so everything that reads runs reads it; it may be deleted at any time.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from chiplog.core import messages
from chiplog.core.files import reading, writing
from chiplog.core.paths import make_dir
from chiplog.core.values.text import words
from chiplog.store.foreign import conversion, registry
from chiplog.store.foreign.protocol import ForeignRun, digest

MOST = 8 << 30  # bytes of all cached runs; those that were not opened for longest go first
FOLDER = "foreign"
INDEX = "index.json"

Progress = Callable[[ForeignRun, int, int, float], None]  # which run, its number, of how many, the share of it


class CachedRun(msgspec.Struct, array_like=True):
    """A run in the cache: its place, the state of its source when it was read, and whether more may come of itself."""

    place: str
    stamp: str
    settled: bool


def refresh(path: Path, cache: Path, progress: Progress | None = None) -> Path | None:
    """Bring the runs of a foreign path up to date, and return their directory; None if there are none."""
    runs = registry.find(path)
    if not runs:
        return None
    root = cache / FOLDER / digest(os.path.realpath(path))
    make_dir(root)
    with _alone(root):
        before = _load(root)
        now: dict[str, CachedRun] = {}
        for number, run in enumerate(runs):
            stamp = run.stamp()
            one = before.get(run.key)
            if one is None or one.stamp != stamp or not one.settled or not (root / one.place).is_dir():
                try:
                    one = _convert(run, root, stamp, _share(progress, run, number, len(runs)))
                except Exception as error:  # one run never takes the others with it
                    messages.once(f"foreign {run.key}", f"{run.path} cannot be converted: {words(error)}")
            if one is not None:
                now[run.key] = one
        if now != before:
            _remove(root, {one.place for one in before.values()} - {one.place for one in now.values()})
            writing.replace(root, INDEX, msgspec.json.encode(now))
            _make_room(cache / FOLDER, root)
    os.utime(root)
    return root


def _convert(run: ForeignRun, root: Path, stamp: str, progress: conversion.Progress | None) -> CachedRun:
    done = conversion.convert(run, root, progress=progress)
    source = conversion.load(done.run)
    return CachedRun(str(done.run.relative_to(root)), stamp, source is not None and source.settled)


def _share(progress: Progress | None, run: ForeignRun, number: int, count: int) -> conversion.Progress | None:
    return None if progress is None else lambda share: progress(run, number, count, share)


def _load(root: Path) -> dict[str, CachedRun]:
    try:
        return msgspec.json.decode(reading.read_bytes(root, INDEX, 1 << 28), type=dict[str, CachedRun])
    except (OSError, ValueError):
        return {}


def _remove(root: Path, places: set[str]) -> None:
    """Remove runs whose source is gone."""
    for place in places:
        shutil.rmtree(root / place, ignore_errors=True)


def _make_room(folder: Path, current: Path) -> None:
    total = 0
    for cached in sorted(folder.iterdir(), key=lambda path: path.stat().st_mtime, reverse=True):
        total += sum(path.stat().st_size for path in cached.rglob("*") if path.is_file())
        if total > MOST and cached != current:
            shutil.rmtree(cached, ignore_errors=True)


@contextmanager
def _alone(root: Path) -> Iterator[None]:
    """Keep other processes from converting into the same directory meanwhile."""
    try:
        import fcntl
    except ImportError:  # Windows, which writes no runs
        yield
        return
    fd = os.open(root / ".lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)
