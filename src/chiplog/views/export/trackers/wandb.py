"""An offline run of W&B in a folder, which W&B's own client uploads."""

from __future__ import annotations

from pathlib import Path

from chiplog.core.records import Plain
from chiplog.store.reader import Stored

OMITTED = {"spans": "spans", "console": "printed lines"}
WHOLE_STEPS = False  # a row has its step as a value


ALWAYS: tuple[str, ...] = ("when the run started: W&B's client sets it (rows keep their times)",)


def options(stored: Stored, folder: Path) -> dict[str, Plain]:
    return {"mode": "offline", "dir": str(folder), "project": stored.project, "id": stored.id}


def how_to_open(folder: str) -> str:
    return f"wandb sync {folder}/wandb/offline-run-*"
