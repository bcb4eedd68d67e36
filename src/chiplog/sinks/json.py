"""JSON: all records in one array, which is a valid document after every write."""

from __future__ import annotations

import json
import stat
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

from chiplog.core import messages
from chiplog.core.errors import RestartDelivery
from chiplog.core.files import reading, writing
from chiplog.core.identity import Identity
from chiplog.core.records import AnyRecord, Plain
from chiplog.sinks.jsonl import line
from chiplog.sinks.shared import saved_state
from chiplog.sinks.shared.append_file import AppendFile, check_regular, keep_aside, numbered

OPEN, END = b"[", b"\n]\n"
PAGE = 4096
MENDED = 256 << 20  # bytes of a damaged file that is mended; a larger one is put aside as it is
HEAD = 96  # bytes that identify a file: they include the time of its first record

Lines: TypeAlias = Callable[[AnyRecord, dict[str, Plain]], Iterable[bytes]]  # a record, and notes to keep


def open_sink(identity: Identity, environ: Mapping[str, str]) -> Json:  # noqa: ARG001
    return Json(identity.files / "metrics.json")


class Json:
    """One JSON array; an existing file is continued. An empty state means an empty array.

    If the end of a file is damaged, its whole records stay and a copy of the damaged file is kept next to it. `lines`
    turns a record into objects; it may keep notes about earlier records, which are saved with the state. With `own`, a
    file that another program has put in our place is kept aside and ours starts again; with `fresh`, so is a file that
    was there before the first record.
    """

    def __init__(self, path: Path, lines: Lines | None = None, *, own: bool = False, fresh: bool = False) -> None:
        self.path = Path(path)
        self._lines = lines or _one_line
        self._notes: dict[str, Plain] = {}
        self._file = AppendFile(self.path, tail=END)
        self._started = False
        self._empty = True
        self._own, self._fresh = own, fresh
        self._head = ""  # the first bytes of our own file

    def write(self, batch: Sequence[AnyRecord]) -> None:
        self._start()
        held = b""
        for one in [one for record in batch for one in self._lines(record, self._notes)]:
            if held and self._crosses(len(held) + 2 + len(one)):
                self._append(held)
                held = b""
            held += b",\n" + one if held else one
        if held:
            self._append(held)

    @property
    def size(self) -> int:
        """The bytes written so far."""
        return self._file.size

    def probe(self) -> None:
        """Write the end of the array again, which changes nothing, to measure how long the disk takes."""
        self._file.append(b"")

    def close(self) -> None:
        self._start()
        self._file.close()

    def state(self) -> dict[str, Plain]:
        self._start()
        state: dict[str, Plain] = {"size": self._file.size, "empty": self._empty}
        if self._notes:
            state["notes"] = dict(self._notes)
        if self._own:
            if len(self._head) < HEAD:
                self._head = self._read_head(min(HEAD, self._file.size))
            state["head"] = self._head
        return state

    def restore(self, state: Mapping[str, Plain]) -> None:
        """Cut the array back to what it held when the state was saved."""
        self._file.close()  # the file may have been replaced since
        size, empty = saved_state.count(state, "size"), saved_state.flag(state, "empty")
        notes = saved_state.mapping(state, "notes")
        if self._own and size:
            self._head = saved_state.text(state, "head")
            if not self._file.length() or self._read_head(len(self._head)) != self._head:
                self._put_aside()
                raise RestartDelivery(f"{self.path} is gone, or belongs to another run")
        self._notes = notes
        if not size:
            self._start_empty()
        elif self._file.restore(size):
            self._empty = empty
        else:
            messages.say(f"{self.path} was cut by another program; what is left of it is kept")
            self._continue()
        self._started = True

    def _start(self) -> None:
        if self._started:
            return
        if self._fresh:
            self._put_aside()
            self._start_empty()
        else:
            self._continue()
        self._started = True

    def _crosses(self, size: int) -> bool:
        """Whether so much more would reach into another page: a process that is killed may leave half of a write there,
        but never half of a page."""
        return self._file.size // PAGE != (self._file.size + size + len(END) + 1) // PAGE

    def _append(self, lines: bytes) -> None:
        self._file.append((b"\n" if self._empty else b",\n") + lines)
        self._empty = False

    def _continue(self) -> None:
        """Append to what is in the file."""
        length = self._file.length()
        if length and self._ends_well(length):
            self._file.size, self._empty = length - len(END), False
            return
        content = b""
        if length > MENDED:
            messages.say(f"{self.path} is damaged, and too large to be mended: it has {length:,} bytes")
            self._put_aside()
            self._start_empty()
            return
        if length:
            with reading.open_path(self.path) as file:
                content = file.read()
        end, count, whole = _values(content)
        if not whole:
            aside = numbered(self.path, "{name}.damaged-{number}")
            with writing.replacing(aside, stat.S_IMODE(reading.path_status(self.path).st_mode)) as temporary:
                temporary.write_bytes(content)
            messages.say(
                f"{self.path} is damaged from byte {end:,} on; its {count:,} whole records are kept, "
                f"and the damaged file is {aside.name}"
            )
        if count:
            self._file.cut(end)
            self._empty = False
        else:
            self._start_empty()

    def _put_aside(self) -> None:
        """Keep the records of another program under another name, if there are any."""
        check_regular(self.path)
        if self._file.length() > len(OPEN + END):
            keep_aside(self.path)

    def _read_head(self, size: int) -> str:
        with reading.open_path(self.path) as file:
            return file.read(size).decode("latin-1")

    def _start_empty(self) -> None:
        self._file.cut(0)
        self._file.append(OPEN)
        self._empty = True

    def _ends_well(self, length: int) -> bool:
        """Whether the file starts and ends as ours do; a torn write has lost its end."""
        with reading.open_path(self.path) as file:
            if file.read(2) != OPEN + b"\n":
                return False
            file.seek(max(0, length - len(END) - 1))
            return file.read() == b"}" + END


def _one_line(record: AnyRecord, notes: dict[str, Plain]) -> list[bytes]:  # noqa: ARG001
    return [line(record)]


def _values(content: bytes) -> tuple[int, int, bool]:
    """The end of the last whole value of an array, the number of values, and whether the array is whole."""
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        text = content[: error.start].decode()
    scan = json.JSONDecoder().raw_decode
    at, count = _skip(text, 0), 0
    if not text.startswith("[", at):
        return 0, 0, not content
    end = at = at + 1
    while not text.startswith("]", at := _skip(text, at)):
        if count and not text.startswith(",", at):
            break
        try:
            _, at = scan(text, _skip(text, at + 1) if count else at)
        except (ValueError, RecursionError):
            break
        end, count = at, count + 1
    whole = text[at:].strip() == "]" and content.rstrip().endswith(b"]")
    return len(text[:end].encode()), count, whole


def _skip(text: str, at: int) -> int:
    while text.startswith((" ", "\n", "\r", "\t"), at):
        at += 1
    return at
