"""Records as bytes: one record per line, sealed with the CRC-32 of the bytes before it.

Reading tolerates any bytes. A line that does not parse or does not match its CRC is searched again for whole records
inside it (a torn line has no newline, so the next record may follow it directly); the rest is damage, reported with its
range, never an exception and never a value.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from io import FileIO
from pathlib import Path
from typing import BinaryIO, NamedTuple
from zlib import crc32

import msgspec

from chiplog.core import messages, records
from chiplog.core.errors import MissingPackage
from chiplog.core.files import reading
from chiplog.core.records import AnyRecord, Number, Record, Step, encode_plain
from chiplog.core.values import convert

LONGEST = 16 << 20  # bytes; we never write a longer line, so a longer one is damage
LARGEST_PACKED = 512 << 20  # bytes of a compressed segment; we compress no larger one, so the rest is damage
DENSEST = 1000  # bytes inside for a byte of a compressed segment; more only within LARGEST_PACKED of a whole run
LEAST_PACKED = 3  # bytes that a line takes in a compressed segment: no compression makes its CRC shorter
FEW_LINES = 1000  # that a compressed segment may have whatever its size
APART = 1000  # damaged places that are listed one by one; from there on, adjacent ones are joined
MOST_DAMAGE = 10_000  # places in a segment; what follows is one more
CHUNK = 4 << 20
FIRST = 64 << 10

# Of whole lines: the records that it does not keep itself, and the damaged lines, both by index.
Decode = Callable[[Sequence[bytes]], tuple[dict[int, AnyRecord], list[int]]]

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
        return messages.clean(f"{self.segment}: bytes {self.start}-{self.end}: {self.reason}")


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
        payload = _odd_payload(convert.encodable(record))
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


def are_whole(lines: list[bytes]) -> bool:
    """Whether `is_whole` is true of all of these; a third of the time."""
    seals = [line.rfind(b',"crc":') for line in lines]  # tuples of both would keep the garbage collector busy
    written = [line[at:] for line, at in zip(lines, seals, strict=True)]
    return written == [b',"crc":%d}' % crc32(line[:at]) for line, at in zip(lines, seals, strict=True)]


def unseal(line: bytes) -> AnyRecord | None:
    """The record of one line without its newline; None unless every byte is as written."""
    return decoded(line) if is_whole(line) else None


def decoded(line: bytes) -> AnyRecord | None:
    """The record of a line that is whole; None for one that we never write."""
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
        self._allowed: int | None = None  # lines that are left in a compressed segment of its size
        self._most: int | None = None  # bytes inside a compressed segment
        self._skipping: int | None = None  # where a line started that is too long to be ours

    def read(self, limit: int | None = None) -> Iterator[AnyRecord]:
        """Yield the records of the whole lines so far; stop after about `limit` bytes."""
        for _, record in self.read_at(limit):
            yield record

    def read_at(self, limit: int | None = None) -> Iterator[tuple[int, AnyRecord]]:
        """Like `read`, with the offset after each record's line."""
        for data in self._whole_lines(limit):
            for line in data.split(b"\n")[:-1]:
                start = self.offset
                self.offset += len(line) + 1
                if not line:
                    continue
                record = unseal(line)
                if record is not None:
                    yield self.offset, record
                else:
                    for record in self._salvage(line, start):
                        yield self.offset, record

    def read_chunks(self, decode: Decode) -> Iterator[list[AnyRecord]]:
        """Yield the records of the whole lines so far, a chunk at a time, without those that `decode` keeps itself."""
        for data in self._whole_lines():
            lines = data.split(b"\n")[:-1]
            records_, damaged = decode(lines)
            if not damaged:
                self.offset += len(data)
                yield list(records_.values())
                continue
            salvaged: list[AnyRecord] = []
            bad = set(damaged)
            for at, line in enumerate(lines):
                start = self.offset
                self.offset += len(line) + 1
                if at in bad:
                    salvaged.extend(self._salvage(line, start))
                elif at in records_:
                    salvaged.append(records_[at])
            yield salvaged

    def _whole_lines(self, limit: int | None = None) -> Iterator[bytes]:
        """Yield the whole lines from `offset` on, a chunk at a time; who consumes them moves `offset`."""
        if self._ended or self._is_at_end():
            return
        began = self.offset
        try:
            with _open(self.path, began) as file:
                rest = b""
                while data := file.read(min(CHUNK, max(FIRST, self._left(file)))):
                    data = rest + data if rest else data
                    if self._skipping is not None:
                        data = self._skip(data)
                    cut = data.rfind(b"\n") + 1
                    if cut:
                        if isinstance(file, FileIO):
                            yield data[:cut]
                        else:
                            yield self._plausible(data[:cut])
                            if self._ended:
                                self._note(self.offset, self.offset, "more lines inside than its size can hold")
                                return
                    rest = data[cut:]
                    if len(rest) > LONGEST:
                        self._skipping = self.offset
                        self.offset += len(rest)
                        rest = b""
                    if self._skipping is not None and isinstance(file, FileIO):
                        self.offset = reading.skip_hole(file, self.offset)
                    elif not isinstance(file, FileIO) and self.offset > (most := self._most_packed()):
                        self._ended = True
                        self._note(self.offset, self.offset, f"more than {most:,} bytes inside, not read")
                        return
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

    def _plausible(self, data: bytes) -> bytes:
        """As many of these lines as a compressed segment of this size can have; the reading ends if there are more."""
        if self._allowed is None:
            self._allowed = size_of(located(self.path)) // LEAST_PACKED + FEW_LINES
        count = data.count(b"\n")
        if count > self._allowed:
            self._ended = True
            data = b"".join(line + b"\n" for line in data.split(b"\n", self._allowed)[: self._allowed])
        self._allowed -= min(count, self._allowed)
        return data

    def _most_packed(self) -> int:
        """How many bytes of a compressed segment are read: its share of what a whole run may have, or what is usual."""
        if self._most is None:
            packed = located(self.path)
            size, whole = size_of(packed), _packed_size(packed.parent, packed.parent.stat().st_mtime_ns)
            self._most = min(LARGEST_PACKED, max(DENSEST * size, LARGEST_PACKED * size // max(1, whole)))
        return self._most

    def _is_at_end(self) -> bool:
        """Whether all of a plain segment has been read: one call of the system, and a run may have hundreds."""
        try:
            return self.offset > 0 and self.path.lstat().st_size == self.offset
        except OSError:
            return False

    def _skip(self, data: bytes) -> bytes:
        """Pass over the rest of a line that is too long; returns what follows it."""
        assert self._skipping is not None
        first = data.find(b"\n") + 1
        if not first:
            self.offset += len(data)
            return b""
        self._note(self._skipping, self.offset + first, "line too long")
        self._skipping = None
        self.offset += first
        return data[first:]

    def _left(self, file: BinaryIO | FileIO) -> int:
        """About how many bytes are left to read: a whole chunk as a buffer would cost more than a few new lines."""
        return os.fstat(file.fileno()).st_size - self.offset if isinstance(file, FileIO) else CHUNK

    def torn(self) -> Damage | None:
        """The unfinished line at the end, if there is one: a write in progress, or the last one before a kill."""
        try:
            size = size_of(self.path)
        except OSError:
            return None
        start = self._skipping if self._skipping is not None else self.offset
        return Damage(self.path.name, start, size, "unfinished line") if size > start else None

    def _salvage(self, line: bytes, start: int) -> Iterator[AnyRecord]:
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
                            self._note(start + good, start + at, _reason(line[good:at]))
                        good = match.end()
                        yield record
                    break
            at = following
        if good < len(line):
            self._note(start + good, start + len(line), _reason(line[good:]))

    def _note(self, start: int, end: int, reason: str) -> None:
        last = self.damage[-1] if self.damage else None
        if last is not None and len(self.damage) > MOST_DAMAGE:
            self.damage[-1] = Damage(last.segment, last.start, end, "much damage from here on")
        elif (
            last is not None
            and len(self.damage) >= APART
            and last.reason == reason
            and start - 1 <= last.end < end  # a newline may be between
        ):
            self.damage[-1] = Damage(last.segment, last.start, end, reason)
        else:
            self.damage.append(Damage(self.path.name, start, end, reason))


def located(path: Path) -> Path:
    """The current file of a segment: plain, or compressed by `compact --prune`."""
    packed = path.with_name(f"{path.name}.zst")
    return packed if not _exists(path) and _exists(packed) else path


@lru_cache(maxsize=64)
def _packed_size(folder: Path, changed: int) -> int:  # noqa: ARG001
    """The bytes of all compressed segments in a folder, which was changed then."""
    entries = reading.entries(folder.parent, folder.name)
    return sum(about.st_size for name, about in entries if name.endswith(".zst"))


def size_of(path: Path) -> int:
    """The length of a journal; raises `OSError` if it is not a regular file."""
    return reading.status(*_place(path)).st_size


def open_plain(path: Path) -> FileIO:
    """A journal that is not compressed."""
    return reading.open_file(*_place(path))


def _exists(path: Path) -> bool:
    return reading.exists(*_place(path))


def _place(path: Path) -> tuple[Path, str]:
    """The run of a journal, and its path inside it."""
    folder = path.parent
    return folder.parent, f"{folder.name}/{path.name}"


def _open(path: Path, offset: int) -> BinaryIO | FileIO:
    try:
        plain = open_plain(path)
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
    with open_plain(path) as file:
        stream: BinaryIO = pa.CompressedInputStream(pa.OSFile(reading.native_path(file, path)), "zstd")
    return stream


def endings(path: Path, *looks: int) -> Iterator[list[AnyRecord]]:
    """The end of a journal, in growing sizes up to the whole."""
    try:
        size = size_of(path)
    except OSError:  # compressed, gone, or not a file
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
