"""The state of a run: derived from the end of its journal and its heartbeat, never from a stored flag."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from operator import itemgetter
from pathlib import Path
from typing import NamedTuple, TypeAlias

from chiplog.core import records
from chiplog.core.messages import clean
from chiplog.core.records import AnyRecord, Number
from chiplog.core.values.flatten import flatten
from chiplog.store import layout, manifest
from chiplog.store.contents.segment import SegmentContents
from chiplog.store.journal import lines
from chiplog.store.journal.tail import stream_key
from chiplog.store.layout import Segment
from chiplog.store.parts.errors import BrokenPart
from chiplog.store.runs import liveness
from chiplog.store.runs.state_journals import StateJournals

LOST = 60.0  # s without a heartbeat
NEAR = 4 << 10  # bytes from the end that usually hold the finish record, and the last step with its loss
END = 64 << 10  # bytes read from the end
MOST_PAIRS = 100  # of launches that wrote at the same time; more of them say nothing new
ENDS = 8  # attempts whose ends are searched for the last values and the highest step
RANKS = 8  # other ranks among whose attempts it is searched
_WORD = re.compile(r"\w[\w -]{0,19}")  # what can stand in a list of runs as a state


LastValues: TypeAlias = Mapping[str, Number | None]  # by name, and their `step`


class AttemptState(NamedTuple):
    """One start of one rank of a run, with the processes that joined it."""

    rank: int
    attempt: int
    start: records.Attempt | None
    finish: records.Finish | None
    last: AnyRecord | None
    beat: float  # seconds since the epoch
    state: str
    workers: tuple[AttemptState, ...] = ()  # processes that joined it with `attach`; each has a journal of its own

    @property
    def attached(self) -> bool:
        """Whether this is the journal of a worker, which joined a run that another process has started."""
        return self.start is not None and self.start.attached

    @property
    def launch(self) -> str:
        return self.start.launch if self.start else f"a{self.attempt:02d}"

    def end(self, now: int) -> int:
        """When it was last written, in nanoseconds."""
        return now if self.state == "running" else self.last.time if self.last else 0

    def seconds(self, now: int) -> float:
        """How long it has run."""
        return 0.0 if self.start is None else max(0, self.end(now) - self.start.time) / 1e9


def attempts(run: Path, *, rank: int | None = None, files: StateJournals | None = None) -> list[AttemptState]:
    """All attempts of a run, oldest first; of one rank, or of all."""
    return with_workers(journals(run, rank=rank, files=files))


def with_workers(journals: Sequence[AttemptState]) -> list[AttemptState]:
    """The attempts among these; a worker is part of the newest attempt of its launch, if possible of its rank.

    A process that ended before its first record has left an empty file. It does not count if there are others.
    """
    workers: dict[tuple[int, int], list[AttemptState]] = {}
    own = [one for one in journals if not one.attached]
    own = [one for one in own if one.start or one.last] or own
    newest = {(one.launch, rank): one for one in own for rank in (one.rank, None)}
    for one in journals:
        if one.attached:
            joined = newest.get((one.launch, one.rank)) or newest.get((one.launch, None)) or one
            if joined is one:  # the attempt it joined is not there
                own.append(one)
                newest[one.launch, one.rank] = newest[one.launch, None] = one
            else:
                workers.setdefault((joined.rank, joined.attempt), []).append(one)
    own.sort(key=lambda one: (one.attempt, one.rank))
    return [one._replace(workers=tuple(workers.get((one.rank, one.attempt), ()))) for one in own]


def journals(run: Path, *, rank: int | None = None, files: StateJournals | None = None) -> list[AttemptState]:
    """The journals of a run, oldest first, those of workers included; of one rank, or of all."""
    files = files or StateJournals(run)
    states = [_attempt(files, segments) for segments in files.streams(rank).values()]
    return sorted(
        states, key=lambda one: (one.attempt, one.rank)
    )  # the order they started in, whatever the clocks show


def state_of(run: Path) -> str:
    """running, finished, failed, interrupted, killed or lost; empty if nothing was written."""
    files = StateJournals(run)
    return judge(attempts(run, rank=files.segments[0].rank, files=files)) if files.segments else "empty"


def judge(main: list[AttemptState]) -> str:
    """The state of a run, from the attempts of its main rank; workers do not count."""
    own = [one for one in main if not one.attached] or main
    return "running" if any(one.state == "running" for one in own) else own[-1].state if own else "empty"


def live_streams(attempts: Iterable[AttemptState]) -> set[str]:
    """The streams that a process is still writing."""
    every = (each for one in attempts for each in (one, *one.workers))
    return {stream_key(Segment(one.rank, one.attempt, 0)) for one in every if one.state == "running"}


def two_writers(attempts: Iterable[AttemptState], now: int) -> list[tuple[AttemptState, AttemptState]]:
    """Pairs of attempts of different launches that were written at the same time; one pair per two launches.

    At most `MOST_PAIRS`, those that met first.
    """
    spans = [(one.start.time, max(one.start.time, one.end(now)), one) for one in attempts if one.start is not None]
    open_: dict[str, tuple[int, AttemptState]] = {}  # by launch: its attempt that ends last
    pairs: dict[frozenset[str], tuple[AttemptState, AttemptState]] = {}
    for start, end, one in sorted(spans, key=itemgetter(0, 1)):
        for launch, (ended, other) in list(open_.items()):  # few: all of them have met each other
            if ended <= start:
                del open_[launch]
            elif launch != one.launch:
                pair = (one, other) if one.attempt < other.attempt else (other, one)
                pairs.setdefault(frozenset((one.launch, launch)), pair)
        if len(pairs) >= MOST_PAIRS:
            break
        if end > max(start, open_.get(one.launch, (start, one))[0]):
            open_[one.launch] = end, one
    return sorted(pairs.values(), key=lambda pair: [(one.attempt, one.rank) for one in pair])[:MOST_PAIRS]


def last_values(
    run: Path, enough: Callable[[LastValues], object] = bool, files: StateJournals | None = None
) -> LastValues:
    """The newest values, and their step, of the first rank that has rows; reads back until `enough` is satisfied.

    Those of the workers that joined an attempt are among them, unless the attempt itself has newer ones; and those of
    older attempts, because one that continues a run to evaluate it has no loss.
    """
    files = files or StateJournals(run)
    streams: dict[int, list[list[Segment]]] = {}  # by rank, the attempts in their order
    for (rank, _), segments in files.streams().items():
        streams.setdefault(rank, []).append(segments)
    values: dict[str, Number | None] = {}
    for rank in sorted(streams)[:ENDS]:
        of_rank: dict[str, Number | None] = {}
        for attempt in islice(_attempts_back(files, streams[rank]), ENDS):
            of_attempt: dict[str, Number | None] = {}
            for segments in attempt:
                of_attempt.update(_last_values_of(files, segments, enough))
            of_rank = {**of_attempt, **of_rank}
            if enough(of_rank):
                break
        values = {**of_rank, **values}
        if "step" in values:
            break
    return values


def _attempts_back(files: StateJournals, streams: Sequence[list[Segment]]) -> Iterator[list[list[Segment]]]:
    """The segments of each attempt of a rank and of its workers, in the order of writing; the newest attempt first."""
    if len(streams) == 1:
        yield [streams[0]]
        return
    written: list[tuple[int, list[Segment]]] = []
    for segments in reversed(streams):
        about = _attempt(files, segments)
        written.append((about.last.time if about.last is not None else 0, segments))
        if not about.attached:
            yield [one for _, one in sorted(written)]
            written = []
    if written:  # workers of an attempt that is not there
        yield [one for _, one in sorted(written)]


def _last_values_of(
    files: StateJournals, segments: Sequence[Segment], enough: Callable[[LastValues], object]
) -> dict[str, Number | None]:
    values: dict[str, Number | None] = {}
    for segment in reversed(segments[-2:]):  # the newest may have just begun
        values = {**_last_values(files, segment, enough), **values}
        if "step" in values:
            break
    return values


def _last_values(
    files: StateJournals, segment: Segment, enough: Callable[[LastValues], object]
) -> dict[str, Number | None]:
    values: dict[str, Number | None] = {}
    if files.is_pruned(segment):
        part = files.contents(segment).part
        if part is not None:
            values.update((name, value) for name, _, value in part.last())
            values["step"] = part.about.last_step
            for event in part.rows("event"):
                if isinstance(event, records.Event) and event.name == "summary":
                    values.update(_set_by_hand(event))
        return values
    for ending in files.endings(segment, NEAR, END, 16 * END):  # long printed output may follow the last values
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
    """A run in a few words: `tiny-lm/261116-101500-ab12cd 'baseline': finished, step 999`."""
    which = f"{run.parent.name}/{run.name}"
    name = manifest.load(run).name
    which = clean(which + (f" {name!r}" if name not in ("", run.name) else ""))
    try:
        segments = layout.segments(run)
        step = highest_step(run, segments[0].rank) if segments else None
        return clean(f"{which}: {state_of(run)}") + ("" if step is None else f", step {step:,}")
    except (OSError, ImportError):  # gone meanwhile, or compressed and pyarrow is not installed
        return which


def highest_step(run: Path, rank: int, files: StateJournals | None = None) -> int | None:
    """The highest step that a rank has logged, from the ends of its newest attempts; None if it has none.

    Reads at most a few MiB, however long the journal is. The saved state covers what is further back.
    """
    files = files or StateJournals(run)
    newest = sorted(files.streams(rank).items())[-ENDS:]
    return _highest([_highest_of(files, segments) for _, segments in newest])


def highest_before(run: Path, rank: int, launch: str) -> int | None:
    """The highest step of a run before this launch of this rank: by its own attempts, and the newest of other ranks.

    Any rank may have kept the last attempt. Only a few others are searched: of a run that all ranks keep, each has the
    steps of all.
    """
    newest: dict[int, int] = {}
    for segment in layout.segments(run):
        newest[segment.rank] = segment.attempt
    others = sorted(newest.keys() - {rank}, key=lambda other: (-newest[other], other))[:RANKS]
    files = StateJournals(run, {rank, *others})
    return _highest([highest_step(run, rank, files), *(_newest_step(files, other, launch) for other in others)])


def _newest_step(files: StateJournals, rank: int, launch: str) -> int | None:
    """The highest step of the newest attempt of a rank that has one, and is not part of this launch."""
    for _, segments in sorted(files.streams(rank).items(), reverse=True)[:ENDS]:
        about = _attempt(files, segments)
        if about.launch == launch and about.state == "running":
            continue
        if (step := _highest_of(files, segments)) is not None:
            return step
    return None


def _highest_of(files: StateJournals, segments: Sequence[Segment]) -> int | None:
    """The highest step near the end of an attempt, whose newest segment may have just begun."""
    steps = (_highest_step(files, segment) for segment in reversed(segments[-2:]))
    return next((step for step in steps if step is not None), None)


def _highest_step(files: StateJournals, segment: Segment) -> int | None:
    """The highest step near the end of a segment; of a pruned one, the last."""
    if files.is_pruned(segment):
        part = files.contents(segment).part
        return None if part is None else _highest([part.about.last_step])
    for ending in files.endings(segment, END, 16 * END, 264 * END):  # the last is longer than the longest line
        highest = _highest([record.step for record in ending if isinstance(record, (records.Step, records.Eval))])
        if highest is not None:
            return highest
    return None


def _highest(steps: Iterable[int | float | None]) -> int | None:
    """The highest finite one, truncated to an integer."""
    return max((int(step) for step in steps if step is not None and step - step == 0), default=None)


def _attempt(files: StateJournals, segments: Sequence[Segment]) -> AttemptState:
    first, newest = segments[0], segments[-1]
    start = files.first(first)
    last, finish = _ending(files, newest)
    if last is None and newest != first:  # it has just begun
        last, finish = _ending(files, segments[-2])
    begun = start if isinstance(start, records.Attempt) else None
    beat = files.beat(newest)
    return AttemptState(first.rank, first.attempt, begun, finish, last, beat, _judge(begun, finish, beat))


def _judge(start: records.Attempt | None, finish: records.Finish | None, beat: float) -> str:
    if finish is not None:
        return finish.state if _WORD.fullmatch(finish.state) else "unknown"
    alive = liveness.is_alive(start) if start is not None else None
    if alive is not None and start is not None:
        # a pool ends its workers with a signal: that is how they end
        return "running" if alive else "ended" if start.attached else "killed"
    return "running" if time.time() - beat < LOST else "lost"


def _ending(files: StateJournals, segment: Segment) -> tuple[AnyRecord | None, records.Finish | None]:
    """The last record of a segment, and the finish record if there is one near the end."""
    if files.is_pruned(segment):
        return _pruned_ending(files.contents(segment))
    last, finish = None, None
    for number, ending in enumerate(files.endings(segment, NEAR, END, 16 * END)):
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
