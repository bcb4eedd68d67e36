"""A finished run becomes Parquet, in a process of its own that nobody waits for."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from chiplog.store import layout

FROM = 1 << 20  # bytes of journal: less is read as quickly as it is


def compact_beside(path: Path, environ: Mapping[str, str]) -> None:
    """Start the compaction of a finished run in a process of its own, when there is enough to compact."""
    from importlib.util import find_spec

    size = sum(_size(path / layout.JOURNAL / segment.filename) for segment in layout.segments(path))
    if size < FROM or find_spec("pyarrow") is None or find_spec("numpy") is None:
        return
    from chiplog.core.background import subprocesses

    subprocesses.start("chiplog", "compact", "--quiet", str(path), environ=environ)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
