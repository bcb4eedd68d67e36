"""The rows of a stored table: a page of them, or those that match, read one by one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain, islice
from typing import TypeAlias

from chiplog.core.messages import clean
from chiplog.core.records import AnyRecord, Plain, Table

Row: TypeAlias = dict[str, Plain]
Where: TypeAlias = Mapping[str, Plain] | Callable[[Row], object]


class TableRows(Iterator[Row]):
    """The rows of a table, read one by one: iterate over it, or make a list of it."""

    def __init__(self, name: str, rows: Iterator[Row]) -> None:
        self._name = name
        self._first = next(rows, None)
        self._rows = rows if self._first is None else chain([self._first], rows)

    @property
    def is_empty(self) -> bool:
        """Whether there was not even a first row."""
        return self._first is None

    def __next__(self) -> Row:
        return next(self._rows)

    def __repr__(self) -> str:
        if self._first is None:
            return f"<no rows of table {self._name!r}>"
        return f"<rows of table {self._name!r}, to iterate over or to list(): {clean(', '.join(self._first))}>"


def rows(
    records: Iterable[AnyRecord], name: str, *, where: Where | None = None, offset: int = 0, limit: int | None = None
) -> Iterator[Row]:
    """The rows of a table, each with its `step`; reads no more records than the page needs."""
    if offset < 0 or (limit is not None and limit < 0):
        raise ValueError(f"offset and limit must not be negative: {offset}, {limit}")
    matches = _predicate(where)
    matching = (row for record in records for row in _rows_of(record, name) if matches(row))
    return islice(matching, offset, None if limit is None else offset + limit)


def _rows_of(record: AnyRecord, name: str) -> Iterator[Row]:
    if isinstance(record, Table) and record.name == name:
        for row in record.rows:
            yield {"step": record.step, **row}


def _predicate(where: Where | None) -> Callable[[Row], object]:
    if where is None:
        return lambda _: True
    if callable(where):
        return where
    wanted = dict(where)
    return lambda row: all(_fits(row.get(column), value) for column, value in wanted.items())


def _fits(value: Plain, wanted: Plain) -> object:
    """Whether a value equals another, is one of several, or satisfies a predicate."""
    if callable(wanted):
        return wanted(value)
    return value in wanted if isinstance(wanted, (list, tuple, set, frozenset, range)) else value == wanted
