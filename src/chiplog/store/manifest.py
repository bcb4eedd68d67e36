"""`run.json`: the description of a run, for lists that do not read journals. Replaced by rename, never in place."""

from __future__ import annotations

from pathlib import Path

import msgspec

from chiplog.core.files import reading, writing
from chiplog.core.records import Plain
from chiplog.store import layout


class Manifest(msgspec.Struct, omit_defaults=True):
    project: str = ""
    id: str = ""
    name: str = ""
    created: int = 0  # wall-clock nanoseconds
    tags: tuple[str, ...] = ()
    config: dict[str, Plain] = {}
    environment: dict[str, Plain] = {}
    rank: int = 0  # the rank that keeps the run and its sinks
    format: int = 1
    summary: dict[str, Plain] = {}  # the values that the run set explicitly


def save(run: Path, manifest: Manifest) -> None:
    writing.replace(run, layout.IDENTITY, msgspec.json.format(msgspec.json.encode(manifest), indent=2) + b"\n")


def load(run: Path) -> Manifest:
    """The manifest; if it is missing or damaged, what the path reveals."""
    try:
        return msgspec.json.decode(reading.read_bytes(run, layout.IDENTITY), type=Manifest)
    except (OSError, ValueError, RecursionError):
        return Manifest(project=run.parent.name, id=run.name, name=run.name)
