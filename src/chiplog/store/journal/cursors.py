"""The progress of a run's sinks: their cursors, and the last report of their health."""

from __future__ import annotations

import stat
from collections.abc import Mapping
from pathlib import Path

import msgspec
from msgspec import UNSET, UnsetType

from chiplog.core.files import reading, writing
from chiplog.core.records import Plain
from chiplog.core.values.text import reason
from chiplog.store import layout
from chiplog.store.journal import lines
from chiplog.store.journal.tail import Positions, stream_key
from chiplog.store.layout import Segment

_FAR = 1 << 62  # bytes or segments


class Cursor(msgspec.Struct):
    """The saved position of a sink, and the state to continue with. Where a service is, only its user knows."""

    positions: Positions = {}
    state: dict[str, Plain] = {}
    remote: bool | UnsetType = UNSET  # of a service
    service: str | UnsetType = UNSET  # in runs of older versions, and not used
    url: str | UnsetType = UNSET  # where the service shows the run
    rejected: dict[str, list[tuple[int, int]]] | UnsetType = UNSET  # ranges of `seq` by stream, to be sent again


def cursor_path(run: Path, name: str) -> Path:
    return run / layout.CURSORS / f"{layout.slug(name)}.json"


def load(path: Path) -> Cursor:
    """A saved cursor; raises `ValueError` if it is damaged."""
    data = reading.read_bytes(*_place(path))
    if not lines.is_whole(data):
        raise ValueError("it does not match its CRC")
    try:
        cursor = msgspec.json.decode(data, type=Cursor)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"it is not a cursor: {error}") from None
    if not all(-1 <= number < _FAR for position in cursor.positions.values() for number in position):
        raise ValueError("it is not a cursor: a position is out of range")
    if any(layout.stream_rank(key) is None for key in (*cursor.positions, *(cursor.rejected or ()))):
        raise ValueError("it is not a cursor: a position names no journal")
    return cursor


def save(path: Path, cursor: Cursor) -> None:
    run, name = _place(path)
    writing.make_folder(run, layout.CURSORS)
    writing.replace(run, name, lines.sealed(msgspec.json.encode(cursor)))


def _place(path: Path) -> tuple[Path, str]:
    """The run of a cursor, and its path inside it."""
    return path.parents[1], f"{layout.CURSORS}/{path.name}"


def enrol(run: Path, service: str) -> None:
    """Note that a service gets this run, so that it is listed even if nothing has been delivered."""
    path = cursor_path(run, service)
    try:
        cursor = load(path)
    except (OSError, ValueError):
        cursor = Cursor()
    if not cursor.remote:  # otherwise the relay of an earlier attempt may be working on it
        save(path, msgspec.structs.replace(cursor, remote=True))


def withdraw(run: Path, service: str) -> None:
    """Forget that a service gets this run."""
    writing.remove(cursor_path(run, service))


def services(run: Path) -> list[str]:
    """The names of the cursors of services, by the run's own word: to show, and never to deliver to."""
    names = []
    for name in reading.matching(run, layout.CURSORS, ".json"):
        try:
            cursor = load(run / name)
        except (OSError, ValueError):
            continue
        if cursor.remote or cursor.service:
            names.append(Path(name).stem)
    return names


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
        ranks = _ranks(self.positions)
        if self.trouble or segment.rank not in ranks:
            return bool(self.trouble)
        number, byte, _ = self.positions.get(stream_key(segment), (0, 0, -1))
        return number < segment.number or (number == segment.number and byte < size)


def cursors(path: Path) -> list[SinkStatus]:
    """The cursors of all sinks that have one."""
    sinks = []
    reports = _relay_reports(path)
    journals = _Journals(path)
    for file in (path / name for name in reading.matching(path, layout.CURSORS, ".json")):
        try:
            cursor = load(file)
        except (OSError, ValueError) as error:
            sinks.append(SinkStatus(file.stem, 0, trouble=f"cannot be read: {reason(error)}"))
            continue
        positions, health = cursor.positions, reports.get(file.stem)
        sinks.append(SinkStatus(file.stem, journals.lag(positions), positions, health=health, url=cursor.url or ""))
    return sinks


class _Journals:
    """The sizes of a run's journals, listed once for all cursors: one may name any number of ranks."""

    def __init__(self, run: Path) -> None:
        sizes: dict[str, dict[int, int]] = {}
        for name, about in reading.entries(run, layout.JOURNAL):
            segment = layout.parse_segment(name)
            if segment is not None and name == segment.filename and stat.S_ISREG(about.st_mode):
                sizes.setdefault(stream_key(segment), {})[segment.number] = about.st_size
        self._after: dict[str, dict[int, int]] = {}  # bytes of a segment and of those that follow it without a gap
        self._of_rank: dict[int, int] = {}
        for key, of_stream in sizes.items():
            after = self._after[key] = dict.fromkeys(of_stream, 0)
            for number in sorted(of_stream, reverse=True):
                after[number] = of_stream[number] + after.get(number + 1, 0)
            rank = layout.stream_rank(key) or 0
            self._of_rank[rank] = self._of_rank.get(rank, 0) + after.get(0, 0)

    def lag(self, positions: Positions) -> int:
        """How many bytes a sink has not read, of the ranks that it has started to read."""
        lag = sum(self._of_rank.get(rank, 0) for rank in _ranks(positions))
        for key, (number, byte, _) in positions.items():
            if (after := self._after.get(key)) is not None:
                lag += max(0, after.get(number, 0) - byte) - after.get(0, 0)
        return lag


def _ranks(positions: Positions) -> set[int]:
    """The ranks that a sink has started to read; at first, rank 0."""
    return {rank for key in positions if (rank := layout.stream_rank(key)) is not None} or {0}


def backends(path: Path) -> list[SinkStatus]:
    """The sinks without a cursor that have skipped calls, over all attempts."""
    counted: dict[str, Health] = {}
    for file in reading.matching(path, layout.CURSORS, ".health"):
        try:
            health = msgspec.json.decode(reading.read_bytes(path, file), type=Health)
        except (OSError, ValueError, RecursionError):
            continue  # being written, or damaged
        name = file.rpartition("/")[2].partition(".")[0]
        health.skipped += counted.get(name, Health()).skipped
        counted[name] = health
    return [SinkStatus(name, 0, health=health) for name, health in counted.items()]


def write_health(path: Path, name: str, segment: Segment, health: Mapping[str, Plain]) -> None:
    """Save the health of a sink in an attempt."""
    writing.make_folder(path, layout.CURSORS)
    file = f"{layout.CURSORS}/{layout.slug(name)}.a{segment.attempt:02d}.health"
    writing.replace(path, file, msgspec.json.encode(msgspec.convert(health, Health)))


def _relay_reports(path: Path) -> dict[str, Health]:
    """The last reports of a run's relays, by the names of cursors; the newest attempt wins."""
    reports: dict[str, Health] = {}
    for file in reading.matching(path, layout.RELAY, ".json"):
        try:
            services = msgspec.json.decode(reading.read_bytes(path, file), type=_Status).services
        except (OSError, ValueError, RecursionError):
            continue  # being written, or damaged
        reports |= {layout.slug(name): health for name, health in services.items()}
    return reports


class _Status(msgspec.Struct):
    services: dict[str, Health] = {}
