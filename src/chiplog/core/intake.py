"""What a call brings, taken apart: numbers for the row, and everything else on a way of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

import msgspec

from chiplog.core import notes, records, values
from chiplog.core.media import Image, Media
from chiplog.core.protocols import Waiting
from chiplog.core.records import Record, Row
from chiplog.core.redact import hide, redact_text
from chiplog.core.texts import cut, words
from chiplog.core.values import NUMBERS

WIDEST = 5000  # metrics to a record; a wider row becomes several records of the same step
TABLE_BYTES = 1 << 20  # about the size of a table's record


class Intake:
    """Takes the numbers out of what was logged; values on a device wait, media and texts become records."""

    def __init__(
        self,
        run: str,
        *,
        write: Callable[..., Record | None],
        event: Callable[..., None],
        image: Callable[[str, Image, int | float], None],
        waiting: Waiting | None,
        wake: Callable[[], None],
    ) -> None:
        self._run, self._write, self._event, self._image, self._wake = run, write, event, image, wake
        self._waiting = waiting
        self.watchers: list[Callable[[str, Media, int | float], object]] = []  # of media
        self._holds = waiting.holds if waiting is not None else _never

    def sort(self, metrics: Mapping[str, Any], step: int | float) -> Row:
        """The numbers of a row; what else is in it goes its own way."""
        found = values.sort(metrics, self._holds)
        if found.later and self._waiting is not None:
            self._waiting.add(step, found.later)
            self._wake()
        for name, media in found.media.items():
            try:
                self._keep(name, media, step)
            except Exception as error:
                why = words(error)
                notes.once(f"media {self._run} {name}", f"{name!r} cannot be kept ({why}); the rest of the row is")
                self._write(records.Text, name=name, text=f"<{type(media).__name__}: {why}>", step=step)
        for name, value in found.texts.items():
            text = redact_text(value)
            notes.once(
                f"no number {self._run} {name}",
                f"{name!r} is no number ({cut(text, 60)!r}); it is kept as text, the rest as it is",
            )
            self._write(records.Text, name=name, text=text, step=step)
        return found.row

    def _keep(self, name: str, media: Media, step: int | float) -> None:
        if isinstance(media, Image):
            self._image(name, media, step)
        else:
            for kind, fields in media.records(name):
                if kind is records.Event:
                    self._event(fields["name"], step, **fields["data"])
                else:
                    self._write(kind, step=step, **fields)
            for watch in self.watchers:
                watch(name, media, step)


def pieces(row: Row) -> Iterator[Row]:
    """A row in pieces that fit into a line."""
    if len(row) <= WIDEST:
        yield row
        return
    items = iter(row.items())
    while piece := dict(islice(items, WIDEST)):
        yield piece


def facts(data: dict[str, Any]) -> dict[str, Any]:
    """The data of an event, plain and without secrets; quick where it is numbers, as from a probe."""
    left = {name: value for name, value in data.items() if type(value) not in NUMBERS}
    return {**data, **hide(values.plain(left))} if left else data


def batches(table: Any) -> Iterator[list[Any]]:
    """The rows of a table (a mapping, mappings, a data frame) as plain data, in batches that fit into a line."""
    batch: list[Any] = []
    size = 0
    for row in _rows(table):
        plain = hide(values.plain(row if isinstance(row, Mapping) else {"value": row}))
        batch.append(plain)
        size += len(msgspec.json.encode(plain))
        if size > TABLE_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _rows(table: Any) -> Iterable[Any]:
    if isinstance(table, Mapping):
        return [table]
    if hasattr(table, "to_dicts"):  # polars
        rows: Iterable[Any] = table.to_dicts()
        return rows
    if hasattr(table, "to_dict") and hasattr(table, "columns"):  # pandas
        rows = table.to_dict("records")
        return rows
    rows = table
    return rows


def _never(_: Any) -> bool:
    return False
