"""What ranks send each other: a stream of frames, cut into chunks of equal size, one per round.

A row is sent as doubles with a number that stands for its names; the names are sent once, when they are new. So ranks
may log different names in any order, and names do not make rounds longer.

    frame = length (u32), kind (three bits), whether the step was counted (one), topic (four), body
    row   = names (u64), step (i64 or f64), time (i64), doubles
    chunk = used (u32), left (u32), frames...
"""

from __future__ import annotations

import struct
import zlib
from array import array
from collections import deque
from collections.abc import Iterator
from hashlib import blake2b
from typing import NamedTuple, TypeAlias

import msgspec

from chiplog.core.records import Row
from chiplog.core.values.convert import double
from chiplog.metrics.ranks.statistics import Values, is_reduced
from chiplog.metrics.ranks.step_gather import RankRow, Topic
from chiplog.metrics.ranks.stragglers import Facts

HEAD = struct.Struct("<II")
_FRAME = struct.Struct("<IB")
_WHOLE, _BROKEN, _NAMES, _FACTS, _BYE = range(5)
_ROW = {_WHOLE: struct.Struct("<Qqq"), _BROKEN: struct.Struct("<Qdq")}
_COUNTED = 8
_MOST_SETS = 256  # sets of names that both ends remember for a rank; with one more, both start from scratch
_LONGEST = 1 << 30


class RankFacts(NamedTuple):
    """Where a rank runs, and the state of its devices."""

    facts: Facts


class Farewell(NamedTuple):
    """A rank has finished."""


Message: TypeAlias = RankRow | RankFacts | Farewell


class Outbox:
    """Messages to be sent, as bytes. Used by one thread."""

    def __init__(self, counters: bool = False) -> None:
        self._counters = counters
        self._sets: dict[tuple[str, ...], tuple[int, tuple[str, ...]]] = {}
        self._sent_sets: set[int] = set()
        self._waiting: deque[bytes] = deque()
        self.left = 0  # bytes

    def values(self, row: Row) -> tuple[int, Values]:
        """The doubles of a row, with the number of its names."""
        names = tuple(row)
        numbered = self._sets.get(names)
        if numbered is None:
            kept = tuple(name for name in names if self._counters or is_reduced(name))
            number = _number(kept)
            if len(self._sets) >= _MOST_SETS:
                self._sets.clear()
            numbered = self._sets[names] = number, kept
        number, kept = numbered
        try:
            doubles = array("d", row.values() if len(kept) == len(names) else [row[name] for name in kept])
        except OverflowError:  # an integer beyond the doubles
            doubles = array("d", [double(row[name]) for name in kept])
        return number, Values(kept, doubles.tobytes())

    def number(self, values: Values) -> tuple[int, Values]:
        """Doubles that exist already, with the number of their names."""
        return _number(values.names), values

    def add(self, number: int, row: RankRow) -> None:
        names, doubles = row.values
        if not names:
            return
        if number not in self._sent_sets:
            if len(self._sent_sets) >= _MOST_SETS:
                self._sent_sets.clear()
            self._sent_sets.add(number)
            text = zlib.compress(msgspec.json.encode([name.encode("utf-8", "surrogatepass") for name in names]), 1)
            self._put(_NAMES, number.to_bytes(8, "little") + text)
        kind = _WHOLE if isinstance(row.step, int) and -(2**63) <= row.step < 2**63 else _BROKEN
        self._put(
            kind | (_COUNTED if row.counted else 0) | row.topic << 4,
            _ROW[kind].pack(number, row.step, row.time) + doubles,
        )

    def add_facts(self, facts: Facts) -> None:
        self._put(_FACTS, msgspec.json.encode(facts))

    def add_farewell(self) -> None:
        self._put(_BYE, b"")

    def chunk(self, size: int) -> bytes:
        """The next bytes of the stream, in exactly `size` bytes."""
        free, taken = size - HEAD.size, []
        while self._waiting and free > 0:
            piece = self._waiting.popleft()
            if len(piece) > free:
                self._waiting.appendleft(piece[free:])
                piece = piece[:free]
            taken.append(piece)
            free -= len(piece)
        used = size - HEAD.size - free
        self.left -= used
        return b"".join((HEAD.pack(used, min(self.left, 0xFFFFFFFF)), *taken, bytes(free)))

    def _put(self, kind: int, body: bytes) -> None:
        frame = _FRAME.pack(len(body), kind) + body
        self._waiting.append(frame)
        self.left += len(frame)


class Inbox:
    """Reassembles the stream of one rank."""

    def __init__(self, shared: dict[int, tuple[str, ...]], remote_names: set[str]) -> None:
        self._names: dict[int, tuple[str, ...]] = {}  # by number
        self._shared = shared  # the same for all ranks: most log the same names, which are kept once
        self._remote_names = remote_names  # all names received
        self._rest = b""
        self.left = 0  # bytes that the rank has yet to send

    def feed(self, chunk: bytes) -> Iterator[Message]:
        """Yield the messages that a chunk completes."""
        used, self.left = HEAD.unpack_from(chunk)
        data = self._rest + chunk[HEAD.size : HEAD.size + used]
        at = 0
        while len(data) - at >= _FRAME.size:
            length, kind = _FRAME.unpack_from(data, at)
            if length > _LONGEST:
                raise ValueError(f"a frame of {length:,} bytes was not sent by chiplog")
            if len(data) - at < _FRAME.size + length:
                break
            at += _FRAME.size
            frame = self._frame(kind, data[at : at + length])
            at += length
            if frame is not None:
                yield frame
        self._rest = data[at:]

    def _frame(self, kind: int, body: bytes) -> Message | None:
        kind, counted, topic = kind & 7, bool(kind & _COUNTED), kind >> 4
        if kind in _ROW:
            number, step, time = _ROW[kind].unpack_from(body)
            names = self._names.get(number, ())
            values = Values(names, body[_ROW[kind].size :])
            return RankRow(step, values, time, Topic(topic), counted) if names else None
        if kind == _NAMES:
            self._add_names(int.from_bytes(body[:8], "little"), body[8:])
            return None
        return RankFacts(msgspec.json.decode(body)) if kind == _FACTS else Farewell()

    def _add_names(self, number: int, text: bytes) -> None:
        if len(self._names) >= _MOST_SETS:  # as the rank itself does
            self._names.clear()
        names = self._shared.get(number)
        if names is None:
            coded = msgspec.json.decode(zlib.decompress(text), type=tuple[bytes, ...])
            names = tuple(name.decode("utf-8", "surrogatepass") for name in coded)
            if len(self._shared) >= _MOST_SETS:
                self._shared.clear()
            self._shared[number] = names
            self._remote_names.update(names)
        self._names[number] = names


def _number(names: tuple[str, ...]) -> int:
    # Lengths first, so that different sets never have the same text, whatever is in a name.
    text = " ".join([*(str(len(name)) for name in names), *names])
    return int.from_bytes(blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest())
