"""JSON: all records in one array, a valid document after every write."""

from __future__ import annotations

import json
import stat
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

from chiplog.core import messages as notes
from chiplog.core.errors import RestartDelivery
from chiplog.core.identity import Identity
from chiplog.core.records import AnyRecord, Plain
from chiplog.sinks.jsonl import line
from chiplog.sinks.shared.append_file import AppendFile, check_regular

OPEN, END = b"[", b"\n]\n"
PAGE = 4096
HEAD = 96  # bytes by which a file is known again: the time of its first record is among them

Lines: TypeAlias = Callable[[AnyRecord, dict[str, Plain]], Iterable[bytes]]  # a record, and notes to keep


def open_sink(identity: Identity, environ: Mapping[str, str]) -> Json:  # noqa: ARG001
    return Json(identity.files / "metrics.json")


class Json:
    """One JSON array; a file that is there already is continued. An empty state stands for an empty array.

    A file that is damaged at its end keeps its whole records, and the damaged one is kept beside it. `lines` says which
    objects a record becomes; it may note what it needs to know of earlier records, which is kept with the state.
    `own`: a file that has been replaced by another's is not written over, but put aside, and ours is made again;
    `fresh`: also one that was there before the first record.
    """

    def __init__(self, path: Path, lines: Lines | None = None, *, own: bool = False, fresh: bool = False) -> None:
        self.path = Path(path)
        self._lines = lines or _as_it_is
        self._notes: dict[str, Plain] = {}
        self._tape = AppendFile(self.path, tail=END)
        self._begun = False
        self._behind: Mapping[str, Plain] | None = None  # a state that is still to be restored
        self._empty = True
        self._own, self._fresh = own, fresh
        self._head = ""  # how our own file begins

    def write(self, batch: Sequence[AnyRecord]) -> None:
        self._begin()
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
        return self._tape.size

    def probe(self) -> None:
        """Write the end of the array once more, which changes nothing: so long takes the disk."""
        self._tape.append(b"")

    def close(self) -> None:
        self._begin()
        self._tape.close()

    def state(self) -> dict[str, Plain]:
        self._begin()
        state: dict[str, Plain] = {"size": self._tape.size, "empty": self._empty}
        if self._notes:
            state["notes"] = dict(self._notes)
        if self._own:
            if len(self._head) < HEAD:
                self._head = self._read_head(min(HEAD, self._tape.size))
            state["head"] = self._head
        return state

    def restore(self, state: Mapping[str, Plain]) -> None:
        """Bring the array back to what it held; where that fails it is tried again before the next write."""
        self._tape.close()  # the file may have been replaced since
        if self._own and state.get("size"):
            self._head = str(state.get("head", ""))
            if not self._tape.length() or self._read_head(len(self._head)) != self._head:
                self._put_aside()
                raise RestartDelivery(f"{self.path} is gone, or of another run")
        self._behind, self._notes = state, dict(state.get("notes", {}))
        self._begin()

    def _crosses(self, size: int) -> bool:
        """Whether so much more would reach into another page: a process that is killed may leave half of a write there,
        but never half of a page."""
        return self._tape.size // PAGE != (self._tape.size + size + len(END) + 1) // PAGE

    def _append(self, lines: bytes) -> None:
        self._tape.append((b"\n" if self._empty else b",\n") + lines)
        self._empty = False

    def _begin(self) -> None:
        if self._behind is not None:
            size = self._behind.get("size", 0)
            if not size:
                self._start_empty()
            elif self._tape.length() >= size:
                self._empty = self._behind["empty"]
                self._tape.cut(size)
            else:
                notes.say(f"{self.path} was cut by somebody else; what is left of it is kept")
                self._continue()
        elif not self._begun and self._fresh:
            self._put_aside()
            self._start_empty()
        elif not self._begun:
            self._continue()
        self._begun, self._behind = True, None

    def _continue(self) -> None:
        """Go on behind what is in the file."""
        length = self._tape.length()
        if length and self._ends_well(length):
            self._tape.size, self._empty = length - len(END), False
            return
        content = self.path.read_bytes() if length else b""
        end, count, whole = _values(content)
        if not whole:
            aside = _free(lambda number: self.path.with_name(f"{self.path.name}.damaged-{number}"))
            aside.touch(mode=stat.S_IMODE(self.path.stat().st_mode))
            aside.write_bytes(content)
            notes.say(
                f"{self.path} was damaged from byte {end:,} on; its {count:,} whole records are kept, "
                f"and the damaged file is {aside.name}"
            )
        if count:
            self._tape.cut(end)
            self._empty = False
        else:
            self._start_empty()

    def _put_aside(self) -> None:
        """Keep the records of somebody else under another name, if there are any."""
        check_regular(self.path)
        if self._tape.length() <= len(OPEN + END):
            return
        aside = _free(lambda number: self.path.with_name(f"{self.path.stem}.{number}{self.path.suffix}"))
        self.path.replace(aside)
        notes.say(f"{self.path} was there already; it is {aside.name} now")

    def _read_head(self, size: int) -> str:
        with self.path.open("rb") as file:
            return file.read(size).decode("latin-1")

    def _start_empty(self) -> None:
        self._tape.cut(0)
        self._tape.append(OPEN)
        self._empty = True

    def _ends_well(self, length: int) -> bool:
        """Whether the file begins and ends as ours do; a torn write has lost the end."""
        with self.path.open("rb") as file:
            if file.read(2) != OPEN + b"\n":
                return False
            file.seek(max(0, length - len(END) - 1))
            return file.read() == b"}" + END


def _as_it_is(record: AnyRecord, notes: dict[str, Plain]) -> list[bytes]:  # noqa: ARG001
    return [line(record)]


def _values(content: bytes) -> tuple[int, int, bool]:
    """Where the last whole value of an array ends, how many there are, and whether the array is whole."""
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


def _free(name: Callable[[int], Path]) -> Path:
    """The first of these names that nobody has."""
    number = 1
    while (path := name(number)).exists():
        number += 1
    return path
