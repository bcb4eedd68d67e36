"""Records as bytes: one record per line, sealed with the CRC-32 of the bytes before it.

Reading tolerates any bytes. A line that does not parse or does not match its CRC is searched again for whole records
inside it (a torn line has no newline, so the next record may follow it directly); the rest is damage, reported with its
range, never an exception and never a value.
"""

from __future__ import annotations

import os
import re
from collections.abc import Generator, Iterator
from io import FileIO
from pathlib import Path
from typing import BinaryIO, NamedTuple
from zlib import crc32

import msgspec

from chiplog.core import messages, records
from chiplog.core.errors import MissingPackage
from chiplog.core.records import AnyRecord, Number, Record, Step, encode_plain
from chiplog.core.values import convert

LONGEST = 16 << 20  # bytes; we never write a longer line, so a longer one is damage
CHUNK = 4 << 20
FIRST = 64 << 10

_SEAL = re.compile(rb',"crc":(0|[1-9][0-9]{0,9})\}')
_START = b'{"log":"'
_FAR = 2**63  # `seq` and `time` are 64-bit integers; we never write others


class Damage(NamedTuple):
    """Bytes of a segment that hold no readable record."""

    segment: str
    start: int
    end: int
    reason: str

    def __str__(self) -> str:
        return f"{self.segment}: bytes {self.start}-{self.end}: {self.reason}"


def line_of(record: Record) -> bytes:
    """The line of a record. On the hot path of `log`, so it calls as little as possible."""
    try:
        payload = encode_plain(record)
        if type(record) is Step:  # a sum costs a third of a search for null in the text
            total: float = sum(record.metrics.values(), record.step)  # type: ignore[assignment]
            finite = total - total == 0
        else:
            finite = b"null" not in payload
        if not finite or len(payload) > LONGEST >> 1:  # a number that JSON cannot represent, or too much for a line
            payload = _odd_payload(record)
    except Exception:  # lone surrogates, foreign types: rare, and never a reason to lose the record
        payload = _odd_payload(convert.sayable(record))
    head = payload[:-1]
    return b'%b,"crc":%d}\n' % (head, crc32(head))


def _odd_payload(record: Record) -> bytes:
    payload = records.encode(record)
    if len(payload) > LONGEST >> 1:
        messages.once("too long", "a record was too long for a line of the journal; its lists and texts were cut")
        payload = records.encode(convert.shorten(record))
    return payload


def number(value: Number | str) -> float:
    """A number of a record as a double; those that JSON cannot hold are texts there."""
    return records.NONFINITE.get(value, float("nan")) if isinstance(value, str) else convert.double(value)


def sealed(payload: bytes) -> bytes:
    """A JSON object with its CRC as the last field."""
    head = payload[:-1]
    return b'%b,"crc":%d}' % (head, crc32(head))


def is_whole(line: bytes) -> bool:
    """Whether every byte of a sealed object is as written."""
    at = line.rfind(b',"crc":')
    return at >= 0 and line[at:] == b',"crc":%d}' % crc32(line[:at])


def unseal(line: bytes) -> AnyRecord | None:
    """The record of one line without its newline; None unless every byte is as written."""
    if not is_whole(line):
        return None
    try:
        record = records.decode(line)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return None
    return record if -_FAR <= record.seq < _FAR and -_FAR <= record.time < _FAR else None


class Scanner:
    """Reads a segment from a byte on, as far as whole lines go; call `read` again when it has grown.

    `damage` lists what could not be read so far; `offset` is the first byte not yet consumed.
    """

    def __init__(self, path: Path, offset: int = 0, *, ended: bool = False) -> None:
        self.path = path
        self._ended = ended  # a compressed segment that has been read to its end: it never grows
        self.offset = offset
        self.damage: list[Damage] = []
        self._skipping: int | None = None  # where a line started that is too long to be ours

    def read(self, limit: int | None = None) -> Iterator[AnyRecord]:
        """Yield the records of the whole lines so far; stop after about `limit` bytes."""
        for _, record in self.read_at(limit):
            yield record

    def read_at(self, limit: int | None = None) -> Iterator[tuple[int, AnyRecord]]:
        """Like `read`, with the offset after each record's line."""
        if self._ended:
            return
        began = self.offset
        try:
            with _open(self.path, began) as file:
                rest = b""
                while data := file.read(min(CHUNK, max(FIRST, self._left(file)))):
                    rest = yield from self._lines(rest + data if rest else data)
                    if limit is not None and self.offset - began >= limit:
                        return
                if not isinstance(file, FileIO):  # a compressed segment never grows, and was whole
                    self._ended = True
                    if rest or not self.offset:
                        self._note(self.offset, self.offset + len(rest), "unfinished line" if rest else "empty")
        except FileNotFoundError:
            return
        except OSError as error:
            self._ended = located(self.path) != self.path
            self._note(self.offset, self.offset, f"cannot be read: {error.strerror or error}")

    def _left(self, file: BinaryIO | FileIO) -> int:
        """About how many bytes are left to read: a whole chunk as a buffer would cost more than a few new lines."""
        return os.fstat(file.fileno()).st_size - self.offset if isinstance(file, FileIO) else CHUNK

    def torn(self) -> Damage | None:
        """The unfinished line at the end, if there is one: a write in progress, or the last one before a kill."""
        try:
            size = self.path.stat().st_size
        except OSError:
            return None
        start = self._skipping if self._skipping is not None else self.offset
        return Damage(self.path.name, start, size, "unfinished line") if size > start else None

    def _lines(self, data: bytes) -> Generator[tuple[int, AnyRecord], None, bytes]:
        """Consume the whole lines of `data`, which starts at `offset`; return the unfinished rest."""
        cut = data.rfind(b"\n") + 1
        if self._skipping is not None:
            if not cut:
                self.offset += len(data)
                return b""
            first = data.index(b"\n") + 1
            self._note(self._skipping, self.offset + first, "line too long")
            self._skipping = None
            self.offset += first
            data, cut = data[first:], cut - first
        for line in data[:cut].split(b"\n")[:-1]:
            begin = self.offset
            self.offset += len(line) + 1
            if not line:
                continue
            record = unseal(line)
            if record is not None:
                yield self.offset, record
            else:
                for record in self._salvage(line, begin):
                    yield self.offset, record
        rest = data[cut:]
        if len(rest) > LONGEST:
            self._skipping = self.offset
            self.offset += len(rest)
            return b""
        return rest

    def _salvage(self, line: bytes, begin: int) -> Iterator[AnyRecord]:
        """The whole records inside a damaged line."""
        good = 0
        at = line.find(_START)
        while at >= 0:
            following = line.find(_START, at + 1)
            stop = len(line) if following < 0 else following
            crc, summed = 0, at
            for match in _SEAL.finditer(line, at, stop):
                crc, summed = crc32(line[summed : match.start()], crc), match.start()
                if crc == int(match[1]):
                    record = unseal(line[at : match.end()])
                    if record is not None:
                        if at > good:
                            self._note(begin + good, begin + at, _reason(line[good:at]))
                        good = match.end()
                        yield record
                    break
            at = following
        if good < len(line):
            self._note(begin + good, begin + len(line), _reason(line[good:]))

    def _note(self, start: int, end: int, reason: str) -> None:
        self.damage.append(Damage(self.path.name, start, end, reason))


def located(path: Path) -> Path:
    """The current file of a segment: plain, or compressed by `compact --prune`."""
    packed = path.with_name(f"{path.name}.zst")
    return packed if not path.exists() and packed.exists() else path


def _open(path: Path, offset: int) -> BinaryIO | FileIO:
    try:
        plain = FileIO(path)
    except FileNotFoundError:
        packed = located(path)
        if packed == path:
            raise
        file = _open_packed(packed)
        while offset > 0 and (skipped := len(file.read(min(offset, CHUNK)))):
            offset -= skipped
        return file
    plain.seek(offset)
    return plain


def _open_packed(path: Path) -> BinaryIO:
    try:
        import pyarrow as pa  # only a pruned run needs it
    except ImportError:
        raise MissingPackage(f"{path.name} is compressed; to read it: pip install 'chiplog[read]'") from None

    stream: BinaryIO = pa.input_stream(str(path), compression="zstd")
    return stream


def endings(path: Path, *looks: int) -> Iterator[list[AnyRecord]]:
    """The end of a journal, in growing sizes up to the whole."""
    try:
        size = path.stat().st_size
    except OSError:  # compressed, or gone
        return
    for look in looks:
        yield list(Scanner(path, max(0, size - look)).read())
        if size <= look:
            return


def _reason(data: bytes) -> str:
    if not data.strip(b"\0"):
        return "zeros"
    if not data.startswith(_START):
        return "no record"
    return "does not match its CRC" if _SEAL.search(data) else "torn line"
