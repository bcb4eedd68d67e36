"""The state of a run: derived from the end of its journal and its heartbeat, never from a stored flag."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import NamedTuple, TypeAlias

from chiplog.core import records
from chiplog.core.records import AnyRecord, Number
from chiplog.core.values.flatten import flatten
from chiplog.store import layout
from chiplog.store.contents.segment import SegmentContents
from chiplog.store.journal import lines
from chiplog.store.journal.tail import stream_key
from chiplog.store.layout import Segment
from chiplog.store.parts.errors import BrokenPart
from chiplog.store.runs import liveness

LOST = 60.0  # s without a heartbeat
NEAR = 4 << 10  # bytes from the end that usually hold the finish record, and the last step with its loss
END = 64 << 10  # bytes read from the end
ENDS = 8  # attempts whose ends are searched for the highest step


LastValues: TypeAlias = Mapping[str, Number | None]  # by name, and their `step`


class AttemptState(NamedTuple):
    """One start of one rank of a run."""

    rank: int
    attempt: int
    start: records.Attempt | None
    finish: records.Finish | None
    last: AnyRecord | None
    beat: float  # seconds since the epoch
    state: str

    @property
    def launch(self) -> str:
        return self.start.launch if self.start else f"a{self.attempt:02d}"

    def end(self, now: int) -> int:
        """When it was last written, in nanoseconds."""
        return now if self.state == "running" else self.last.time if self.last else 0

    def seconds(self, now: int) -> float:
        """How long it has run."""
        return 0.0 if self.start is None else max(0, self.end(now) - self.start.time) / 1e9


def attempts(run: Path, *, rank: int | None = None) -> list[AttemptState]:
    """All attempts of a run, oldest first; of one rank, or of all."""
    streams: dict[tuple[int, int], list[Segment]] = {}
    for segment in layout.segments(run):
        if rank in (None, segment.rank):
            streams.setdefault((segment.rank, segment.attempt), []).append(segment)
    states = [_attempt(run, segments) for segments in streams.values()]
    return sorted(
        states, key=lambda one: (one.attempt, one.rank)
    )  # the order they started in, whatever the clocks show


def state_of(run: Path) -> str:
    """running, finished, failed, interrupted, killed or lost; empty if nothing was written."""
    ranks = {segment.rank for segment in layout.segments(run)}
    if not ranks:
        return "empty"
    return judge(attempts(run, rank=min(ranks)))


def judge(main: list[AttemptState]) -> str:
    """The state of a run, from the attempts of its main rank; attached workers do not count."""
    own = [one for one in main if one.start is None or not one.start.attached] or main
    return "running" if any(one.state == "running" for one in own) else own[-1].state if own else "empty"


def live_streams(attempts: Iterable[AttemptState]) -> set[str]:
    """The streams that a process is still writing."""
    return {stream_key(Segment(one.rank, one.attempt, 0)) for one in attempts if one.state == "running"}


def two_writers(attempts: Iterable[AttemptState], now: int) -> list[tuple[AttemptState, AttemptState]]:
    """Pairs of attempts of different launches that were written at the same time; one pair per two launches."""
    lives = [(one, one.start.time, one.end(now)) for one in attempts if one.start is not None]
    pairs = {
        frozenset((one.launch, other.launch)): (one, other) if one.attempt <= other.attempt else (other, one)
        for at, (one, start, end) in enumerate(lives)
        for other, begun, ended in lives[at + 1 :]
        if one.launch != other.launch and start < ended and begun < end
    }
    return list(pairs.values())


def last_values(run: Path, enough: Callable[[LastValues], object] = bool) -> LastValues:
    """The newest values, and their step, of the first rank that has rows; reads back until `enough` is satisfied."""
    newest = {segment.rank: segment for segment in layout.segments(run)}  # keeps the last one of each rank
    values: dict[str, Number | None] = {}
    for rank in sorted(newest)[:ENDS]:
        values = {**_last_values(SegmentContents(run, newest[rank]), enough), **values}
        if "step" in values:
            break
    return values


def _last_values(segment: SegmentContents, enough: Callable[[LastValues], object]) -> dict[str, Number | None]:
    values: dict[str, Number | None] = {}
    if segment.pruned:
        if segment.part is not None:
            values.update((name, value) for name, _, value in segment.part.last())
            values["step"] = segment.part.about.last_step
            for event in segment.part.rows("event"):
                if isinstance(event, records.Event) and event.name == "summary":
                    values.update(_set_by_hand(event))
        return values
    for ending in lines.endings(segment.path, NEAR, END, 16 * END):  # long printed output may follow the last values
        for record in ending:
            values.update(records.points(record))
            if isinstance(record, (records.Step, records.Eval)):
                values["step"] = record.step
            elif isinstance(record, records.Event) and record.name == "summary":
                values.update(_set_by_hand(record))
        if enough(values):
            break
    return values


def _set_by_hand(summary: records.Event) -> dict[str, Number | None]:
    """The numbers that a run has set in its summary; they override the last values of series."""
    numbers = ((name, value) for name, value in flatten(summary.data) if isinstance(value, (int, float)))
    return {name: value for name, value in numbers if name != "step"}


def describe(run: Path) -> str:
    """A run in a few words: `tiny-lm/261116-101500-ab12cd: finished, step 999`."""
    which = f"{run.parent.name}/{run.name}"
    try:
        segments = layout.segments(run)
        step = highest_step(run, segments[0].rank) if segments else None
        return f"{which}: {state_of(run)}" + ("" if step is None else f", step {step:,}")
    except (OSError, ImportError):  # gone by now, or compressed and pyarrow is not installed
        return which


def highest_step(run: Path, rank: int) -> int | None:
    """The highest step that a rank has logged, from the ends of its newest attempts; None if it has none.

    Reads at most a few MiB, however long the journal is. The saved state covers what is further back.
    """
    newest: dict[int, Segment] = {}
    for segment in layout.segments(run):
        if segment.rank == rank:
            newest[segment.attempt] = segment
    return _highest([_highest_step(SegmentContents(run, newest[attempt])) for attempt in sorted(newest)[-ENDS:]])


def _highest_step(segment: SegmentContents) -> int | None:
    """The highest step near the end of a segment; of a pruned one, the last."""
    if segment.pruned:
        return None if segment.part is None else _highest([segment.part.about.last_step])
    for ending in lines.endings(segment.path, END, 16 * END, 264 * END):  # the last is longer than the longest line
        highest = _highest([record.step for record in ending if isinstance(record, (records.Step, records.Eval))])
        if highest is not None:
            return highest
    return None


def _highest(steps: Iterable[int | float | None]) -> int | None:
    """The highest finite one, truncated to an integer."""
    return max((int(step) for step in steps if step is not None and step - step == 0), default=None)


def _attempt(run: Path, segments: list[Segment]) -> AttemptState:
    first, newest = segments[0], segments[-1]
    start = _first_record(lines.located(run / layout.JOURNAL / first.filename))
    contents = SegmentContents(run, newest)
    last, finish = _pruned_ending(contents) if contents.pruned else _ending(contents.path)
    try:
        beat = lines.located(contents.path).stat().st_mtime
    except OSError:
        beat = 0.0
    return AttemptState(first.rank, first.attempt, start, finish, last, beat, _judge(start, finish, beat))


def _judge(start: records.Attempt | None, finish: records.Finish | None, beat: float) -> str:
    if finish is not None:
        return finish.state
    here = start is not None and start.host == liveness.hostname() and start.boot in ("", liveness.boot_id())
    if here and start is not None:
        return "running" if liveness.alive(start.pid, start.born) else "killed"
    return "running" if time.time() - beat < LOST else "lost"


def _first_record(path: Path) -> records.Attempt | None:
    """The first record of a segment; reads one line unless it is damaged."""
    record = None
    try:
        with path.open("rb") as file:
            record = lines.unseal(file.readline(END).removesuffix(b"\n"))
    except OSError:
        pass
    record = record or next(lines.Scanner(path).read(), None)
    return record if isinstance(record, records.Attempt) else None


def _ending(path: Path) -> tuple[AnyRecord | None, records.Finish | None]:
    """The last record of a segment, and the finish record if there is one near the end."""
    last, finish = None, None
    for number, ending in enumerate(lines.endings(path, NEAR, END, 16 * END)):
        for record in ending:
            if last is None or record.seq >= last.seq:
                last = record
            if isinstance(record, records.Finish):
                finish = record
        if finish is not None or (last is not None and number):
            break
    return last, finish


def _pruned_ending(segment: SegmentContents) -> tuple[AnyRecord | None, records.Finish | None]:
    """The same for a pruned segment, from its part: decompressing it would take a second."""
    rows: Iterable[AnyRecord] = ()
    try:
        rows = segment.part.rows() if segment.part is not None else ()
    except BrokenPart:
        pass
    last = finish = None
    for record in rows or lines.Scanner(segment.path).read():
        last = record
        finish = record if isinstance(record, records.Finish) else finish
    return last, finish
