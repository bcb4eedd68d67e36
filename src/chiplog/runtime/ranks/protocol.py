"""What ranks send each other: a stream of frames, cut into chunks of equal room, one a round.

A frame is a row of doubles under a number that stands for its names; the names are sent once, when they are new. So
ranks may log different names in any order, and a round never grows by a name.

    frame = length (u32), kind (three bits), whether the step was counted (one), topic (four), body
    row   = names (u64), step (i64 or f64), time (i64), doubles
    chunk = used (u32), left (u32), frames...
"""

from __future__ import annotations

import struct
import zlib
from array import array
from collections import deque
from collections.abc import Iterator, Mapping
from hashlib import blake2b
from typing import Any, NamedTuple, TypeAlias

import msgspec

from chiplog.core.records import Row
from chiplog.core.values.convert import double
from chiplog.metrics.ranks.statistics import Values, is_reduced
from chiplog.metrics.ranks.step_gather import RankRow, Topic

HEAD = struct.Struct("<II")
_FRAME = struct.Struct("<IB")
_WHOLE, _BROKEN, _NAMES, _FACTS, _BYE = range(5)
_ROW = {_WHOLE: struct.Struct("<Qqq"), _BROKEN: struct.Struct("<Qdq")}
_COUNTED = 8
_KNOWN = 256  # sets of names that both ends remember of a rank; with one more, both begin anew
_LONGEST = 1 << 30


class RankFacts(NamedTuple):
    """What a rank says of itself: its host, the state of its devices."""

    facts: dict[str, Any]


class Farewell(NamedTuple):
    """A rank has finished."""


Message: TypeAlias = RankRow | RankFacts | Farewell


class Outbox:
    """Rows on their way out, as bytes. Used by one thread."""

    def __init__(self, counters: bool = False) -> None:
        self._counters = counters
        self._sets: dict[tuple[str, ...], tuple[int, tuple[str, ...]]] = {}
        self._told: set[int] = set()
        self._waiting: deque[bytes] = deque()
        self.left = 0  # bytes

    def values(self, row: Row) -> tuple[int, Values]:
        """A row's doubles, with the number of their names."""
        names = tuple(row)
        known = self._sets.get(names)
        if known is None:
            kept = tuple(name for name in names if self._counters or is_reduced(name))
            number = _number(kept)
            if len(self._sets) >= _KNOWN:
                self._sets.clear()
            known = self._sets[names] = number, kept
        number, kept = known
        try:
            doubles = array("d", row.values() if len(kept) == len(names) else [row[name] for name in kept])
        except OverflowError:  # an integer beyond the doubles
            doubles = array("d", [double(row[name]) for name in kept])
        return number, Values(kept, doubles.tobytes())

    def known(self, values: Values) -> tuple[int, Values]:
        """Doubles that are made already, with the number of their names."""
        return _number(values.names), values

    def add(self, number: int, said: RankRow) -> None:
        names, doubles = said.values
        if not names:
            return
        if number not in self._told:
            if len(self._told) >= _KNOWN:
                self._told.clear()
            self._told.add(number)
            text = zlib.compress(msgspec.json.encode([name.encode("utf-8", "surrogatepass") for name in names]), 1)
            self._put(_NAMES, number.to_bytes(8, "little") + text)
        kind = _WHOLE if isinstance(said.step, int) and -(2**63) <= said.step < 2**63 else _BROKEN
        self._put(
            kind | (_COUNTED if said.counted else 0) | said.topic << 4,
            _ROW[kind].pack(number, said.step, said.time) + doubles,
        )

    def tell(self, facts: Mapping[str, Any]) -> None:
        self._put(_FACTS, msgspec.json.encode(facts))

    def leave(self) -> None:
        self._put(_BYE, b"")

    def chunk(self, room: int) -> bytes:
        """The next bytes of the stream, in exactly `room` bytes."""
        free, taken = room - HEAD.size, []
        while self._waiting and free > 0:
            piece = self._waiting.popleft()
            if len(piece) > free:
                self._waiting.appendleft(piece[free:])
                piece = piece[:free]
            taken.append(piece)
            free -= len(piece)
        used = room - HEAD.size - free
        self.left -= used
        return b"".join((HEAD.pack(used, min(self.left, 0xFFFFFFFF)), *taken, bytes(free)))

    def _put(self, kind: int, body: bytes) -> None:
        frame = _FRAME.pack(len(body), kind) + body
        self._waiting.append(frame)
        self.left += len(frame)


class Inbox:
    """The stream of one rank, put together again."""

    def __init__(self, shared: dict[int, tuple[str, ...]], heard: set[str]) -> None:
        self._names: dict[int, tuple[str, ...]] = {}  # what each number stands for
        self._shared = shared  # the same, of all ranks: most say the same names, and they are kept once
        self._heard = heard  # all names that came
        self._rest = b""
        self.left = 0  # bytes that the rank still has to send

    def feed(self, chunk: bytes) -> Iterator[Message]:
        """The frames that a chunk completes."""
        used, self.left = HEAD.unpack_from(chunk)
        data = self._rest + chunk[HEAD.size : HEAD.size + used]
        at = 0
        while len(data) - at >= _FRAME.size:
            length, kind = _FRAME.unpack_from(data, at)
            if length > _LONGEST:
                raise ValueError(f"a frame of {length:,} bytes is none of ours")
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
            self._learn(int.from_bytes(body[:8], "little"), body[8:])
            return None
        return RankFacts(msgspec.json.decode(body)) if kind == _FACTS else Farewell()

    def _learn(self, number: int, text: bytes) -> None:
        if len(self._names) >= _KNOWN:  # as the rank itself does
            self._names.clear()
        names = self._shared.get(number)
        if names is None:
            coded = msgspec.json.decode(zlib.decompress(text), type=tuple[bytes, ...])
            names = tuple(name.decode("utf-8", "surrogatepass") for name in coded)
            if len(self._shared) >= _KNOWN:
                self._shared.clear()
            self._shared[number] = names
            self._heard.update(names)
        self._names[number] = names


def _number(names: tuple[str, ...]) -> int:
    # Lengths first, so that no two sets are one text, whatever is in a name.
    text = " ".join([*(str(len(name)) for name in names), *names])
    return int.from_bytes(blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest())
