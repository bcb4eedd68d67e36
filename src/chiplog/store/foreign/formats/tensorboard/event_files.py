"""TensorBoard's event files: every folder that holds some is a run, as in TensorBoard."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import asdict
from functools import partial
from pathlib import Path

import msgspec
import numpy as np

from chiplog.core.files import reading
from chiplog.core.records import Plain
from chiplog.store.foreign.formats.tensorboard import summaries
from chiplog.store.foreign.formats.tensorboard.scalars import ScalarEvents, decode
from chiplog.store.foreign.formats.tensorboard.summaries import HparamsSession
from chiplog.store.foreign.protocol import (
    LATEST,
    About,
    Folder,
    ForeignRun,
    Item,
    Losses,
    Points,
    Position,
    Restart,
    digest,
)
from chiplog.store.foreign.tfrecords import HEAD, Reader
from chiplog.store.protobuf import reader
from chiplog.store.protobuf.reader import BadMessage
from chiplog.store.protobuf.writer import varint
from chiplog.store.tfrecord_crc import crc32c

NAME = "tensorboard"
_START = 1  # of a session log
MOST_HEADS = 100_000  # tags that are recognised by their bytes


def find(folder: Folder) -> list[ForeignRun]:
    names = [name for name in folder.free("") if "tfevents" in name and _is_events(folder.path, name)]
    if not names:
        return []
    folder.taken.update(names)
    files = tuple(folder.path / name for name in names)
    key = f"{NAME}:{folder.path.name}:{names[0]}"  # the name of a file has its time, host and process
    return [ForeignRun(NAME, key, folder.path, files, partial(_about, folder.path, key), partial(_read, files))]


def _is_events(folder: Path, name: str) -> bool:
    """Whether a file starts with a frame."""
    try:
        with reading.open_path(folder / name, regular=True) as file:
            head = file.read(HEAD)
    except OSError:
        return False
    crc = crc32c(head[:8])
    masked = (crc >> 15 | crc << 17) + 0xA282EAD8 & 0xFFFFFFFF
    return len(head) == HEAD and masked == int.from_bytes(head[8:], "little")


def _about(path: Path, key: str, position: Plain) -> About:
    state = _EventFilesState.of(position)
    return About(
        project=path.absolute().parent.name or NAME,
        id=f"{path.absolute().name[:50]}-{digest(key, 3)}",
        name=path.absolute().name,
        created=state.created,
        config=state.session.config,
        source={"group": state.session.group} if state.session.group else {},
        state=state.session.state,
    )


class _EventFilesState(msgspec.Struct):
    """How far the files of a run have been read, and what they told about it."""

    offsets: dict[str, int]
    session: HparamsSession
    created: int = 0

    @classmethod
    def of(cls, position: Plain) -> _EventFilesState:
        return msgspec.convert(position, cls) if position else cls({}, HparamsSession())

    def save(self, done: float) -> Position:
        return Position({"offsets": dict(self.offsets), "session": asdict(self.session), "created": self.created}, done)


def _read(files: tuple[Path, ...], position: Plain, losses: Losses) -> Iterator[Item]:
    state = _EventFilesState.of(position)
    sizes = {path.name: path.stat().st_size for path in files}
    total = max(1, sum(sizes.values()))
    unfinished = 0
    for path in files:
        log = Reader(path, state.offsets.get(path.name, 0))
        events = _Events(state, losses)
        for frames in log.read():
            yield from events.items(frames.data, frames.spans)
            state.offsets[path.name] = frames.end
            yield state.save(sum(state.offsets.values()) / total)
        for start, end in log.damage:
            losses.add(f"{path.name}: damaged bytes", end - start)
        unfinished += log.unfinished
    losses.set("bytes of an unfinished record at the end of a file", unfinished)


class _Events:
    """Events of one file as points and other items, in their order."""

    def __init__(self, state: _EventFilesState, losses: Losses) -> None:
        self._state, self._losses = state, losses
        self._heads: dict[bytes, int] = {}  # what comes before the value of a scalar, for each tag
        self._names: list[str] = []
        self._which: dict[str, int] = {}
        self._single: list[tuple[int, int, int, float, float]] = []  # scalars that were decoded one by one
        self._others: list[Item] = []

    def items(self, data: bytes, spans: list[tuple[int, int]]) -> Iterator[Item]:
        scalars, left = decode(data, spans, self._tag)
        for number in left:
            start, end = spans[number]
            try:
                restart = self._event(number, data[start:end])
            except (BadMessage, struct.error, ValueError):
                self._losses.add("events that could not be decoded")
                continue
            if restart is not None:
                before = int(np.searchsorted(scalars.at, number))
                yield from self._flush(scalars.take(slice(before)))
                scalars = scalars.take(slice(before, None))
                yield restart
        yield from self._flush(scalars)

    def _event(self, number: int, data: bytes) -> Restart | None:
        """Any event; one that starts the run again is returned."""
        parts = reader.by_number(data)
        time, step = summaries.wall(parts.get(1)), reader.integer(parts.get(2))
        self._note_time(time)
        if 5 in parts:
            for value in summaries.values(reader.message(parts[5]), time, step, self._state.session, self._losses):
                if value.number is not None:
                    wall = reader.double(parts.get(1))
                    self._single.append((number, self._index(value.tag), step, wall, value.number))
                elif value.item is not None:
                    self._others.append(value.item)
        started = 7 in parts and reader.integer(reader.by_number(reader.message(parts[7])).get(1)) == _START
        return Restart(time, step) if started else None

    def _tag(self, head: bytes, event: bytes) -> int | None:
        """The tag of events with these bytes before the value; None unless they hold nothing but one 32-bit scalar."""
        which = self._heads.get(head)
        if which is None:
            try:
                summary = reader.message(reader.by_number(event).get(5))
                tag = reader.by_number(reader.message(reader.by_number(summary).get(1))).get(1)
            except BadMessage:
                return None
            name = reader.message(tag)
            value = b"\x0a" + varint(len(name)) + name + b"\x15"
            inner = b"\x0a" + varint(len(value) + 4) + value
            if head != b"\x2a" + varint(len(inner) + 4) + inner or len(self._heads) >= MOST_HEADS:
                return None
            which = self._heads[head] = self._index(reader.text(name))
        return which

    def _index(self, tag: str) -> int:
        which = self._which.get(tag)
        if which is None:
            which = self._which[tag] = len(self._names)
            self._names.append(tag)
        return which

    def _flush(self, scalars: ScalarEvents) -> Iterator[Item]:
        if self._single:
            at, which, steps, seconds, values = zip(*self._single, strict=True)
            scalars = scalars.then(
                ScalarEvents(
                    np.array(at, np.int64),
                    np.array(which, np.int64),
                    np.array(steps, np.int64),
                    np.array(seconds, np.float64),
                    np.array(values, np.float64),
                )
            )
        if len(scalars.at):
            walls = scalars.walls * 1e9
            times = np.where((walls >= 0) & (walls < LATEST), walls, 0).round().astype(np.int64)
            self._note_time(int(times.min()))
            yield Points(self._names, scalars.which, scalars.steps, times, scalars.values)
        yield from self._others
        self._single, self._others = [], []

    def _note_time(self, time: int) -> None:
        if time and (not self._state.created or time < self._state.created):
            self._state.created = time
