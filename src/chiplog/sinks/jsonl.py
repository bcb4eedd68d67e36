"""JSON Lines: every record as one strict JSON object per line."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec

from chiplog.core import messages, records
from chiplog.core.files import reading
from chiplog.core.identity import Identity
from chiplog.core.records import AnyRecord, Plain, Unknown
from chiplog.core.values import convert
from chiplog.sinks.shared import saved_state
from chiplog.sinks.shared.append_file import CHUNK, AppendFile

LONGEST_LINE = 64 << 20  # bytes, at the end of a file that is continued


def open_sink(identity: Identity, environ: Mapping[str, str]) -> Jsonl:  # noqa: ARG001
    return Jsonl(identity.files / "metrics.jsonl")


class Jsonl:
    """One file of JSON Lines; an existing file is continued. An empty state means an empty file.

    `encode` turns a record into a line, or into None if it has none.
    """

    def __init__(self, path: Path, encode: Callable[[AnyRecord], bytes | None] | None = None) -> None:
        self.path = Path(path)
        self._encode = encode or line
        self._file = AppendFile(self.path)
        self._started = False

    def write(self, batch: Sequence[AnyRecord]) -> None:
        self._start()
        if batch:
            lines = [encoded + b"\n" for record in batch if (encoded := self._encode(record)) is not None]
            self._file.append(b"".join(lines))

    def close(self) -> None:
        self._file.close()

    def state(self) -> dict[str, Plain]:
        self._start()
        return {"size": self._file.size}

    def restore(self, state: Mapping[str, Plain]) -> None:
        """Cut the file back to what it held when the state was saved."""
        if not self._file.restore(saved_state.count(state, "size")):
            size = _end_of_lines(self.path, self._file.length())
            messages.say(f"{self.path} was changed by another program; {size:,} bytes of it are left")
            self._file.cut(size)
        self._started = True

    def _start(self) -> None:
        """Continue a file that exists."""
        if not self._started:
            self._file.size = length = self._file.length()
            if length and (end := _end_of_lines(self.path, length)) != length:
                self._mend(end)
            self._started = True

    def _mend(self, end: int) -> None:
        """End the last line, which has no newline, if it is whole; drop it if it is torn."""
        with reading.open_path(self.path) as file:
            file.seek(end)
            last = file.read()
        try:
            msgspec.json.decode(last)
        except (msgspec.DecodeError, ValueError, RecursionError):
            self._file.cut(end)
        else:
            self._file.append(b"\n")


def line(record: AnyRecord) -> bytes:
    """Any record as one strict JSON object, without a newline."""
    try:
        if isinstance(record, Unknown):
            return msgspec.json.encode(records.fields(record))
        return records.encode(record)
    except (ValueError, TypeError, OverflowError):  # lone surrogates, integers too long for `str`
        return msgspec.json.encode(convert.plain(records.fields(record)))


def _end_of_lines(path: Path, length: int) -> int:
    """The offset after the last newline of a file, which may be missing if its length is 0."""
    if not length:
        return 0
    with reading.open_path(path) as file:
        start = length
        while start > 0:
            if length - start > LONGEST_LINE:
                raise ValueError(f"no line ends in the last {LONGEST_LINE >> 20} MiB of {path}")
            start = max(0, start - CHUNK)
            file.seek(start)
            newline = file.read(CHUNK).rfind(b"\n")
            if newline >= 0:
                return start + newline + 1
    return 0
