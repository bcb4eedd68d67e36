"""What a foreign format is: a function that finds runs in a folder, and runs that become records.

A format is a module in `formats` with a function `find(folder)`. It looks at the files, never only at their names, and
never writes next to them. What it cannot keep it reports, with a reason.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import Protocol, TypeAlias

from chiplog.core.records import Known, Plain
from chiplog.store.points.columns import Floats, Ints, Steps

UNKNOWN = ""  # the state of a run whose source does not record one
LATEST = 2**62  # ns; a time beyond it is not one


@dataclass
class About:
    """The identity of a foreign run, as its source has it."""

    project: str
    id: str
    name: str = ""
    created: int = 0  # wall-clock nanoseconds; 0 if only its records tell
    ended: int = 0
    tags: Sequence[str] = ()
    config: dict[str, Plain] = field(default_factory=dict)
    environment: dict[str, Plain] = field(default_factory=dict)
    source: dict[str, Plain] = field(default_factory=dict)  # what has no field here: group, notes, parent
    summary: dict[str, Plain] = field(default_factory=dict)
    state: str = UNKNOWN
    reason: str = ""


@dataclass
class Points:
    """Many points at once, one per row: `names[which[i]]` had `values[i]` at `steps[i]`."""

    names: list[str]
    which: Ints
    steps: Steps
    times: Ints
    values: Floats


@dataclass
class Restart:
    """The source was started again, at a step from which on the earlier points no longer count."""

    time: int
    step: int | float | None = None


@dataclass
class Position:
    """Everything before it has been read; `value` is where to continue, as plain data."""

    value: Plain
    done: float = 0.0  # the share of the source that has been read, for progress


@dataclass
class MediaFile:
    """A file of the source that belongs in the run: `path` is inside the folder, or `data` is its contents."""

    name: str
    time: int
    suffix: str
    media: str
    folder: Path | None = None
    path: str = ""
    data: bytes = b""
    step: int | float | None = None
    caption: str = ""


class Rewritten(Exception):
    """A source no longer starts as it did: what was read from it before belongs to an earlier attempt."""


Item: TypeAlias = Known | Points | Restart | Position | MediaFile  # the `seq` of a record is ignored


class Losses:
    """What could not be kept of a run: reasons, and how often."""

    def __init__(self, counts: dict[str, int] | None = None) -> None:
        self.counts = dict(counts or {})

    def add(self, reason: str, count: int = 1) -> None:
        self.counts[reason] = self.counts.get(reason, 0) + count

    def set(self, reason: str, count: int) -> None:
        """For what is known only at the end, and may be mended by then: an unfinished record."""
        self.counts.pop(reason, None)
        if count:
            self.counts[reason] = count


@dataclass(frozen=True)
class ForeignRun:
    """One run of a foreign store. `key` is its identity, the same wherever the store is opened from."""

    format: str
    key: str
    path: Path  # for people, and its default name
    files: tuple[Path, ...]  # that it is read from: if none has changed, neither has the run
    about: Callable[[Plain], About]  # as far as a position knows; None is before the start
    read: Callable[[Plain, Losses], Iterator[Item]]  # from a position; None is the start
    version: str = ""  # of what is read, if the files alone do not tell

    @classmethod
    def in_file(
        cls, name: str, path: Path, about: Callable[[Path, Plain], About],
        read: Callable[[Path, Plain, Losses], Iterator[Item]],
    ) -> ForeignRun:  # fmt: skip
        """The run that one file holds."""
        return cls(name, f"{name}:{path.resolve()}", path, (path,), partial(about, path), partial(read, path))

    def stamp(self) -> str:
        """Changes whenever the source does."""
        parts = [self.version]
        for path in self.files:
            try:
                about = path.stat()
                parts.append(f"{path.name} {about.st_size} {about.st_mtime_ns}")
            except OSError:
                parts.append(path.name)
        return digest("\n".join(parts))

    def modified(self) -> float:
        """When the source was last written, in seconds since the epoch."""
        times = [0.0]
        for path in self.files:
            try:
                times.append(path.stat().st_mtime)
            except OSError:
                continue
        return max(times)

    def size(self) -> int:
        total = 0
        for path in self.files:
            try:
                total += path.stat().st_size
            except OSError:
                continue
        return total


@dataclass
class Folder:
    """A folder that may hold foreign runs, listed once for all formats."""

    path: Path
    files: list[str]
    folders: list[str]
    taken: set[str] = field(default_factory=set)  # names that a format has recognised, files and folders

    @classmethod
    def open(cls, path: Path) -> Folder:
        """A folder, or the folder of a file, as if it were the only one."""
        if path.is_file():
            return cls(path.parent, [path.name], [])
        files, folders = [], []
        with os.scandir(path) as entries:
            for entry in entries:
                try:
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(entry.name)
                    elif entry.is_file(follow_symlinks=False):
                        files.append(entry.name)
                except OSError:
                    continue
        return cls(path, sorted(files), sorted(folders))

    def free(self, *endings: str) -> list[str]:
        """The files that no format has recognised so far, with one of these endings."""
        return [name for name in self.files if name not in self.taken and name.lower().endswith(endings)]


class Format(Protocol):
    """A module of `formats`."""

    NAME: str

    def find(self, folder: Folder) -> list[ForeignRun]:
        """The runs of this format in a folder; adds to `taken` what they are read from."""
        ...


def digest(text: str, size: int = 8) -> str:
    return blake2b(text.encode("utf-8", "backslashreplace"), digest_size=size).hexdigest()


def clean_name(name: str) -> str:
    """A name as text that UTF-8 can hold."""
    return name if name.isascii() else name.encode("utf-8", "backslashreplace").decode()


def nanoseconds(seconds: object) -> int:
    """A time in seconds since the epoch as nanoseconds; 0 if it is not one."""
    try:
        time = round(float(seconds) * 1e9)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return 0
    return time if 0 <= time < LATEST else 0
