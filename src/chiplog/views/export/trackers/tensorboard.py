"""A log directory of TensorBoard: a folder with an event file."""

from __future__ import annotations

from pathlib import Path

from chiplog.core.records import Plain
from chiplog.store.reader import Stored

OMITTED = {"table": "tables", "file": "files other than images", "spans": "spans", "console": "printed lines"}
WHOLE_STEPS = True
ALWAYS: tuple[str, ...] = ("numbers beyond 32 bits, to which TensorBoard rounds",)


def options(stored: Stored, folder: Path) -> dict[str, Plain]:  # noqa: ARG001
    return {"folder": str(folder)}


def how_to_open(folder: str) -> str:
    return f"tensorboard --logdir {folder}"
