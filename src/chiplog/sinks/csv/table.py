"""A CSV file whose columns grow: a new row is appended, a new column rewrites the file once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import BinaryIO, NamedTuple

import msgspec

from chiplog.core import messages
from chiplog.core.records import NONFINITE, Plain
from chiplog.core.values import convert
from chiplog.sinks.shared.append_file import CHUNK, AppendFile, check_regular

MOST_COLUMNS = 16_384  # what Excel opens; with a new name in every row a file grows with their square
MOST_PLACES = 1 << 20  # of shapes to be remembered, in places of columns

_NUMBERS = frozenset((int, float, bool))
_FORMULA = ("=", "+", "-", "@", "\t", "\r")  # what a spreadsheet would run
_SPECIAL = frozenset(',"\r\n')
_encode = msgspec.json.Encoder().encode


class Shape(NamedTuple):
    """How rows with the same names in the same order become lines."""

    template: bytes
    order: tuple[str, ...]
    end: bytes | None  # what follows the cells if they are the first ones, in order


class GrowingTable:
    """One CSV file. `leads` are its first columns, which every row brings as ready bytes.

    A file that is there already is not ours unless `restore` says so, and is kept under another name.
    """

    def __init__(self, path: Path, leads: Sequence[str] = (), *, ours: bool = False) -> None:
        self.path = path
        self.rows = 0
        self.rewrites = 0
        self._tape = AppendFile(path)
        self._leads = tuple(leads)
        self._columns: dict[str, int] = {}
        self._shapes: dict[tuple[str, ...], Shape] = {}
        self._head = 0  # bytes of the header
        self._begun = False
        self._ours = ours

    def add(self, rows: Sequence[tuple[bytes, Mapping[str, Plain]]]) -> None:
        """Append rows; all new columns among them cost one rewrite together."""
        if not self._begun:
            self._begin()
        shapes = self._shapes
        fresh: dict[str, None] = {}
        if any(tuple(cells) not in shapes for _, cells in rows):
            rows = [(lead, self._admit(cells, fresh)) for lead, cells in rows]
        if fresh:
            self._extend(tuple(fresh))
        lines = [self._line(lead, cells) for lead, cells in rows]
        if not self._tape.size:
            header = self._header()
            self._head = len(header)
            lines.insert(0, header)
        self._tape.append(b"".join(lines))
        self.rows += len(rows)

    def state(self) -> dict[str, Plain]:
        columns = list(self._columns)
        return {"columns": columns, "head": self._head, "rows": self.rows, "size": self._tape.size}

    def restore(self, state: Mapping[str, Plain]) -> None:
        """Bring the file back to what it was when `state` was taken; without one, to nothing."""
        self._begun = True
        self._tape.close()  # the file may have been replaced since
        self._tape.aside.unlink(missing_ok=True)
        self._shapes.clear()
        self._columns = {name: place for place, name in enumerate(state.get("columns", ()))}
        self._head, self.rows = state.get("head", 0), state.get("rows", 0)
        size = state.get("size", 0)
        if not size:
            self._tape.remove()
            return
        header = self._read_header()
        if len(header) == self._head and self._tape.length() >= size:
            self._tape.cut(size)
            return
        self._tape.replace(self._narrowed(_count(header) - len(self._leads) - len(self._columns)))
        if self._tape.size != size:
            left = f"{self.rows:,} of {state['rows']:,} rows"
            messages.say(f"{self.path} was changed by somebody else; {left} were left of it")

    def keep_other(self) -> None:
        """Keep the file of somebody else under another name."""
        keep_aside(self.path)
        self._ours = True

    def remove(self) -> None:
        if self._begun or self._ours:
            self._tape.remove()

    def close(self) -> None:
        self._tape.close()

    def _begin(self) -> None:
        if not self._ours:
            self.keep_other()
        elif self._tape.length():
            self._tape.cut(0)
        self._begun = True

    def _admit(self, cells: Mapping[str, Plain], fresh: dict[str, None]) -> dict[str, Plain]:
        """The cells of a row with new names among them, which are noted in `fresh`."""
        admitted: dict[str, Plain] = {}
        for name, value in cells.items():
            column = _sayable(name)
            if column not in self._columns and column not in fresh:
                if len(self._columns) + len(fresh) >= MOST_COLUMNS:
                    full = f"{self.path} has {MOST_COLUMNS:,} columns and gets no more"
                    messages.once(full, f"{full}; the journal has everything")
                    continue
                fresh[column] = None
            admitted[column] = value
        return admitted

    def _extend(self, names: Sequence[str]) -> None:
        self._shapes.clear()
        for name in names:
            self._columns[name] = len(self._columns)
        if self._tape.size:
            self._tape.replace(self._widened(names))
            self.rewrites += 1

    def _widened(self, names: Sequence[str]) -> Iterator[bytes]:
        """The file with more columns, empty in all rows."""
        with self.path.open("rb") as file:
            header = file.read(self._head)[:-1] + b"".join(b"," + written(name) for name in names) + b"\n"
            yield header
            self._head = len(header)
            left, end, quoted = self._tape.size - file.tell(), b"," * len(names) + b"\n", 0
            piece = max(4096, CHUNK // len(end))  # a piece grows by as much as `end` at every line
            while left and (chunk := file.read(min(piece, left))):
                left -= len(chunk)
                parts = chunk.split(b'"')
                # Every second part is outside quotes.
                parts[quoted::2] = [part.replace(b"\n", end) for part in parts[quoted::2]]
                yield b'"'.join(parts)
                quoted = (quoted + len(parts) - 1) % 2

    def _narrowed(self, extra: int) -> Iterator[bytes]:
        """The first `rows` rows without their last columns, which are empty in them."""
        wanted, self.rows = self.rows, 0
        try:
            file = self.path.open("rb")
        except FileNotFoundError:
            return
        with file:
            rows = _rows(file)
            if header := next(rows, b""):
                yield header[: self._head - 1] + b"\n"
            for row in rows:
                if self.rows == wanted:
                    return
                yield row[: len(row) - extra - 1] + b"\n"
                self.rows += 1

    def _read_header(self) -> bytes:
        try:
            with self.path.open("rb") as file:
                return next(_rows(file), b"")
        except FileNotFoundError:
            return b""

    def _header(self) -> bytes:
        return b",".join(map(written, (*self._leads, *self._columns))) + b"\n"

    def _line(self, lead: bytes, cells: Mapping[str, Plain]) -> bytes:
        names = tuple(cells)
        template, order, end = self._shapes.get(names) or self._shape(names)
        row = [*cells.values()]
        if end is not None and _NUMBERS.issuperset(map(type, row)):
            # A row of numbers in its usual order is a JSON array without its brackets.
            try:
                line = _encode(row)
            except ValueError:  # an int beyond what `str` converts
                line = b"null"
            if b"null" not in line:  # NaN and infinities
                return b"%b,%b%b" % (lead, line[1:-1], end) if lead else line[1:-1] + end
        found = [cell(cells[name]) for name in order]
        line = template % ((lead, *found) if self._leads else tuple(found))
        return line if line != b"\n" else b'""\n'  # an empty line would be no row

    def _shape(self, names: tuple[str, ...]) -> Shape:
        if len(self._shapes) * len(self._columns) > MOST_PLACES:
            self._shapes.clear()
        places = [b""] * len(self._columns)
        for name in names:
            places[self._columns[name]] = b"%b"
        order = tuple(sorted(names, key=self._columns.__getitem__))
        template = b",".join([b"%b"] * bool(self._leads) + places) + b"\n"
        first = names and order == names and self._columns[names[-1]] == len(names) - 1
        end = b"," * (len(places) - len(names)) + b"\n" if first else None
        shape = self._shapes[names] = Shape(template, order, end)
        return shape


def keep_aside(path: Path) -> None:
    """Give a file that is there and has something in it a number of its own, and say so."""
    try:
        if not path.stat().st_size:
            return
    except FileNotFoundError:
        return
    check_regular(path)
    number = 1
    while (aside := path.with_name(f"{path.stem}.{number}{path.suffix}")).exists():
        number += 1
    path.rename(aside)
    messages.say(f"{path} was there already; it is kept as {aside.name}")


def cell(value: Plain) -> bytes:
    """A value as a cell: numbers exactly, text quoted where needed and never a formula, nothing for None."""
    if value is None:
        return b""
    if isinstance(value, float) and (value != value or value in (NONFINITE["inf"], NONFINITE["-inf"])):
        return repr(float(value)).encode()
    if isinstance(value, str):
        return value.encode() if value in NONFINITE else written(value)
    try:
        found = _encode(value)
    except ValueError:  # an int beyond what `str` converts
        return format(Decimal(value), "f").encode() if isinstance(value, int) else written(convert.text(value))
    except (TypeError, OverflowError):
        return written(convert.text(value))
    return found if type(value) in _NUMBERS else written(found.decode())


def written(text: str) -> bytes:
    """Text as RFC 4180 has it, with an apostrophe before what a spreadsheet would take for a formula."""
    if text.startswith(_FORMULA):
        text = "'" + text
    if not text or not _SPECIAL.isdisjoint(text):
        text = '"' + text.replace('"', '""') + '"'
    return text.encode("utf-8", "backslashreplace")


def _sayable(name: str) -> str:
    return name if name.isascii() else name.encode("utf-8", "backslashreplace").decode()


def _rows(file: BinaryIO) -> Iterator[bytes]:
    """The whole rows of a CSV file as they stand; a row may go over several lines inside quotes."""
    row = b""
    for line in file:
        row += line
        if line.endswith(b"\n") and not row.count(b'"') % 2:
            yield row
            row = b""


def _count(row: bytes) -> int:
    return b"".join(row.split(b'"')[::2]).count(b",") + 1
