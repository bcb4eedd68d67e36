"""`run.json`: the description of a run, for lists that do not read journals. Replaced by rename, never in place."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from chiplog.core.records import Plain
from chiplog.store import layout

BUFFER = 1 << 16  # explicit, otherwise Python checks whether the file is a terminal


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
    write_whole(run / layout.IDENTITY, msgspec.json.format(msgspec.json.encode(manifest), indent=2) + b"\n")


def load(run: Path) -> Manifest:
    """The manifest; if it is missing or damaged, what the path reveals."""
    try:
        return msgspec.json.decode((run / layout.IDENTITY).read_bytes(), type=Manifest)
    except (OSError, ValueError, RecursionError):
        return Manifest(project=run.parent.name, id=run.name, name=run.name)


def write_whole(path: Path, data: bytes, mode: int = 0o600) -> None:
    """Replace a small file atomically: a reader sees the old one or the new one."""
    aside = path.with_name(f".{path.name}.{os.urandom(4).hex()}")
    fd = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    try:
        with os.fdopen(fd, "wb", BUFFER) as file:
            file.write(data)
        aside.replace(path)
    except BaseException:
        aside.unlink(missing_ok=True)
        raise
