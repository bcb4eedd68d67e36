"""The arithmetic of the spans of one step: where its time went. Times are integer nanoseconds, results are seconds.

A span is anything with the attributes of `Timed`. Its own time is its duration minus the time covered by its children
on the same timeline; children on other timelines run concurrently.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple, Protocol

import msgspec

from chiplog.core.records import Plain, Row

Interval = tuple[int, int]  # start, end


class Timed(Protocol):
    """The attributes of a span."""

    @property
    def key(self) -> Hashable: ...  # unique
    @property
    def parent_key(self) -> Hashable: ...
    @property
    def name(self) -> str: ...
    @property
    def timeline(self) -> Hashable: ...
    @property
    def kind(self) -> str: ...
    @property
    def start(self) -> int: ...
    @property
    def duration(self) -> int: ...
    @property
    def step(self) -> int | float | None: ...


class Aggregate(msgspec.Struct, frozen=True):
    """The spans of one name and kind of timeline, over all steps or of one, in seconds."""

    step: int | float | None
    name: str
    kind: str
    count: int
    total: float
    own: float
    p50: float
    p95: float
    longest: float


def aggregate(spans: Iterable[Timed]) -> list[Aggregate]:
    """One row per name and kind of timeline, over all steps, in order of first start."""
    listed = list(spans)
    own = own_times(listed)
    groups: dict[tuple[str, str], list[Timed]] = defaultdict(list)
    for span in sorted(listed, key=lambda one: one.start):
        groups[span.name, span.kind].append(span)
    return [
        Aggregate(
            None,
            name,
            kind,
            len(group),
            sum(span.duration for span in group) / 1e9,
            sum(own[span.key] for span in group) / 1e9,
            quantile(durations := sorted(span.duration for span in group), 0.5) / 1e9,
            quantile(durations, 0.95) / 1e9,
            durations[-1] / 1e9,
        )
        for (name, kind), group in groups.items()
    ]


def own_times(spans: Iterable[Timed]) -> dict[Hashable, int]:
    """The nanoseconds of each span, by key, that no child on the same timeline covers."""
    listed = list(spans)
    timelines = {span.key: span.timeline for span in listed}
    inside: dict[Hashable, list[Interval]] = defaultdict(list)
    for span in listed:
        if timelines.get(span.parent_key) == span.timeline:
            inside[span.parent_key].append((span.start, span.start + span.duration))
    own = {}
    for span in listed:
        covered = 0
        if span.key in inside:
            whole = (span.start, span.start + span.duration)
            covered = length(common([whole], union(inside[span.key])))
        own[span.key] = span.duration - covered
    return own


def union(intervals: Iterable[Interval]) -> list[Interval]:
    """The same time as disjoint intervals, in order."""
    merged: list[Interval] = []
    for start, end in sorted(intervals):
        if merged and start <= merged[-1][1]:
            if end > merged[-1][1]:
                merged[-1] = merged[-1][0], end
        else:
            merged.append((start, end))
    return merged


def common(first: Sequence[Interval], second: Sequence[Interval]) -> list[Interval]:
    """The time that two unions have in common."""
    shared: list[Interval] = []
    at = other = 0
    while at < len(first) and other < len(second):
        start = max(first[at][0], second[other][0])
        end = min(first[at][1], second[other][1])
        if start < end:
            shared.append((start, end))
        if first[at][1] < second[other][1]:
            at += 1
        else:
            other += 1
    return shared


def gaps(intervals: Sequence[Interval]) -> list[Interval]:
    """The intervals between those of a union."""
    return [(one[1], two[0]) for one, two in pairwise(intervals)]


def length(intervals: Iterable[Interval]) -> int:
    return sum(end - start for start, end in intervals)


def quantile(ordered: Sequence[int], share: float) -> float:
    """A quantile of sorted numbers, interpolated like numpy's default."""
    place = (len(ordered) - 1) * share
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def busy(spans: Iterable[Timed], kinds: Sequence[str]) -> list[Interval]:
    """When anything ran on timelines of these kinds."""
    return union((span.start, span.start + span.duration) for span in spans if span.kind in kinds)


def idle(spans: Iterable[Timed]) -> dict[Hashable, float]:
    """Seconds between the spans of each timeline, from the first start to the last end."""
    lanes: dict[Hashable, list[Interval]] = defaultdict(list)
    for span in spans:
        lanes[span.timeline].append((span.start, span.start + span.duration))
    return {lane: length(gaps(union(intervals))) / 1e9 for lane, intervals in lanes.items()}


def overlap(spans: Iterable[Timed]) -> float:
    """Seconds in which host and device were both busy."""
    listed = list(spans)
    return length(common(busy(listed, ("", "task")), busy(listed, ("device",)))) / 1e9


def wait(spans: Iterable[Timed], starts: Mapping[Hashable, int]) -> float:
    """Seconds between the launch of work and its start on a device; `starts` are the starts of the hosts' spans."""
    waited = (
        span.start - starts[span.parent_key] for span in spans if span.kind == "device" and span.parent_key in starts
    )
    return sum(waited) / 1e9


class _StepRow(NamedTuple):
    """A span of a batch as `Timed`."""

    key: int
    parent_key: int
    name: str
    timeline: str
    kind: str
    start: int
    duration: int
    step: int | float | None


class StepTimes:
    """Turns batches of spans into rows of metrics: where the time of each step went, once two later steps have started.

    `perf/<name>/total_sec` and `/self_sec` of hosts, `/device_sec` of devices; `/count`, `/p50_sec` and `/p95_sec`
    if there were several; `perf/wait_sec`, `perf/overlap_sec`, and `perf/idle_sec` of devices.
    """

    LAG = 2  # steps: device spans arrive late

    def __init__(self) -> None:
        self._open: dict[int | float, list[_StepRow]] = {}
        self._newest: int | float | None = None

    def feed(self, batch: Mapping[str, Plain]) -> Iterator[tuple[int | float, Row]]:
        """Add the fields of a `Spans` record; yields (step, row) for every step that is over."""
        for row in _rows(batch):
            if row.step is None or row.step - row.step != 0:
                continue
            if self._newest is None or row.step > self._newest:
                self._newest = row.step
            self._open.setdefault(row.step, []).append(row)
        for step in sorted(self._open):
            if self._newest is not None and step <= self._newest - self.LAG:
                yield step, times(self._open.pop(step))

    def rest(self) -> Iterator[tuple[int | float, Row]]:
        """The remaining steps, at the end of a run."""
        for step in sorted(self._open):
            yield step, times(self._open.pop(step))


def times(spans: Sequence[Timed]) -> Row:
    """The row of metrics from the spans of one step; see `StepTimes`."""
    row: Row = {}
    for one in aggregate(spans):
        if one.kind == "device":
            row[f"perf/{one.name}/device_sec"] = one.total
        elif one.kind != "queue":
            row[f"perf/{one.name}/total_sec"] = row.get(f"perf/{one.name}/total_sec", 0.0) + one.total
            row[f"perf/{one.name}/self_sec"] = row.get(f"perf/{one.name}/self_sec", 0.0) + one.own
            if one.count > 1:
                row[f"perf/{one.name}/count"] = one.count
                row[f"perf/{one.name}/p50_sec"] = one.p50
                row[f"perf/{one.name}/p95_sec"] = one.p95
    if any(span.kind == "device" for span in spans):
        row["perf/wait_sec"] = wait(spans, {span.key: span.start for span in spans})
        row["perf/overlap_sec"] = overlap(spans)
        row["perf/idle_sec"] = sum(idle(span for span in spans if span.kind == "device").values())
    return row


def _rows(batch: Mapping[str, Plain]) -> Iterator[_StepRow]:
    names, lanes, kinds = batch["names"], batch["threads"], batch["kinds"]
    columns = (batch[column] for column in ("name", "thread", "id", "parent", "start", "duration", "step"))
    for name, lane, number, parent, start, duration, step in zip(*columns, strict=True):
        label = lanes[lane]
        yield _StepRow(number, parent, names[name], label, kinds.get(label, ""), start, duration, step)
