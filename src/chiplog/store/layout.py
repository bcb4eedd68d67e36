"""The paths inside a run directory, and the names allowed there."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

_SAFE = re.compile(r"(?!\.)[A-Za-z0-9._-]{1,64}(?<!\.)")
_SEGMENT = re.compile(r"r(\d{5,})-a(\d{2,})-(\d{4,})\.jsonl(?:\.zst)?")

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


def segments(run: Path) -> list[Segment]:
    """All segments of a run by rank, attempt and number; reads only names."""
    try:
        names = [entry.name for entry in (run / JOURNAL).iterdir()]
    except OSError:
        return []
    return sorted({segment for name in names if (segment := parse_segment(name))})


def reserve(run: Path, rank: int) -> Path:
    """The file whose space the last records of a rank may take on a full disk."""
    return run / JOURNAL / f"r{rank:05d}.reserve"


def has_part(run: Path, segment: Segment) -> bool:
    """Whether a segment has been compacted."""
    return (run / PARTS / f"{segment.stem}.points.parquet").exists()


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
    """Run directories under `root`, which may be a directory of runs, a project or a run; newest id last."""
    if (root / IDENTITY).exists() or (root / JOURNAL).is_dir():
        yield root
        return
    for pattern in ("*", "*/*"):
        for path in sorted(root.glob(pattern)):
            if (path / JOURNAL).is_dir() and (project is None or path.parent.name in (project, directory(project))):
                yield path
