"""A folder of trackio: a database per project, and the media of its runs."""

from __future__ import annotations

from pathlib import Path

from chiplog.core.records import Plain
from chiplog.store.reader import Stored

OMITTED = {"file": "files other than images", "spans": "spans", "console": "printed lines"}
WHOLE_STEPS = True
ALWAYS: tuple[str, ...] = ("how the run ended",)


def options(stored: Stored, folder: Path) -> dict[str, Plain]:
    return {"dir": str(folder), "project": stored.project}


def how_to_open(folder: str) -> str:
    return f"TRACKIO_DIR={folder} trackio show"
