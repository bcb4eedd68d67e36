"""How far a sink has come, stored in `cursors/`; of a service, also how to open it again."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from chiplog.core.engine.attachments import make_dir
from chiplog.core.values.redact import redact
from chiplog.store import layout
from chiplog.store.journal import lines
from chiplog.store.journal.tail import Positions
from chiplog.store.runs.manifest import write_whole


class Cursor(msgspec.Struct):
    """How far a sink has come, and what it needs to go on from there; of a service, also how to open it again."""

    positions: Positions = {}
    state: dict[str, Any] = {}
    service: str | UnsetType = UNSET
    options: dict[str, Any] | UnsetType = UNSET  # without secrets; those are in the environment
    url: str | UnsetType = UNSET  # where the service shows the run


def load(path: Path) -> Cursor:
    """A stored cursor; raises `ValueError` for one whose bytes are not those that were written."""
    data = path.read_bytes()
    if not lines.is_whole(data):
        raise ValueError("it does not match its CRC")
    try:
        return msgspec.json.decode(data, type=Cursor)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"it is no cursor: {error}") from None


def cursor_path(run: Path, name: str) -> Path:
    return run / layout.CURSORS / f"{layout.slug(name)}.json"


def enrol(run: Path, service: str, options: Mapping[str, Any]) -> None:
    """Note that a service is to get this run, so that `chiplog sync` knows, also when nothing has been delivered."""
    path = cursor_path(run, service)
    make_dir(path.parent)
    try:
        cursor = load(path)
    except (OSError, ValueError):
        cursor = Cursor()
    wanted = msgspec.structs.replace(cursor, service=service, options=redact(options))
    if wanted != cursor:  # the relay of an earlier attempt may be at work on it
        write_whole(path, lines.sealed(msgspec.json.encode(wanted)))


def enrolled(run: Path) -> dict[str, dict[str, Any]]:
    """The services that are to get a run, with the options of each."""
    found = {}
    for path in sorted((run / layout.CURSORS).glob("*.json")):
        try:
            cursor = load(path)
        except (OSError, ValueError):
            continue
        if cursor.service:
            found[cursor.service] = cursor.options or {}
    return found
