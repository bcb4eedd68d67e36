"""Stored spans in columns: names and timelines as codes, numbers in arrays.

A million of them are read in a second; a `StoredSpan` object is created only when one is accessed.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt

from chiplog.core import records
from chiplog.core.records import Number, Plain
from chiplog.store.spans.span import StoredSpan

Array = npt.NDArray[Any]  # of any dtype: each column has its own
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Lane = tuple[str, str]  # label, kind
Tags: TypeAlias = dict[str, Plain]
T = TypeVar("T", bound=Hashable)

EXACT = 2**53  # doubles hold all integers up to here
NAMES = ("name", "lane", "id", "parent", "start", "duration", "step", "whole_step", "failed")


class Batch(NamedTuple):
    """Spans of one rank and attempt: a column for each of `NAMES`, all of one length."""

    columns: Mapping[str, Array]  # `name` and `lane` are indices of `names` and `lanes`; a missing step is NaN
    names: Sequence[str]
    lanes: Sequence[Lane]
    tags: Mapping[int, Tags | str] = {}  # by index in the columns; a text is JSON
    errors: Mapping[int, str] = {}
    exact_steps: Mapping[int, int] = {}  # steps that a double cannot hold


class SpanColumns:
    """The spans that were read so far, batch after batch."""

    def __init__(self) -> None:
        self.names: dict[str, int] = {}
        self.lanes: dict[Lane, int] = {}
        self.streams: dict[tuple[int, int], int] = {}  # (rank, attempt)
        self.tags: dict[int, Tags | str] = {}  # by row
        self.errors: dict[int, str] = {}
        self.exact_steps: dict[int, int] = {}
        self.rows = 0
        self._pieces: dict[str, list[Array]] = {name: [] for name in (*NAMES, "stream")}

    def append(self, batch: Batch, rank: int, attempt: int) -> None:
        """Add a batch of a rank and attempt."""
        size = len(batch.columns["id"])
        if not size:
            return
        stream = self.streams.setdefault((rank, attempt), len(self.streams))
        coded = {
            "name": _codes(self.names, batch.names)[batch.columns["name"]],
            "lane": _codes(self.lanes, batch.lanes)[batch.columns["lane"]],
            "stream": np.full(size, stream),
        }
        for name, column in {**batch.columns, **coded}.items():
            self._pieces[name].append(column)
        self.tags.update((self.rows + at, tags) for at, tags in batch.tags.items())
        self.errors.update((self.rows + at, error) for at, error in batch.errors.items())
        self.exact_steps.update((self.rows + at, step) for at, step in batch.exact_steps.items())
        self.rows += size

    def column(self, name: str) -> Array:
        """One of `NAMES`, or `stream`, for all rows."""
        pieces = self._pieces[name]
        if len(pieces) > 1:
            pieces[:] = [np.concatenate(pieces)]
        return pieces[0] if pieces else np.zeros(0, np.int64)

    def by_start(self, rows: Ints | None = None) -> Ints:
        """All rows, or some, in the order of their starts."""
        starts = self.column("start")
        if rows is None:
            return np.argsort(starts, kind="stable")
        ordered: Ints = rows[np.argsort(starts[rows], kind="stable")]
        return ordered

    def steps(self, rows: Ints) -> list[Number | None]:
        """The steps of rows, as they were logged."""
        floats, whole = self.column("step")[rows].tolist(), self.column("whole_step")[rows].tolist()
        if not self.exact_steps:
            return [_step(step, is_int) for step, is_int in zip(floats, whole, strict=True)]
        exact_steps = (self.exact_steps.get(row) for row in rows.tolist())
        return [
            _step(step, is_int) if exact is None else exact
            for step, is_int, exact in zip(floats, whole, exact_steps, strict=True)
        ]

    def tags_of(self, row: int) -> Tags:
        tags = self.tags.get(row, {})
        if not isinstance(tags, str):
            return tags
        try:
            return msgspec.json.decode(tags, type=Tags)
        except (msgspec.DecodeError, ValueError, RecursionError):
            return {}  # a part that is whole, but not of ours

    def objects(self, rows: Ints) -> Iterator[StoredSpan]:
        """An object for each of these rows."""
        names, lanes, streams = list(self.names), list(self.lanes), list(self.streams)
        order = ("id", "parent", "name", "lane", "start", "duration", "failed", "stream")
        columns = (self.column(name)[rows].tolist() for name in order)
        for row, step, number, parent, name, lane, start, duration, failed, stream in zip(
            rows.tolist(), self.steps(rows), *columns, strict=True
        ):
            tags = self.tags_of(row) if row in self.tags else {}
            label, kind = lanes[lane]
            rank, attempt = streams[stream]
            yield StoredSpan(
                number, parent, names[name], label, start, duration, step, tags, failed, rank, kind,
                self.errors.get(row, ""), attempt,
            )  # fmt: skip


def from_record(record: records.SpansRecord) -> Batch | None:
    """The spans of a record; None if it is inconsistent, or has times or ids of more than 64 bits."""
    size = len(record.id)
    columns = (record.name, record.thread, record.parent, record.start, record.duration, record.step)
    if any(len(column) != size for column in columns):
        return None
    try:
        whole: dict[str, Array] = {
            "name": np.array(record.name, np.int64),
            "lane": np.array(record.thread, np.int64),
            "id": np.array(record.id, np.int64),
            "parent": np.array(record.parent, np.int64),
            "start": np.array(record.start, np.int64),
            "duration": np.array(record.duration, np.int64),
        }
        failed = np.array(record.failed, np.int64)
    except OverflowError:
        return None
    if not (_are_within(whole["name"], record.names) and _are_within(whole["lane"], record.threads)):
        return None
    steps, exact = _floats(record.step)
    places = {str(number): at for at, number in enumerate(record.id)} if record.tags or record.errors else {}
    return Batch(
        {
            **whole,
            "step": steps,
            "whole_step": np.array([type(step) is int for step in record.step], bool),
            "failed": np.isin(whole["id"], failed) if len(failed) else np.zeros(size, bool),
        },
        record.names,
        [(label, record.kinds.get(label, "")) for label in record.threads],
        {places[key]: tags for key, tags in record.tags.items() if key in places},
        {places[key]: error for key, error in record.errors.items() if key in places},
        exact,
    )


def as_float(step: Number | None) -> float:
    """A step as its column holds it: NaN for none, an infinity if it is too large."""
    if step is None:
        return np.nan
    try:
        return float(step)
    except OverflowError:
        return np.inf if step > 0 else -np.inf


def _floats(steps: Sequence[Number | None]) -> tuple[npt.NDArray[np.float64], dict[int, int]]:
    """Steps as doubles, and those that doubles cannot hold, by index."""
    try:
        doubles = np.array([np.nan if step is None else step for step in steps], np.float64)
    except OverflowError:
        doubles = np.array([as_float(step) for step in steps])
    exact = {}
    for at in np.flatnonzero(np.abs(doubles) > EXACT).tolist():
        if isinstance(step := steps[at], int):
            exact[at] = step
    return doubles, exact


def _step(step: float, whole: bool) -> Number | None:
    return None if step != step else int(step) if whole else step


def _are_within(codes: Ints, names: Sequence[str]) -> bool:
    return not len(codes) or bool(codes.min() >= 0 and codes.max() < len(names))


def _codes(codes: dict[T, int], values: Iterable[T]) -> Ints:
    """The codes of values; new values get the next codes."""
    return np.array([codes.setdefault(value, len(codes)) for value in values], np.int64)
