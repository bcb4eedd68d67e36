"""Perfetto's TrackEvent packets: encodes names and numbers as bytes.

A trace is a sequence of packets, so a file grows by appending, and concatenated files are one trace. Strings are
interned: each is written once per sequence, and then referred to by number. Times are wall-clock nanoseconds; in the
packets they count from the sequence's own origin, which a snapshot of clocks ties to the wall clock.

The numbers below are the fields of Perfetto's protocol buffers (`trace_packet.proto`, `track_event.proto`, ...).
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from functools import cache
from typing import TypeAlias

from chiplog.store.protobuf.writer import integer as _number
from chiplog.store.protobuf.writer import message as _bytes
from chiplog.store.protobuf.writer import utf8 as _utf8
from chiplog.store.protobuf.writer import varint as _varint

Args: TypeAlias = Mapping[str, object]

BEGIN, END, INSTANT, COUNTER = 1, 2, 3, 4  # TrackEvent.Type
_CLEARED = 1  # sequence_flags: forget the strings interned so far
_REALTIME, _BOOTTIME, _OURS = 1, 6, 64  # clock ids; 64 and up belong to a sequence
_LOW = (1 << 14) - 1
DEEPEST = 20  # arguments inside arguments
_SHORT = 1 << 42  # ns: 73 minutes; times before that take 6 bytes, later ones 8


class PacketWriter:
    """One writer of packets: its clock, its interned strings, and its tracks.

    `number` identifies it in the trace, `origin` is the time it counts from. Each method returns bytes to append; the
    first ones carry the clock.
    """

    def __init__(self, number: int, origin: int) -> None:
        self.origin = origin
        self._id = _number(10, number)
        self._iids: dict[tuple[int, str], int] = {}
        self._new: list[bytes] = []  # packets that must come first
        self._shapes: dict[tuple[int, str, int | float | None, bool], tuple[bytes, bytes, bytes, bytes]] = {}
        snapshot = b"".join(
            _bytes(1, _number(1, clock) + _number(2, time))
            for clock, time in ((_BOOTTIME, origin), (_REALTIME, origin), (_OURS, 0))
        )
        defaults = _bytes(59, _number(58, _OURS))
        self._new.append(_packet(self._id + _number(13, _CLEARED) + defaults + _bytes(6, snapshot)))

    # -- tracks ----------------------------------------------------------------------------------------------------

    def process(self, uuid: int, pid: int, name: str) -> None:
        self._describe(_number(1, uuid) + _bytes(3, _number(1, pid) + _bytes(6, _utf8(name))))

    def thread(self, uuid: int, pid: int, tid: int, name: str) -> None:
        self._describe(_number(1, uuid) + _bytes(4, _number(1, pid) + _number(2, tid) + _bytes(5, _utf8(name))))

    def track(self, uuid: int, name: str, parent: int = 0, *, rank: int | None = None, ordered: bool = False) -> None:
        """A track below another; `rank` is its place among its siblings if the parent is `ordered`."""
        order = (_number(11, 3) if ordered else b"") + (b"" if rank is None else _number(12, rank))
        self._describe(_below(uuid, name, parent) + order)

    def counter(self, uuid: int, name: str, parent: int = 0, unit: str = "") -> None:
        self._describe(_below(uuid, name, parent) + _bytes(8, _bytes(6, _utf8(unit)) if unit else b""))

    # -- events ----------------------------------------------------------------------------------------------------

    def slice(
        self,
        track: int,
        name: str,
        begin: int,
        end: int,
        args: Args | None = None,
        *,
        step: int | float | None = None,
        flow: int = 0,
    ) -> bytes:
        """A slice. The slices of one track must be nested or disjoint; their order does not matter."""
        since, until = begin - self.origin, end - self.origin
        if args or flow or not 0 <= since <= until < 1 << 56:
            return self._any_slice(track, name, begin, end, args, step, flow)
        wide = until >= _SHORT
        try:
            head, tail, stop, close = self._shapes[track, name, step, wide]
        except KeyError:
            head, tail, stop, close = self._shape(track, name, step, wide)
        more, last = _tables()
        if wide:
            return b"".join(
                (
                    head,
                    more[since & _LOW], more[since >> 14 & _LOW], more[since >> 28 & _LOW], last[since >> 42],
                    tail, stop,
                    more[until & _LOW], more[until >> 14 & _LOW], more[until >> 28 & _LOW], last[until >> 42],
                    close,
                )
            )  # fmt: skip
        return b"".join(
            (
                head, more[since & _LOW], more[since >> 14 & _LOW], last[since >> 28], tail,
                stop, more[until & _LOW], more[until >> 14 & _LOW], last[until >> 28], close,
            )
        )  # fmt: skip

    def begin(self, track: int, name: str, time: int, args: Args | None = None, flow: int = 0) -> bytes:
        return self._event(track, BEGIN, time, self._named(name, args, flow))

    def end(self, track: int, time: int) -> bytes:
        return self._event(track, END, time, b"")

    def instant(self, track: int, name: str, time: int, args: Args | None = None) -> bytes:
        return self._event(track, INSTANT, time, self._named(name, args, 0))

    def count(self, track: int, time: int, value: float) -> bytes:
        return self._event(track, COUNTER, time, b"\xe1\x02" + struct.pack("<d", value))  # double_counter_value

    def news(self) -> bytes:
        """The packets that must precede the events since the last call: clock, tracks and strings."""
        packets = b"".join(self._new)
        self._new.clear()
        return packets

    # -- inside ----------------------------------------------------------------------------------------------------

    def _any_slice(
        self, track: int, name: str, begin: int, end: int, args: Args | None, step: int | float | None, flow: int
    ) -> bytes:
        args = dict(args or {})
        if step is not None:
            args.setdefault("step", step)
        return self.begin(track, name, begin, args, flow) + self.end(track, max(begin, end))

    def _event(self, track: int, kind: int, time: int, rest: bytes) -> bytes:
        since = time - self.origin
        if since < 0:  # before our origin: use the wall clock, which needs none
            when = _number(8, max(0, time)) + _number(58, _BOOTTIME)
        else:
            when = _number(8, since)
        return _packet(when + self._id + _bytes(11, _number(9, kind) + _number(11, track) + rest))

    def _named(self, name: str, args: Args | None, flow: int) -> bytes:
        event = _number(10, self._iid(2, name))
        if args:
            event += b"".join([_bytes(4, self._annotation(str(key), value)) for key, value in args.items()])
        return event + (b"\xf9\x02" + struct.pack("<Q", flow % (1 << 64)) if flow else b"")

    def _annotation(self, name: str, value: object) -> bytes:
        return _number(1, self._iid(3, name)) + _value(value)

    def _iid(self, field: int, text: str) -> int:
        """The number of an event's name (2) or an annotation's (3)."""
        iid = self._iids.get((field, text))
        if iid is None:
            iid = self._iids[field, text] = len(self._iids) + 1
            entry = _number(1, iid) + _bytes(2, _utf8(text))
            self._new.append(_packet(self._id + _bytes(12, _bytes(field, entry))))
        return iid

    def _describe(self, descriptor: bytes) -> None:
        self._new.append(_packet(self._id + _bytes(60, descriptor)))

    def _shape(self, track: int, name: str, step: int | float | None, wide: bool) -> tuple[bytes, bytes, bytes, bytes]:
        """The bytes before and after the times in the packets of a slice without arguments."""
        event = self._named(name, None if step is None else {"step": step}, 0)
        begin = self._id + _bytes(11, _number(9, BEGIN) + _number(11, track) + event)
        end = self._id + _bytes(11, _number(9, END) + _number(11, track))
        time = 9 if wide else 7  # bytes, with the tag
        shape = (
            b"\x0a" + _varint(time + len(begin)) + b"\x40",
            begin,
            b"\x0a" + _varint(time + len(end)) + b"\x40",
            end,
        )
        if len(self._shapes) >= 10_000:
            self._shapes.clear()
        self._shapes[track, name, step, wide] = shape
        return shape


@cache
def _tables() -> tuple[list[bytes], list[bytes]]:
    """All 14-bit numbers as two bytes of a varint: with more to follow, and as the last two."""
    more = [bytes((n & 127 | 128, n >> 7 | 128)) for n in range(1 << 14)]
    last = [bytes((n & 127 | 128, n >> 7)) for n in range(1 << 14)]
    return more, last


def _value(value: object, depth: int = 0) -> bytes:
    if isinstance(value, bool):
        return _number(2, int(value))
    if isinstance(value, int) and -(1 << 63) <= value < 1 << 63:
        return _number(4, value & (1 << 64) - 1)
    if isinstance(value, (int, float)):
        try:
            return b"\x29" + struct.pack("<d", value)
        except (OverflowError, struct.error):
            return _bytes(6, _utf8(str(value)))
    if isinstance(value, str):
        return _bytes(6, _utf8(value))
    if depth > DEEPEST:
        return _bytes(6, b"...")
    if isinstance(value, Mapping):
        items = ((_utf8(str(key)), _value(item, depth + 1)) for key, item in value.items())
        return b"".join([_bytes(11, _bytes(10, key) + item) for key, item in items])
    if isinstance(value, Sequence):
        return b"".join([_bytes(12, _value(item, depth + 1)) for item in value])
    return _bytes(6, _utf8(str(value)))


def _below(uuid: int, name: str, parent: int) -> bytes:
    """The first fields of a track below another."""
    return _number(1, uuid) + _bytes(2, _utf8(name)) + (_number(5, parent) if parent else b"")


def _packet(data: bytes) -> bytes:
    return b"\x0a" + _varint(len(data)) + data
