"""A run as a Perfetto trace: records in, packets out. Used by the sink and by `chiplog trace`.

An attempt of a rank is a process; its threads, tasks, devices and queues are tracks, alerts and evals instants, and
losses, rates, power and memory are counters on the same clock.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from fnmatch import fnmatchcase
from functools import lru_cache
from operator import itemgetter

from chiplog.core import records
from chiplog.core.records import Alert, AnyRecord, Attempt, Clock, Eval, Event, SpansRecord, Step
from chiplog.core.values.convert import double
from chiplog.metrics.catalog import unit
from chiplog.store.perfetto.packets import PacketWriter

COUNTERS = (
    *(
        "*[Ll]oss",
        "*[Ll]oss/*",
        "*losses/*",
        "*loss_step",
        "*loss_epoch",
        "*grad_norm",
        "*_per_sec",
        "*/mfu",
        "*step_time_sec",
        "*learning_rate",
        "*/lr",
    ),
    *("gpu/*", "cpu/*", "memory/*", "system/*"),
)
TRACKS = 24  # bits of a track's number
MOST = 10_000  # tracks; further threads and tasks share one
LANES = 64  # tracks of one thread or task whose spans overlap; further ones share one


class Trace:
    """Packets for the records of one attempt, in batches of any size; `start` counts how often it was resumed.

    `above` returns the parent track of a timeline, by its name and kind; without it, threads are threads.
    """

    def __init__(
        self,
        rank: int,
        attempt: int,
        origin: int,
        *,
        about: str = "",
        counters: Iterable[str] = COUNTERS,
        start: int = 0,
        tracks: Mapping[str, int] | None = None,
        above: Callable[[str, str], str] | None = None,
    ) -> None:
        base = rank << 6 | attempt & 63
        self.writer = PacketWriter(base << 3 | (start & 7), origin)
        self.tracks = dict(tracks or {})  # their numbers, so that a resumed trace continues them
        self._base = base << TRACKS
        self._pid = base
        self._flow = base << 40
        self._root = self._number("")
        self._lanes: dict[str, list[_Track]] = {}
        self._described: set[int] = set()
        self._is_counter = lru_cache(10_000)(matcher(tuple(counters)))
        self._batch = 0
        self._above = above
        self.writer.process(self._root, self._pid, f"rank {rank}" + (f" {about}" if about else ""))

    def feed(self, record: AnyRecord) -> bytes:
        """The packets of a record, and any packets they depend on."""
        events = b""
        if isinstance(record, SpansRecord):
            events = self._spans(record)
        elif isinstance(record, (Step, Eval, Event)):
            events = self._counts(record)
            if isinstance(record, Eval):
                events += self.writer.instant(self._root, "eval", record.time, {"step": record.step, **record.metrics})
        elif isinstance(record, Alert):
            args = {"level": record.level, "text": record.text, "rule": record.rule, "step": record.step}
            events = self.writer.instant(
                self._root, f"alert: {record.title}", record.time, {key: one for key, one in args.items() if one}
            )
        elif isinstance(record, Clock):
            events = self.writer.instant(self._root, "the wall clock was set", record.time, {"jump": record.jump})
        return self.writer.news() + events

    def _spans(self, batch: SpansRecord) -> bytes:
        self._batch += 1
        writer, flows = self.writer, set(batch.launched)
        tags, errors, names, lanes = batch.tags, batch.errors, batch.names, batch.threads
        columns = zip(
            batch.start, batch.duration, batch.id, batch.parent, batch.name, batch.thread, batch.step, strict=False
        )
        placed = []
        for start, duration, number, parent, name, lane, step in columns:
            if not (0 <= name < len(names) and 0 <= lane < len(lanes)):
                continue
            label = lanes[lane]
            kind = batch.kinds.get(label, "")
            track, begin = self._place(label, kind, parent, start, start + duration)
            away = kind in ("device", "queue")
            flow = number if number in flows else parent if away else 0
            placed.append((begin, away, -duration, start + duration, number, track, names[name], step, flow))
        placed.sort(key=itemgetter(0, 1, 2))  # at the same time: hosts before devices, parents before children
        out = []
        for begin, _, _, end, number, track, name_, step, flow in placed:
            args = tags.get(str(number)) if tags else None
            if errors and str(number) in errors:
                args = {**(args or {}), "error": errors[str(number)]}
            out.append(writer.slice(track, name_, begin, end, args, step=step, flow=flow and self._flow + flow))
        return b"".join(out)

    def _counts(self, record: Step | Eval | Event) -> bytes:
        out = []
        for name, value in records.points(record):
            number = double(value)
            if self._is_counter(name) and number - number == 0:
                track = self._number(f"counter {name}")
                if track not in self._described:
                    self._described.add(track)
                    self.writer.counter(track, name, self._root, unit(name))
                out.append(self.writer.count(track, record.time, number))
        return b"".join(out)

    def _place(self, label: str, kind: str, parent: int, begin: int, end: int) -> tuple[int, int]:
        """(track, start) of a span: the first lane of its timeline where it fits."""
        lanes = self._lanes.get(label)
        if lanes is None:
            if len(self.tracks) >= MOST and label not in self.tracks:
                label, kind = f"more {kind or 'thread'}s", "shared"
            lanes = self._lanes.setdefault(label, [])
            if not lanes:
                lanes.append(_Track(self._timeline(label, kind)))
        for lane in lanes:
            if (since := lane.fit(parent, begin, end, self._batch)) is not None:
                return lane.track, since
        full = len(lanes) >= LANES
        track = self._number(f"{label} lane {'more' if full else len(lanes)}")
        if track not in self._described:
            self._described.add(track)
            self.writer.track(track, f"{label}: more, which overlap" if full else label, lanes[0].track)
        if not full:
            lanes.append(_Track(track))
            lanes[-1].fit(parent, begin, end, self._batch)
        return track, begin

    def _timeline(self, label: str, kind: str) -> int:
        track = self._number(label)
        if track in self._described:
            return track
        self._described.add(track)
        if self._above is not None:
            self.writer.track(track, label, self._group(self._above(label, kind)))
        elif kind == "task":
            thread, _, task = label.partition("/")
            self.writer.track(track, task, self._timeline(thread, ""))
        elif kind:
            self.writer.track(track, label, self._root)
        else:
            self.writer.thread(track, self._pid, self._pid * 100_000 + track - self._base, label)
        return track

    def _group(self, name: str) -> int:
        track = self._number(f"group {name}")
        if track not in self._described:
            self._described.add(track)
            self.writer.track(track, name, self._root)
        return track

    def _number(self, label: str) -> int:
        return self.tracks.setdefault(label, self._base + len(self.tracks) + 1)


class _Track:
    """A track, and the intervals it already holds: disjoint, newest last.

    Spans arrive in the order of their ends, so a new one encloses the newest intervals, or follows them; otherwise it
    needs another track. Intervals inside one parent count as one.
    """

    __slots__ = ("_laid", "track")

    def __init__(self, track: int) -> None:
        self.track = track
        self._laid: deque[tuple[int, int, int, int]] = deque(maxlen=1000)  # begin, end, parent, batch

    def fit(self, parent: int, begin: int, end: int, batch: int) -> int | None:
        """The start of a span that fits on this track; None if it does not."""
        if begin == end:  # no length, no overlap
            return begin
        laid = self._laid
        since, at = begin, len(laid)
        while at and laid[at - 1][0] >= begin:
            first, last, _, when = laid[at - 1]
            if last > end and first < end:
                return None
            if first >= end:  # it arrived late, and precedes everything here
                return self._squeeze(at, parent, begin, end, batch)
            if first == begin and when != batch:
                since = begin - 1  # its children were written first, and must start later, if only by a nanosecond
            at -= 1
        if at and laid[at - 1][1] > begin:
            return None
        while len(laid) > at:
            laid.pop()
        if laid and laid[-1][2] == parent and laid[-1][3] == batch:
            begin = laid.pop()[0]
        laid.append((begin, end, parent, batch))
        return since

    def _squeeze(self, at: int, parent: int, begin: int, end: int, batch: int) -> int | None:
        laid = self._laid
        while at and laid[at - 1][0] >= end:
            at -= 1
        if any(other[0] < end and begin < other[1] for other in laid):
            return None
        laid.insert(at, (begin, end, parent, batch)) if len(laid) < 1000 else None
        return begin


def opened(attempt: Attempt, number: int, counters: Iterable[str] = COUNTERS, start: int = 0) -> Trace:
    """The trace of an attempt that starts with this record."""
    about = f"({attempt.host}, pid {attempt.pid})"
    return Trace(attempt.rank, number, attempt.time, about=about, counters=counters, start=start)


def matcher(patterns: tuple[str, ...]) -> Callable[[str], bool]:
    """Whether a series matches one of these patterns."""
    return lambda name: any(fnmatchcase(name, pattern) for pattern in patterns)
