"""The progress of a run's sinks: their cursors, and the last report of their health."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec
from msgspec import UNSET, UnsetType

from chiplog.core.paths import make_dir
from chiplog.core.records import Plain
from chiplog.core.values.redact import redact
from chiplog.store import layout
from chiplog.store.journal import lines
from chiplog.store.journal.tail import Positions, Tail, stream_key
from chiplog.store.layout import Segment
from chiplog.store.runs.manifest import write_whole


class Cursor(msgspec.Struct):
    """The saved position of a sink and the state to continue with; for a service, also how to open it again."""

    positions: Positions = {}
    state: dict[str, Plain] = {}
    service: str | UnsetType = UNSET
    options: dict[str, Plain] | UnsetType = UNSET  # without secrets, which are in the environment
    url: str | UnsetType = UNSET  # where the service shows the run


def cursor_path(run: Path, name: str) -> Path:
    return run / layout.CURSORS / f"{layout.slug(name)}.json"


def load(path: Path) -> Cursor:
    """A saved cursor; raises `ValueError` if it is damaged."""
    data = path.read_bytes()
    if not lines.is_whole(data):
        raise ValueError("it does not match its CRC")
    try:
        return msgspec.json.decode(data, type=Cursor)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"it is not a cursor: {error}") from None


def save(path: Path, cursor: Cursor) -> None:
    path.parent.mkdir(mode=0o700, exist_ok=True)  # but not the run, which may just have been renamed
    write_whole(path, lines.sealed(msgspec.json.encode(cursor)))


def enrol(run: Path, service: str, options: Mapping[str, object]) -> None:
    """Note that a service gets this run, so that `chiplog sync` knows even if nothing has been delivered."""
    path = cursor_path(run, service)
    make_dir(path.parent)
    try:
        cursor = load(path)
    except (OSError, ValueError):
        cursor = Cursor()
    updated = msgspec.structs.replace(cursor, service=service, options=redact(options))
    if updated != cursor:  # otherwise the relay of an earlier attempt may be working on it
        save(path, updated)


def enrolled(run: Path) -> dict[str, dict[str, Plain]]:
    """The services that get a run, with their options."""
    services = {}
    for path in sorted((run / layout.CURSORS).glob("*.json")):
        try:
            cursor = load(path)
        except (OSError, ValueError):
            continue
        if cursor.service:
            services[cursor.service] = cursor.options or {}
    return services


class Health(msgspec.Struct):
    """The last reported health of a sink: by its relay, or by the training process for a user's own backend."""

    state: str = ""
    delivered: int = 0
    rejected: int = 0
    skipped: int = 0
    errors: int = 0
    last_error: str = ""


class SinkStatus(msgspec.Struct):
    """The progress of one sink."""

    name: str
    lag: int  # bytes of journal
    positions: Positions = {}
    trouble: str = ""
    health: Health | None = None  # of a service, or of a backend that has skipped calls
    url: str = ""  # where a service shows the run

    def needs(self, segment: Segment, size: int) -> bool:
        """Whether the sink has not read all of a segment; a sink reads the ranks it started with."""
        ranks = {int(key[1:].partition("-")[0]) for key in self.positions} or {0}
        if self.trouble or segment.rank not in ranks:
            return bool(self.trouble)
        number, byte, _ = self.positions.get(stream_key(segment), (0, 0, -1))
        return number < segment.number or (number == segment.number and byte < size)


def cursors(path: Path) -> list[SinkStatus]:
    """The cursors of all sinks that have one."""
    found = []
    said = _said(path)
    for file in sorted((path / layout.CURSORS).glob("[!.]*.json")):
        try:
            cursor = load(file)
        except (OSError, ValueError) as error:
            found.append(SinkStatus(file.stem, 0, trouble=f"cannot be read: {error}"))
            continue
        positions = cursor.positions
        ranks = {int(key[1:].partition("-")[0]) for key in positions if key[1:6].isdecimal()} or {0}
        lag = sum(Tail(path, rank=rank, positions=positions).lag() for rank in ranks)
        found.append(SinkStatus(file.stem, lag, positions, health=said.get(file.stem), url=cursor.url or ""))
    return found


def backends(path: Path) -> list[SinkStatus]:
    """The sinks without a cursor that have skipped calls, over all attempts."""
    counted: dict[str, Health] = {}
    for file in sorted((path / layout.CURSORS).glob("[!.]*.health")):
        try:
            health = msgspec.json.decode(file.read_bytes(), type=Health)
        except (OSError, ValueError, RecursionError):
            continue  # being written, or damaged
        name = file.name.partition(".")[0]
        health.skipped += counted.get(name, Health()).skipped
        counted[name] = health
    return [SinkStatus(name, 0, health=health) for name, health in counted.items()]


def write_health(path: Path, name: str, segment: Segment, health: Mapping[str, Plain]) -> None:
    """Save the health of a sink in an attempt."""
    file = path / layout.CURSORS / f"{layout.slug(name)}.a{segment.attempt:02d}.health"
    file.parent.mkdir(mode=0o700, exist_ok=True)  # but not the run, which may just have been renamed
    write_whole(file, msgspec.json.encode(msgspec.convert(health, Health)))


def _said(path: Path) -> dict[str, Health]:
    """The last reports of a run's relays, by the names of cursors; the newest attempt wins."""
    said: dict[str, Health] = {}
    for file in sorted((path / layout.RELAY).glob("[!.]*.json")):
        try:
            services = msgspec.json.decode(file.read_bytes(), type=_Status).services
        except (OSError, ValueError, RecursionError):
            continue  # being written, or damaged
        said |= {layout.slug(name): health for name, health in services.items()}
    return said


class _Status(msgspec.Struct):
    services: dict[str, Health] = {}
