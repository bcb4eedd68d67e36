"""JSON Lines: every record as one strict JSON object a line."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec

from chiplog.core import messages, records
from chiplog.core.identity import Identity
from chiplog.core.records import AnyRecord, Plain, Unknown
from chiplog.core.values import convert
from chiplog.sinks.shared.append_file import CHUNK, AppendFile


def open_sink(identity: Identity, environ: Mapping[str, str]) -> Jsonl:  # noqa: ARG001
    return Jsonl(identity.files / "metrics.jsonl")


class Jsonl:
    """One file of JSON Lines; one that is there already is continued. An empty state is an empty file.

    `say` makes a line of a record, or None of one that has none.
    """

    def __init__(self, path: Path, say: Callable[[AnyRecord], bytes | None] | None = None) -> None:
        self.path = Path(path)
        self._say = say or line
        self._tape = AppendFile(self.path)
        self._begun = False
        self._behind: Mapping[str, Plain] | None = None  # a state that is still to be restored

    def write(self, batch: Sequence[AnyRecord]) -> None:
        self._begin()
        if batch:
            lines = [said + b"\n" for record in batch if (said := self._say(record)) is not None]
            self._tape.append(b"".join(lines))

    def close(self) -> None:
        self._tape.close()

    def state(self) -> dict[str, Plain]:
        self._begin()
        return {"size": self._tape.size}

    def restore(self, state: Mapping[str, Plain]) -> None:
        """Bring the file back to what it held; where that fails it is tried again before the next write."""
        self._behind = state
        self._tape.close()  # the file may have been replaced since
        self._begin()

    def _begin(self) -> None:
        if self._behind is not None:
            size = self._behind.get("size", 0)
            if (length := self._tape.length()) < size:
                size = _end_of_lines(self.path, length)
                messages.say(f"{self.path} was changed by somebody else; {size:,} bytes were left of it")
            self._tape.cut(size)
        elif not self._begun:
            self._tape.size = length = self._tape.length()
            if length and (end := _end_of_lines(self.path, length)) != length:
                self._mend(end)
        self._begun, self._behind = True, None

    def _mend(self, end: int) -> None:
        """The last line has no newline: give it one if it is whole, and drop it if it is torn."""
        with self.path.open("rb") as file:
            file.seek(end)
            last = file.read()
        try:
            msgspec.json.decode(last)
        except (msgspec.DecodeError, ValueError, RecursionError):
            self._tape.cut(end)
        else:
            self._tape.append(b"\n")


def line(record: AnyRecord) -> bytes:
    """A record as one strict JSON object without a newline; whatever is in it."""
    try:
        if isinstance(record, Unknown):
            return msgspec.json.encode(records.fields(record))
        return records.encode(record)
    except (ValueError, TypeError, OverflowError):  # lone surrogates, ints beyond what `str` converts
        return msgspec.json.encode(convert.plain(records.fields(record)))


def _end_of_lines(path: Path, length: int) -> int:
    """The byte behind the last newline."""
    with path.open("rb") as file:
        start = length
        while start > 0:
            start = max(0, start - CHUNK)
            file.seek(start)
            found = file.read(CHUNK).rfind(b"\n")
            if found >= 0:
                return start + found + 1
    return 0
