"""Converts torch.profiler and jax.profiler traces to our packets, so that one file shows the loop and its kernels.

Both write Chrome's JSON. torch stores the start time in the file, jax in the `.xplane.pb` next to it. A trace without a
start time is aligned with the start of the run, with a message.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from chiplog.core import messages
from chiplog.core.errors import ChiplogError
from chiplog.core.files import reading
from chiplog.store.perfetto.packets import PacketWriter
from chiplog.store.reader import Stored
from chiplog.views.trace.lanes import Lanes

Event: TypeAlias = dict[str, Any]  # as in the file, except that pid and tid are hashable
Id: TypeAlias = int | str | None  # of a process or thread
Thread: TypeAlias = tuple[Id, Id]  # process, thread

FIRST = 1 << 20  # numbers of sequences: beyond those of ranks
_WALL = 1e15  # µs: later than 2001, so it is the wall clock itself
_LATEST = 9e15  # µs: a time or duration that fits in 64 bits as nanoseconds
LARGEST = 1 << 30  # bytes of a trace, uncompressed
PATTERNS = ("*.trace.json.gz", "*.json", "*.json.gz")  # the first that matches
LANES = 100  # per thread, for overlapping events; the last one takes the rest


class UnreadableTrace(ChiplogError, ValueError):
    """A file is not a torch.profiler or jax.profiler trace."""


def packets(files: Iterable[Path], stored: Stored) -> Iterator[bytes]:
    """The packets of traces, given as files or as jax.profiler's output directory."""
    number = FIRST
    for path in files:
        for file in _traces(path):
            yield from _one(file, number, stored)
            number += 1


def _traces(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    for pattern in PATTERNS:
        if traces := sorted(path.rglob(pattern)):
            return traces
    raise UnreadableTrace(f"{path} holds no trace: none of *.trace.json.gz, *.json and *.json.gz")


def _one(file: Path, number: int, stored: Stored) -> Iterator[bytes]:
    events, base = _read(file)
    if base is None:
        base = stored.created
        messages.say(f"{file} has no start time; it is aligned with the start of the run")
    timed = [event for event in events if _number(event.get("ts")) is not None]
    origin = base + int(min((event["ts"] for event in timed), default=0) * 1000)
    writer = PacketWriter(number, max(0, origin))
    tracks = _Tracks(writer, number, _names(events))
    flows = {(e.get("pid"), e.get("tid"), e["ts"]): e.get("id") for e in timed if e.get("ph") in ("s", "f")}
    lanes: dict[Thread, list[tuple[int, int, Event]]] = defaultdict(list)
    out: list[bytes] = []
    for begin, duration, event in _stretches(timed):
        start = max(0, base + round(begin * 1000))
        lanes[event.get("pid"), event.get("tid")].append((start, start + max(0, round(duration * 1000)), event))
    for (pid, tid), spans in lanes.items():
        beside = Lanes(nested=True, most=LANES)
        for begin_, end, event in sorted(spans, key=lambda one: (one[0], -one[1])):
            lane = beside.place(begin_, end)
            flow = flows.get((pid, tid, event["ts"]))
            out.append(
                writer.slice(
                    tracks.of(pid, tid, lane),
                    str(event.get("name", "")),
                    begin_,
                    end,
                    _args(event),
                    flow=number << 32 | flow & 0xFFFFFFFF if isinstance(flow, int) else 0,
                )
            )
    for event in timed:
        when = max(0, base + round(event["ts"] * 1000))
        if event.get("ph") in ("i", "I"):
            track = tracks.of(event.get("pid"), event.get("tid"), 0)
            out.append(writer.instant(track, str(event.get("name", "")), when, _args(event)))
        elif event.get("ph") == "C":
            for key, value in _args(event).items():
                if isinstance(value, (int, float)) and abs(value) < 1e300:
                    out.append(writer.count(tracks.counter(event, key), when, value))
    yield writer.news()
    yield from out


class _Tracks:
    """The tracks of an imported trace, created on first use."""

    def __init__(self, writer: PacketWriter, number: int, names: Mapping[Thread, str]) -> None:
        self._writer, self._base, self._names = writer, number << 20, names
        self._pids = (number & 1023) << 20 | 1 << 30  # process and thread numbers: beyond those of ranks, too
        self._uuids: dict[object, int] = {}

    def of(self, pid: Id, tid: Id, lane: int) -> int:
        if (pid, tid, lane) in self._uuids:
            return self._uuids[pid, tid, lane]
        uuid = self._uuids[pid, tid, lane] = self._base + len(self._uuids) + 1
        if lane:
            self._writer.track(uuid, self._names.get((pid, tid), str(tid)), self.of(pid, tid, 0))
        else:
            name = self._names.get((pid, tid), f"{pid}/{tid}")
            self._writer.thread(uuid, self._pid(self._process(pid)), self._pid(uuid), name)
        return uuid

    def counter(self, event: Event, key: str) -> int:
        which = ("C", event.get("pid"), event.get("name"), key)
        if which not in self._uuids:
            self._uuids[which] = uuid = self._base + len(self._uuids) + 1
            self._writer.counter(uuid, f"{event.get('name')} {key}", self._process(event.get("pid")))
        return self._uuids[which]

    def _process(self, pid: Id) -> int:
        if pid not in self._uuids:
            self._uuids[pid] = uuid = self._base + len(self._uuids) + 1
            self._writer.process(uuid, self._pid(uuid), self._names.get((pid, None), str(pid)))
        return self._uuids[pid]

    def _pid(self, uuid: int) -> int:
        return self._pids + (uuid - self._base)


def _read(file: Path) -> tuple[list[Event], int | None]:
    """(events, their origin in wall-clock nanoseconds)."""
    try:
        data = json.loads(_bytes(file))
        events = data["traceEvents"] if isinstance(data, dict) else data
        events = [_plain(event) for event in events if isinstance(event, dict)]
    except (OSError, ValueError, KeyError, TypeError, EOFError, zlib.error, RecursionError, MemoryError) as error:
        reason = str(error) or type(error).__name__
        raise UnreadableTrace(f"{file} is not a torch.profiler or jax.profiler trace: {reason}") from None
    if isinstance(data, dict) and isinstance(base := data.get("baseTimeNanoseconds"), int) and 0 <= base < 1 << 62:
        return events, base
    if any((_number(event.get("ts")) or 0) > _WALL for event in events):
        return events, 0
    beside = sorted(file.parent.glob("*.xplane.pb"))
    host = file.name.removesuffix(".trace.json.gz")
    for plane in [one for one in beside if one.name == f"{host}.xplane.pb"] or beside:
        try:
            start = _profile_start(_bytes(plane))
        except (OSError, ValueError, MemoryError):
            continue
        if start is not None and 0 <= start < 1 << 62:
            return events, start
    return events, None


def _bytes(file: Path) -> bytes:
    """The content of a regular file, decompressed; refuses what would fill the memory."""
    with reading.open_path(file, regular=True) as opened:
        packed = opened.read(2) == b"\x1f\x8b"
        opened.seek(0)
        content = (gzip.GzipFile(fileobj=opened) if packed else opened).read(LARGEST + 1)
    if len(content) > LARGEST:
        raise ValueError(f"it holds more than {LARGEST:,} bytes")
    return content


def _plain(event: Event) -> Event:
    """An event with a hashable process and thread."""
    for key in ("pid", "tid"):
        if not isinstance(event.get(key), (int, str, type(None))):
            event[key] = str(event[key])
    return event


def _number(value: object) -> int | float | None:
    """A time or duration in µs; None if invalid."""
    return value if isinstance(value, (int, float)) and -_LATEST <= value <= _LATEST else None


def _profile_start(space: bytes) -> int | None:
    """`profile_start_time` of an XSpace: planes (1) have metadata of stats (5) and stats (6)."""
    try:
        for field, plane in _fields(space):
            if field != 1 or not isinstance(plane, bytes):
                continue
            parts = list(_fields(plane))
            metadata = [dict(_fields(value)) for number, value in parts if number == 5 and isinstance(value, bytes)]
            names = {
                entry.get(1): dict(_fields(entry[2])).get(2) for entry in metadata if isinstance(entry.get(2), bytes)
            }
            for number, value in parts:
                if number == 6 and isinstance(value, bytes):
                    stat_ = dict(_fields(value))
                    if names.get(stat_.get(1)) == b"profile_start_time":
                        return int(stat_[3])
    except (IndexError, KeyError, ValueError, TypeError):
        pass
    return None


def _fields(data: bytes) -> Iterator[tuple[int, Any]]:
    at = 0

    def varint() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value
            if shift > 63:
                raise ValueError("a number has more than 64 bits")

    while at < len(data):
        key = varint()
        if key & 7 == 0:
            yield key >> 3, varint()
        else:
            size = {1: 8, 2: -1, 5: 4}[key & 7]
            size = varint() if size < 0 else size
            yield key >> 3, data[at : at + size]
            at += size


def _names(events: Iterable[Event]) -> dict[Thread, str]:
    names: dict[Thread, str] = {}
    for event in events:
        if event.get("ph") == "M" and isinstance(event.get("args"), dict):
            name = str(event["args"].get("name", ""))
            if event.get("name") == "process_name":
                names[event.get("pid"), None] = name
            elif event.get("name") == "thread_name":
                names[event.get("pid"), event.get("tid")] = name
    return names


def _stretches(events: Iterable[Event]) -> Iterator[tuple[float, float, Event]]:
    """(start, duration, event) in µs, of complete events and of pairs of begin and end."""
    open_: dict[Thread, list[Event]] = defaultdict(list)
    for event in events:
        lane = event.get("pid"), event.get("tid")
        if event.get("ph") == "X":
            yield event["ts"], _number(event.get("dur")) or 0, event
        elif event.get("ph") == "B":
            open_[lane].append(event)
        elif event.get("ph") == "E" and open_[lane]:
            begun = open_[lane].pop()
            yield begun["ts"], event["ts"] - begun["ts"], begun


def _args(event: Event) -> Event:
    args = event.get("args")
    plain = {str(key): value for key, value in args.items() if value is not None} if isinstance(args, dict) else {}
    return {"category": str(event["cat"]), **plain} if event.get("cat") else plain
