"""A CSV file whose columns grow: a new row is appended, a new column rewrites the file once."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from decimal import Decimal
from io import BufferedReader
from itertools import islice
from pathlib import Path
from typing import BinaryIO, NamedTuple

import msgspec

from chiplog.core import messages
from chiplog.core.files import reading
from chiplog.core.records import NONFINITE, Plain
from chiplog.core.values import convert
from chiplog.sinks.shared import saved_state
from chiplog.sinks.shared.append_file import CHUNK, AppendFile, keep_aside
from chiplog.sinks.shared.clean_values import utf8
from chiplog.store.contents.ragged import is_ragged

MOST_COLUMNS = 16_384  # Excel's limit; a new name in every row would make the file grow with the square of the rows
MOST_CELLS = 1 << 24  # of a table, which may be empty
LONGEST_ROW = 64 << 20  # bytes, in a file that is continued
MOST_PLACES = 1 << 20  # columns in all cached shapes together

_NUMBERS = frozenset((int, float, bool))
_FORMULA = ("=", "+", "-", "@", "\t", "\r")  # a spreadsheet would run it
_SPECIAL = frozenset(',"\r\n')
_encode = msgspec.json.Encoder().encode


class Shape(NamedTuple):
    """How rows with the same names in the same order become lines."""

    template: bytes
    order: tuple[str, ...]
    end: bytes | None  # what follows the cells if they fill the first columns, in order


class GrowingTable:
    """One CSV file. `leads` are its first columns, which every row has as encoded bytes.

    An existing file is kept under another name, unless `restore` or `ours` says that it is ours.
    """

    def __init__(self, path: Path, leads: Sequence[str] = (), *, ours: bool = False) -> None:
        self.path = path
        self.rows = 0
        self.rewrites = 0
        self._values = 0  # in all rows
        self._file = AppendFile(path)
        self._leads = tuple(leads)
        self._columns: dict[str, int] = {}
        self._shapes: dict[tuple[str, ...], Shape] = {}
        self._head = 0  # bytes of the header
        self._started = False
        self._ours = ours

    def __contains__(self, column: str) -> bool:
        return column in self._columns

    def add(self, rows: Sequence[tuple[bytes, Mapping[str, Plain]]], repeats: Container[str] = ()) -> None:
        """Append rows; all new columns among them cost one rewrite together. In older rows a new column is empty, or
        has the first cell of the row if it is one of `repeats`."""
        if not self._started:
            self._start()
        shapes = self._shapes
        fresh: dict[str, None] = {}
        values = self._values + sum(len(cells) for _, cells in rows)
        if any(tuple(cells) not in shapes for _, cells in rows):
            count = self.rows + len(rows)
            rows = [(lead, self._admit(cells, fresh, count, values)) for lead, cells in rows]
        if fresh:
            self._extend(tuple(fresh), repeats)
        lines = [self._line(lead, cells) for lead, cells in rows]
        if not self._file.size:
            header = self._header()
            self._head = len(header)
            lines.insert(0, header)
        self._file.append(b"".join(lines))
        self.rows += len(rows)
        self._values = values

    def state(self) -> dict[str, Plain]:
        columns = list(self._columns)
        return {
            "columns": columns,
            "head": self._head,
            "rows": self.rows,
            "size": self._file.size,
            "values": self._values,
        }

    def restore(self, state: Mapping[str, Plain]) -> None:
        """Cut the file back to what it was when the state was saved; an empty state means no file."""
        self._started = True
        self._file.close()
        self._shapes.clear()
        self._columns = {name: place for place, name in enumerate(saved_state.texts(state, "columns"))}
        self._head, self.rows = saved_state.count(state, "head"), saved_state.count(state, "rows")
        self._values = saved_state.count(state, "values", self.rows * len(self._columns))
        size = saved_state.count(state, "size")
        if not size:
            self._file.remove()
            return
        header = self._read_header()
        if len(header) == self._head and self._file.restore(size):
            return
        rows = self.rows
        self._file.replace(self._narrowed(_count(header) - len(self._leads) - len(self._columns)))
        if self._file.size != size:
            left = f"{self.rows:,} of {rows:,} rows"
            messages.say(f"{self.path} was changed by another program; {left} remain")

    def keep_other(self) -> None:
        """Keep the file of another program under another name."""
        keep_aside(self.path)
        self._ours = True

    def remove(self) -> None:
        if self._started or self._ours:
            self._file.remove()

    def close(self) -> None:
        self._file.close()

    def _start(self) -> None:
        if not self._ours:
            self.keep_other()
        elif self._file.length():
            self._file.cut(0)
        self._started = True

    def _admit(self, cells: Mapping[str, Plain], fresh: dict[str, None], rows: int, values: int) -> dict[str, Plain]:
        """The cells of a row; names without a column are added to `fresh`.

        With `rows` and `values`, the table must not become much larger than they need.
        """
        admitted: dict[str, Plain] = {}
        for name, value in cells.items():
            column = utf8(name)
            if column not in self._columns and column not in fresh:
                if len(self._columns) + len(fresh) >= MOST_COLUMNS:
                    full = f"{self.path} has {MOST_COLUMNS:,} columns, the most it may have"
                    messages.once(full, f"{full}; the journal has everything")
                    continue
                if is_ragged(rows * (len(self._columns) + len(fresh) + 1), values, always=MOST_CELLS):
                    full = f"{self.path} has no column for names that few of its {rows:,} rows have"
                    messages.once(f"ragged {self.path}", f"{full}; the journal has everything")
                    continue
                fresh[column] = None
            admitted[column] = value
        return admitted

    def _extend(self, names: Sequence[str], repeats: Container[str]) -> None:
        self._shapes.clear()
        for name in names:
            self._columns[name] = len(self._columns)
        if self._file.size:
            repeated = [name in repeats for name in names]
            self._file.replace(self._repeating(names, repeated) if any(repeated) else self._widened(names))
            self.rewrites += 1

    def _widened(self, names: Sequence[str]) -> Iterator[bytes]:
        """The file with more columns, which are empty in all rows."""
        with BufferedReader(reading.open_path(self.path)) as file:
            header = file.read(self._head)[:-1] + b"".join(b"," + written(name) for name in names) + b"\n"
            yield header
            self._head = len(header)
            left, end, quoted = self._file.size - file.tell(), b"," * len(names) + b"\n", 0
            piece = max(4096, CHUNK // len(end))  # a piece grows by as much as `end` at every line
            while left and (chunk := file.read(min(piece, left))):
                left -= len(chunk)
                parts = chunk.split(b'"')
                # Every second part is outside quotes.
                parts[quoted::2] = [part.replace(b"\n", end) for part in parts[quoted::2]]
                yield b'"'.join(parts)
                quoted = (quoted + len(parts) - 1) % 2

    def _repeating(self, names: Sequence[str], repeated: Sequence[bool]) -> Iterator[bytes]:
        """The file with more columns, of which some repeat the first one."""
        with BufferedReader(reading.open_path(self.path)) as file:
            rows = _rows(file)
            header = next(rows)[:-1] + b"".join(b"," + written(name) for name in names) + b"\n"
            yield header
            self._head = len(header)
            for row in islice(rows, self.rows):
                first = row.partition(b",")[0]
                yield row[:-1] + b"".join(b"," + (first if same else b"") for same in repeated) + b"\n"

    def _narrowed(self, extra: int) -> Iterator[bytes]:
        """The first `rows` rows, without their last columns, which are empty or repeat the first one."""
        wanted, self.rows = self.rows, 0
        try:
            file = BufferedReader(reading.open_path(self.path))
        except FileNotFoundError:
            return
        with file:
            rows = _rows(file)
            if header := next(rows, b""):
                yield header[: self._head - 1] + b"\n"
            for row in rows:
                if self.rows == wanted:
                    return
                yield row[:-1].rsplit(b",", extra)[0] + b"\n"
                self.rows += 1

    def _read_header(self) -> bytes:
        try:
            with BufferedReader(reading.open_path(self.path)) as file:
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
            except ValueError:  # an integer too long for `str`
                line = b"null"
            if b"null" not in line:  # NaN and infinities
                return b"%b,%b%b" % (lead, line[1:-1], end) if lead else line[1:-1] + end
        values = [cell(cells[name]) for name in order]
        line = template % ((lead, *values) if self._leads else tuple(values))
        return line if line != b"\n" else b'""\n'  # an empty line would not be a row

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


def cell(value: Plain) -> bytes:
    """A value as a cell: numbers exactly, text quoted if needed and never a formula, None as nothing."""
    if value is None:
        return b""
    if isinstance(value, float) and (value != value or value in (NONFINITE["inf"], NONFINITE["-inf"])):
        return repr(float(value)).encode()
    if isinstance(value, str):
        return value.encode() if value in NONFINITE else written(value)
    try:
        encoded = _encode(value)
    except ValueError:  # an integer too long for `str`
        return format(Decimal(value), "f").encode() if isinstance(value, int) else written(convert.text(value))
    except (TypeError, OverflowError):
        return written(convert.text(value))
    return encoded if type(value) in _NUMBERS else written(encoded.decode())


def written(text: str) -> bytes:
    """Text as in RFC 4180, with an apostrophe before what a spreadsheet would take for a formula."""
    if text.startswith(_FORMULA):
        text = "'" + text
    if not text or not _SPECIAL.isdisjoint(text):
        text = '"' + text.replace('"', '""') + '"'
    return text.encode("utf-8", "backslashreplace")


def _rows(file: BinaryIO) -> Iterator[bytes]:
    """The whole rows of a CSV file, unparsed; a quoted cell may span several lines."""
    lines: list[bytes] = []
    size = quotes = 0
    while line := file.readline(LONGEST_ROW - size + 1):
        lines.append(line)
        size += len(line)
        quotes += line.count(b'"')
        if size > LONGEST_ROW:
            raise ValueError(f"a row of more than {LONGEST_ROW >> 20} MiB, which no table of ours has")
        if line.endswith(b"\n") and not quotes % 2:
            yield b"".join(lines)
            lines, size, quotes = [], 0, 0


def _count(row: bytes) -> int:
    return b"".join(row.split(b'"')[::2]).count(b",") + 1
