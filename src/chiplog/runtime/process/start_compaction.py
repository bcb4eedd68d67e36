"""Starts the compaction of a finished run to Parquet, in a process that nothing waits for."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from chiplog.store import layout

FROM = 1 << 20  # bytes of journal; less is read as fast without compaction


def compact_beside(path: Path, environ: Mapping[str, str]) -> None:
    """Compact a finished run in another process, if there is enough to compact."""
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
