"""The progress of a run's sinks: from their saved positions and the last report of their relay."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from chiplog.store import layout
from chiplog.store.journal.tail import Position, Tail, stream_key
from chiplog.store.layout import Segment
from chiplog.store.runs.manifest import write_whole


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
    positions: dict[str, Position] = {}
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
            kept = msgspec.json.decode(file.read_bytes(), type=_Kept)
        except (OSError, ValueError, RecursionError) as error:
            found.append(SinkStatus(file.stem, 0, trouble=f"cannot be read: {error}"))
            continue
        positions = kept.positions
        ranks = {int(key[1:].partition("-")[0]) for key in positions if key[1:6].isdecimal()} or {0}
        lag = sum(Tail(path, rank=rank, positions=positions).lag() for rank in ranks)
        found.append(SinkStatus(file.stem, lag, positions, health=said.get(file.stem), url=kept.url))
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


def write_health(path: Path, name: str, segment: Segment, health: Mapping[str, Any]) -> None:
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


class _Kept(msgspec.Struct):
    positions: dict[str, Position] = {}
    url: str = ""


class _Status(msgspec.Struct):
    services: dict[str, Health] = {}
