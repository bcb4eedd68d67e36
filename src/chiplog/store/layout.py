"""The paths inside a run directory, and the names allowed there."""

from __future__ import annotations

import os
import re
import stat
import time
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from chiplog.core.files import reading
from chiplog.core.files.working_directory import outside

_SAFE = re.compile(r"(?!\.)[A-Za-z0-9._-]{1,64}(?<!\.)")
_STREAM = re.compile(r"r([0-9]{5,9})-a[0-9]{2,9}")
_SEGMENT = re.compile(r"r([0-9]{5,9})-a([0-9]{2,9})-([0-9]{4,9})\.jsonl(?:\.zst)?")

IDENTITY = "run.json"
JOURNAL = "journal"
PARTS = "parts"
CURSORS = "cursors"
FILES = "files"
RELAY = "relay"
BASELINES = "baselines"


class Segment(NamedTuple):
    """One journal file of one rank in one attempt."""

    rank: int
    attempt: int
    number: int

    @property
    def stem(self) -> str:
        return f"r{self.rank:05d}-a{self.attempt:02d}-{self.number:04d}"

    @property
    def filename(self) -> str:
        return f"{self.stem}.jsonl"


def parse_segment(filename: str) -> Segment | None:
    match = _SEGMENT.fullmatch(filename)
    return Segment(int(match[1]), int(match[2]), int(match[3])) if match else None


def stream_rank(key: str) -> int | None:
    """The rank of a stream, such as "r00000-a01"; None if this is not the key of one."""
    match = _STREAM.fullmatch(key)
    return int(match[1]) if match else None


def segments(run: Path) -> list[Segment]:
    """All segments of a run by rank, attempt and number; reads only names."""
    try:
        names = reading.names(run, JOURNAL)
    except OSError:
        return []
    return sorted({segment for name in names if (segment := parse_segment(name))})


def reserve(run: Path, rank: int) -> Path:
    """The file whose space the last records of a rank may take on a full disk."""
    return run / JOURNAL / f"r{rank:05d}.reserve"


def has_part(run: Path, segment: Segment) -> bool:
    """Whether a segment has been compacted."""
    return reading.exists(run, f"{PARTS}/{segment.stem}.points.parquet")


def directory(text: str) -> str:
    """The directory of a project or a run with this name: the name itself if that is safe, otherwise a form of its own.

    The directory of a directory's name is that directory.
    """
    if _SAFE.fullmatch(text) and text.lower() not in (JOURNAL, FILES):
        return text
    return f"{slug(text)[:57].strip('-')}-{sha256(text.encode('utf-8', 'backslashreplace')).hexdigest()[:6]}"


def slug(text: str, default: str = "run") -> str:
    """The valid directory name closest to a text."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:64].strip("-") or default


def new_id() -> str:
    """A run id that sorts by time: `261115-213045-7f3a9c`."""
    return f"{time.strftime('%y%m%d-%H%M%S')}-{os.urandom(3).hex()}"


def find_runs(root: Path, project: str | None = None) -> Iterator[Path]:
    """Run directories under `root`, which may be a directory of runs, a project or a run; newest id last.

    Leaves out what this user may not read; `walk` has those too.
    """
    for path, readable in walk(root):
        if readable and (project is None or path == root or path.parent.name in (project, directory(project))):
            yield path


def walk(root: Path) -> Iterator[tuple[Path, bool]]:
    """The run directories under `root`, and whether they may be read.

    A directory that may not be entered counts as a run, if it could be the name of one.
    """
    for path, journal in candidates(root):
        yield Path(path), journal is not None and (Path(path) == root or readable(Path(path)))


def candidates(root: Path) -> Iterator[tuple[str, os.stat_result | None]]:
    """What `walk` finds as texts, with the status of the journal: one call of the system per run.

    None if it may not be seen. What is in a run is never looked at for others, which its maker could have linked.
    """
    if (root / IDENTITY).exists() or (root / JOURNAL).is_dir():
        yield str(root), (root / JOURNAL).stat() if (root / JOURNAL).is_dir() else root.stat()
        return
    links = outside(root) == root.absolute()  # otherwise the maker of a run has put them there
    projects = []
    for path in _folders(str(root), links=links):
        is_one, journal = _candidate(path)
        if is_one:
            yield path, journal
        elif not any(os.path.lexists(f"{path}/{name}") for name in (JOURNAL, IDENTITY)):
            projects.append(path)
    for project in projects:
        for path in _folders(project, links=links):
            is_one, journal = _candidate(path)
            if is_one:
                yield path, journal


def readable(run: Path) -> bool:
    """Whether a journal and its first file may be read."""
    try:
        with os.scandir(run / JOURNAL) as entries:
            first = next((entry for entry in entries if parse_segment(entry.name)), None)
            return os.access(run / JOURNAL, os.X_OK) and (first is None or os.access(first, os.R_OK))
    except OSError:
        return False


def _candidate(path: str) -> tuple[bool, os.stat_result | None]:
    """Whether a directory is or may be a run, and the status of its journal if it may be seen."""
    try:
        journal = os.stat(f"{path}/{JOURNAL}")  # noqa: PTH116  a Path costs more than the call
    except PermissionError:
        return _may_be_run(Path(path)), None
    except OSError:
        return not os.access(path, os.X_OK) and _may_be_run(Path(path)), None
    return stat.S_ISDIR(journal.st_mode), journal


def _folders(folder: str, *, links: bool) -> list[str]:
    """The directories in a directory, by name, with links to some or without; none if it may not be read."""
    try:
        with os.scandir(folder) as entries:
            names = sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=links))
    except OSError:
        return []
    return [name if folder == "." else os.path.join(folder, name) for name in names]  # noqa: PTH118


def _may_be_run(path: Path) -> bool:
    return path.is_dir() and _SAFE.fullmatch(path.name) is not None and not (path.parent / JOURNAL).is_dir()
