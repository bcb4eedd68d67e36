"""How far the sinks of a run have come, from the positions that they keep and from what their relay said last."""

from __future__ import annotations

from pathlib import Path

import msgspec

from chiplog.store import layout
from chiplog.store.layout import Segment
from chiplog.store.tail import Position, Tail, stream_key


class Health(msgspec.Struct):
    """How a service was doing when its relay last said so."""

    state: str = ""
    delivered: int = 0
    rejected: int = 0
    errors: int = 0
    last_error: str = ""


class Cursor(msgspec.Struct):
    """How far a sink has come."""

    name: str
    lag: int  # bytes of journal
    positions: dict[str, Position] = {}
    trouble: str = ""
    health: Health | None = None  # of a service

    def needs(self, segment: Segment, size: int) -> bool:
        """Whether the sink has yet to read some of a segment; a sink reads the ranks it has begun with."""
        ranks = {int(key[1:].partition("-")[0]) for key in self.positions} or {0}
        if self.trouble or segment.rank not in ranks:
            return bool(self.trouble)
        number, byte, _ = self.positions.get(stream_key(segment), (0, 0, -1))
        return number < segment.number or (number == segment.number and byte < size)


def cursors(path: Path) -> list[Cursor]:
    """The positions of all sinks that keep one."""
    found = []
    said = _said(path)
    for file in sorted((path / layout.CURSORS).glob("[!.]*.json")):
        try:
            positions = msgspec.json.decode(file.read_bytes(), type=_Positions).positions
        except (OSError, ValueError, RecursionError) as error:
            found.append(Cursor(file.stem, 0, trouble=f"cannot be read: {error}"))
            continue
        ranks = {int(key[1:].partition("-")[0]) for key in positions if key[1:6].isdecimal()} or {0}
        lag = sum(Tail(path, rank=rank, positions=positions).lag() for rank in ranks)
        found.append(Cursor(file.stem, lag, positions, health=said.get(file.stem)))
    return found


def _said(path: Path) -> dict[str, Health]:
    """What the relays of a run have said last, by the names of cursors; the newest attempt's counts."""
    said: dict[str, Health] = {}
    for file in sorted((path / layout.RELAY).glob("[!.]*.json")):
        try:
            services = msgspec.json.decode(file.read_bytes(), type=_Status).services
        except (OSError, ValueError, RecursionError):
            continue  # it is being written, or no use to anybody
        said |= {layout.slug(name): health for name, health in services.items()}
    return said


class _Positions(msgspec.Struct):
    positions: dict[str, Position] = {}


class _Status(msgspec.Struct):
    services: dict[str, Health] = {}
