"""Spans in columns, for millions of them: the questions of `Spans` as arithmetic over arrays.

An object is made of a span only where somebody looks at it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from functools import cached_property
from typing import Any, overload

import msgspec
import numpy as np
import numpy.typing as npt

from chiplog.core import records
from chiplog.metrics import timing
from chiplog.metrics.timing import Aggregate
from chiplog.store.spans import COLUMNS, Span, Spans

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
EXACT = 2**53  # whole numbers up to here are themselves as floats

WHOLE = ("name", "lane", "id", "parent", "start", "duration", "stream")


class Columns:
    """Spans as they are read, batch after batch. Numbers that no column holds raise OverflowError."""

    def __init__(self) -> None:
        self.names: dict[str, int] = {}
        self.lanes: dict[tuple[str, str], int] = {}  # (label, kind)
        self.streams: dict[tuple[int, int], int] = {}  # (rank, attempt)
        self.tags: dict[int, Any] = {}  # by row; as they are, or as JSON
        self.errors: dict[int, str] = {}
        self.rows = 0
        self._pieces: dict[str, list[npt.NDArray[Any]]] = {
            name: [] for name in (*WHOLE, "step", "whole_step", "failed")
        }

    def add(self, batch: records.Spans, rank: int, attempt: int) -> None:
        """Take a record; nothing of one that contradicts itself."""
        size = len(batch.id)
        columns = (batch.name, batch.thread, batch.parent, batch.start, batch.duration, batch.step)
        if not size or any(len(column) != size for column in columns):
            return
        name, thread = np.array(batch.name, np.int64), np.array(batch.thread, np.int64)
        if not (_within(name, batch.names) and _within(thread, batch.threads)):
            return
        lanes = [(label, batch.kinds.get(label, "")) for label in batch.threads]
        numbers = np.array(batch.id, np.int64)
        failed = np.isin(numbers, np.array(batch.failed, np.int64)) if batch.failed else np.zeros(size, bool)
        if batch.tags or batch.errors:
            places = {str(number): self.rows + at for at, number in enumerate(batch.id)}
            self.tags.update((places[key], said) for key, said in batch.tags.items() if key in places)
            self.errors.update((places[key], said) for key, said in batch.errors.items() if key in places)
        steps = np.array([np.nan if step is None else step for step in batch.step], np.float64)
        whole_step = np.array([type(step) is int for step in batch.step], bool)
        self._append(
            (rank, attempt),
            name=_codes(self.names, batch.names)[name],
            lane=_codes(self.lanes, lanes)[thread],
            id=numbers,
            parent=np.array(batch.parent, np.int64),
            start=np.array(batch.start, np.int64),
            duration=np.array(batch.duration, np.int64),
            step=steps,
            whole_step=whole_step,
            failed=failed,
        )

    def add_table(self, table: Any, rank: int, attempt: int) -> None:
        """Take the Arrow table of a part."""
        if not table.num_rows:
            return
        from chiplog.store.arrow import numbers, truths  # where there is a part there is Arrow, and only there

        found = {name: table.column(name).combine_chunks() for name in table.column_names}
        names, threads = found["name"].dictionary_encode(), found["thread"].dictionary_encode()
        kinds = found.get("kind")  # older parts have none
        labels = threads.dictionary.to_pylist()
        if kinds is None:
            lane = _codes(self.lanes, [(label, "") for label in labels])[numbers(threads.indices)]
        else:
            coded = kinds.dictionary_encode()
            said = [*coded.dictionary.to_pylist(), ""]
            pairs = [(label, kind) for label in labels for kind in said]
            used = numbers(threads.indices).astype(np.int64) * len(said) + numbers(coded.indices, missing=len(said) - 1)
            present, place = np.unique(used, return_inverse=True)
            lane = _codes(self.lanes, [pairs[at] for at in present.tolist()])[place]
        for column, into in (("tags", self.tags), ("error", self.errors)):
            if column in found:
                for at in np.flatnonzero(truths(found[column].is_valid())).tolist():
                    into[self.rows + at] = found[column][at].as_py()
        steps = numbers(found["step"].cast("float64"), missing=np.nan)
        self._append(
            (rank, attempt),
            name=_codes(self.names, names.dictionary.to_pylist())[numbers(names.indices)],
            lane=lane,
            **{one: numbers(found[one]) for one in ("id", "parent", "start", "duration")},
            step=steps,
            whole_step=np.full(len(steps), str(found["step"].type).startswith("int")) & (steps == steps),
            failed=truths(found["failed"]),
        )

    def column(self, name: str) -> npt.NDArray[Any]:
        if len(self._pieces[name]) > 1:
            self._pieces[name] = [np.concatenate(self._pieces[name])]
        return self._pieces[name][0] if self._pieces[name] else np.zeros(0, np.int64)

    def spans(self) -> Columnar:
        return Columnar(self, np.argsort(self.column("start"), kind="stable"))

    def _append(self, stream: tuple[int, int], **columns: npt.NDArray[Any]) -> None:
        size = len(columns["id"])
        if bool((np.abs(columns["step"]) > EXACT).any()):
            raise OverflowError("a step that a float does not hold")
        code = self.streams.setdefault(stream, len(self.streams))
        for name, column in {**columns, "stream": np.full(size, code)}.items():
            self._pieces[name].append(column)
        self.rows += size


class Columnar(Spans):
    """`Spans` whose numbers lie in columns; `rows` are places in them, by start."""

    def __init__(self, columns: Columns, rows: Ints, whole: Columnar | None = None) -> None:
        self._columns, self._rows, self._whole = columns, rows, whole

    @cached_property
    def _spans(self) -> list[Span]:  # type: ignore[override]
        return list(self._made(self._rows))

    @overload
    def __getitem__(self, at: int) -> Span: ...
    @overload
    def __getitem__(self, at: slice) -> Spans: ...
    def __getitem__(self, at: int | slice) -> Span | Spans:
        if isinstance(at, slice):
            return self._chosen(self._rows[at])
        return next(self._made(self._rows[[at]]))

    def __len__(self) -> int:
        return len(self._rows)

    # -- which -----------------------------------------------------------------------------------------------------

    def named(self, *patterns: str) -> Spans:
        known = self._columns.names
        return self._with("name", [known[name] for name in known if any(fnmatchcase(name, one) for one in patterns)])

    def on(self, *timelines: str) -> Spans:
        return self._with("lane", [at for (label, _), at in self._columns.lanes.items() if label in timelines])

    def host(self) -> Spans:
        return self._of_kind("", "task")

    def device(self) -> Spans:
        return self._of_kind("device")

    def queued(self) -> Spans:
        return self._of_kind("queue")

    def at(self, step: int | float | None = None, *, first: float | None = None, last: float | None = None) -> Spans:
        steps = self._column("step")
        if step is not None:
            return self._chosen(self._rows[steps == step])
        return self._chosen(
            self._rows[(steps >= (-np.inf if first is None else first)) & (steps <= (np.inf if last is None else last))]
        )

    def of(self, *, rank: int | None = None, attempt: int | None = None) -> Spans:
        known = self._columns.streams.items()
        return self._with("stream", [at for (r, a), at in known if rank in (None, r) and attempt in (None, a)])

    def failed(self) -> Spans:
        return self._chosen(self._rows[self._column("failed")])

    # -- how long --------------------------------------------------------------------------------------------------

    @property
    def seconds(self) -> list[float]:
        return (self._column("duration") / 1e9).tolist()  # type: ignore[no-any-return]

    @property
    def names(self) -> list[str]:
        known = list(self._columns.names)
        return [known[code] for code in _first_seen(self._column("name"))]

    @property
    def timelines(self) -> list[str]:
        known = list(self._columns.lanes)
        return list(dict.fromkeys(known[code][0] for code in _first_seen(self._column("lane"))))

    @property
    def steps(self) -> list[int | float]:
        steps = self._column("step")
        known = steps == steps
        found, at = np.unique(steps[known], return_index=True)
        whole = self._column("whole_step")[known][at]
        return [int(step) if one else float(step) for step, one in zip(found, whole, strict=True)]

    @property
    def reach(self) -> tuple[int, int]:
        starts = self._column("start")
        return (int(starts.min()), int(self._ends().max())) if len(self) else (0, 0)

    def lengths(self) -> dict[int | float, int]:
        if not (steps := self.steps):
            return {}
        column = self._column("step")
        known = column == column
        found, place = np.unique(column[known], return_inverse=True)
        begins, ends = np.full(len(found), np.iinfo(np.int64).max), np.full(len(found), np.iinfo(np.int64).min)
        np.minimum.at(begins, place, self._column("start")[known])
        np.maximum.at(ends, place, self._ends()[known])
        return dict(zip(steps, (ends - begins).tolist(), strict=True))

    def total(self) -> float:
        return int(self._column("duration").sum()) / 1e9

    def table(self, *, by_step: bool = True) -> list[Aggregate]:
        if not len(self):
            return []
        kinds = _codes({}, [kind for _, kind in self._columns.lanes])[self._column("lane")]
        keys = [self._column("name"), kinds]
        if by_step:  # what has none comes together
            keys.append(np.unique(np.nan_to_num(self._column("step"), nan=np.inf), return_inverse=True)[1])
        group = np.zeros(len(self), np.int64)
        for key in keys:
            group = np.unique(group * (int(key.max()) + 1) + key, return_inverse=True)[1]
        durations, own = self._column("duration"), self._own_times()
        _, firsts, counts = np.unique(group, return_index=True, return_counts=True)
        order = np.lexsort((durations, group))
        begins = np.concatenate(([0], np.cumsum(counts)[:-1]))
        totals, owns = np.add.reduceat(durations[order], begins), np.add.reduceat(own[order], begins)
        found = []
        for at in np.argsort(firsts, kind="stable").tolist():
            first = self[int(firsts[at])]
            ordered: Any = durations[order[begins[at] : begins[at] + counts[at]]]
            found.append(
                Aggregate(
                    first.step if by_step else None,
                    first.name,
                    first.kind,
                    int(counts[at]),
                    int(totals[at]) / 1e9,
                    int(owns[at]) / 1e9,
                    float(timing.quantile(ordered, 0.5)) / 1e9,
                    float(timing.quantile(ordered, 0.95)) / 1e9,
                    int(ordered[-1]) / 1e9,
                )
            )
        return found

    def own(self) -> float:
        return int(self._own_times().sum()) / 1e9

    def idle(self) -> dict[str, float]:
        found: dict[str, float] = {}
        known = list(self._columns.lanes)
        labels: dict[str, int] = {}
        label = _codes(labels, [name for name, _ in known])[self._column("lane")]
        timeline = self._column("stream") * (len(labels) + 1) + label
        starts, ends = self._column("start"), self._ends()
        for one in _first_seen(timeline):
            mine = timeline == one
            begins, until = _union(starts[mine], ends[mine])
            name = list(labels)[one % (len(labels) + 1)]
            found[name] = found.get(name, 0.0) + int((begins[1:] - until[:-1]).sum()) / 1e9
        return found

    def overlap(self) -> float:
        starts, ends = self._column("start"), self._ends()
        host, device = self._is_kind("", "task"), self._is_kind("device")
        # What two have in common is what both have, less what they have together.
        return (
            _length(starts, ends, host) + _length(starts, ends, device) - _length(starts, ends, host | device)
        ) / 1e9

    def wait(self) -> float:
        parents = self._parents()[self._rows]
        given = (parents >= 0) & self._is_kind("device")
        starts = self._columns.column("start")
        return int((starts[self._rows[given]] - starts[parents[given]]).sum()) / 1e9

    # -- as other things -------------------------------------------------------------------------------------------

    def to_numpy(self) -> dict[str, npt.NDArray[Any]]:
        c = self._columns
        lanes, streams = list(c.lanes), list(c.streams)
        lane, stream = self._column("lane"), self._column("stream")
        found: dict[str, npt.NDArray[Any]] = {
            "name": np.array(list(c.names), dtype=str)[self._column("name")],
            "thread": np.array([label for label, _ in lanes], dtype=str)[lane],
            "kind": np.array([kind for _, kind in lanes], dtype=str)[lane],
            "error": np.array([c.errors.get(row, "") for row in self._rows.tolist()], dtype=str),
            "rank": np.array([rank for rank, _ in streams], np.int64)[stream],
            "attempt": np.array([attempt for _, attempt in streams], np.int64)[stream],
            **{name: self._column(name) for name in ("id", "parent", "start", "duration", "failed", "step")},
        }
        return {name: found[name] for name in COLUMNS if name != "tags"}

    # -- inside ----------------------------------------------------------------------------------------------------

    def _made(self, rows: Ints) -> Iterator[Span]:
        c = self._columns
        names, lanes, streams = list(c.names), list(c.lanes), list(c.streams)
        order = ("id", "parent", "name", "lane", "start", "duration", "step", "whole_step", "failed", "stream")
        columns = (c.column(name)[rows].tolist() for name in order)
        for row, number, parent, name, lane, start, duration, step, whole, failed, stream in zip(
            rows.tolist(), *columns, strict=True
        ):
            tags = c.tags.get(row, {})
            label, kind = lanes[lane]
            rank, attempt = streams[stream]
            yield Span(
                number, parent, names[name], label, start, duration, _step(step, whole),
                msgspec.json.decode(tags) if isinstance(tags, str) else tags,
                failed, rank, kind, c.errors.get(row, ""), attempt,
            )  # fmt: skip

    def _exactly(self, name: str) -> Spans:
        return self._with("name", [self._columns.names[name]] if name in self._columns.names else [])

    def _column(self, name: str) -> Any:
        return self._columns.column(name)[self._rows]

    def _ends(self) -> Ints:
        ends: Ints = self._column("start") + self._column("duration")
        return ends

    def _chosen(self, rows: Ints) -> Columnar:
        return Columnar(self._columns, rows, self._all)

    def _with(self, column: str, codes: Sequence[int]) -> Columnar:
        return self._chosen(self._rows[np.isin(self._column(column), np.array(codes, np.int64))])

    def _is_kind(self, *kinds: str) -> Bools:
        if not len(self):
            return np.zeros(0, bool)
        chosen: Bools = np.array([kind in kinds for _, kind in self._columns.lanes], bool)[self._column("lane")]
        return chosen

    def _of_kind(self, *kinds: str) -> Columnar:
        return self._chosen(self._rows[self._is_kind(*kinds)])

    @property
    def _all(self) -> Columnar:
        return self if self._whole is None else self._whole  # type: ignore[return-value]

    def _own_times(self) -> Ints:
        """As `timing.own_times` of the whole, of these."""
        own: Ints = self._all._owns[self._rows]
        return own

    def _parents(self) -> Ints:
        return self._all._outer

    @cached_property
    def _outer(self) -> Ints:
        """By row of the columns: the row of the parent, -1 for none."""
        c, rows = self._columns, self._rows
        outer = np.full(c.rows, -1)
        if not len(rows):
            return outer
        top = max(int(c.column("id").max()), int(c.column("parent").max())) + 1
        if top * (len(c.streams) + 1) >= 2**62:
            raise OverflowError("ids that no key holds")
        keys = (c.column("stream") * top + c.column("id"))[rows]
        wanted = (c.column("stream") * top + c.column("parent"))[rows]
        order = np.argsort(keys, kind="stable")
        at = np.searchsorted(keys[order], wanted, side="right") - 1  # of several with one id, the last
        candidates = rows[order[np.maximum(at, 0)]]
        outer[rows] = np.where((at >= 0) & (keys[order[np.maximum(at, 0)]] == wanted), candidates, -1)
        return outer

    @cached_property
    def _owns(self) -> Ints:
        """By row of the columns: nanoseconds that no child on the same timeline covers."""
        c = self._columns
        starts, durations = c.column("start"), c.column("duration")
        own = durations.copy()
        if not len(self):
            return own
        labels = _codes({}, [label for label, _ in c.lanes])[c.column("lane")]
        rows = self._rows[self._outer[self._rows] >= 0]  # by start
        outer = self._outer[rows]
        same = labels[rows] == labels[outer]
        rows, outer = rows[same], outer[same]
        begins = np.maximum(starts[rows], starts[outer])
        ends = np.minimum(starts[rows] + durations[rows], starts[outer] + durations[outer])
        inside = ends > begins
        begins, ends, outer = begins[inside], ends[inside], outer[inside]
        if not len(outer):
            return own
        order = np.argsort(outer, kind="stable")
        begins, ends, outer = begins[order], ends[order], outer[order]
        np.subtract.at(own, outer, ends - begins)
        crossing = np.unique(outer[1:][(outer[1:] == outer[:-1]) & (begins[1:] < ends[:-1])])
        for one in crossing.tolist():  # children that overlap each other count once
            first, last = np.searchsorted(outer, one), np.searchsorted(outer, one, side="right")
            apart = timing.union(zip(begins[first:last].tolist(), ends[first:last].tolist(), strict=True))
            own[one] = durations[one] - timing.length(apart)
        return own


def _within(codes: Ints, names: Sequence[str]) -> bool:
    return bool(codes.min() >= 0 and codes.max() < len(names))


def _codes(known: dict[Any, int], found: Iterable[Any]) -> Ints:
    """The codes of names, new ones given to those that have none."""
    return np.array([known.setdefault(one, len(known)) for one in found], np.int64)


def _first_seen(codes: npt.NDArray[Any]) -> list[int]:
    found, at = np.unique(codes, return_index=True)
    return found[np.argsort(at)].tolist()  # type: ignore[no-any-return]


def _step(step: float, whole: bool) -> int | float | None:
    return None if step != step else int(step) if whole else float(step)


def _union(starts: Ints, ends: Ints) -> tuple[Ints, Ints]:
    """As `timing.union`, of intervals by their begin."""
    if not len(starts):
        return starts, ends
    until = np.maximum.accumulate(ends)
    new = np.concatenate(([True], starts[1:] > until[:-1]))
    return starts[new], until[np.concatenate((new[1:], [True]))]


def _length(starts: Ints, ends: Ints, chosen: Bools) -> int:
    begins, until = _union(starts[chosen], ends[chosen])
    return int((until - begins).sum())
