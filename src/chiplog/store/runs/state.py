"""The state of a run: derived from the end of its journal and its heartbeat, never from a stored flag."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from chiplog.core import records
from chiplog.core.errors import MissingPackage
from chiplog.core.records import AnyRecord
from chiplog.store import layout
from chiplog.store.journal import lines
from chiplog.store.journal.tail import stream_key
from chiplog.store.layout import Segment
from chiplog.store.runs import liveness

LOST = 60.0  # s without a heartbeat
NEAR = 4 << 10  # bytes from the end that usually hold the finish record, and the last step with its loss
END = 64 << 10  # bytes read from the end
ENDS = 8  # attempts whose ends are searched for the highest step


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
    found = [_attempt(run, segments) for segments in streams.values()]
    return sorted(found, key=lambda one: (one.attempt, one.rank))  # the order they started in, whatever the clocks show


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


def last_values(run: Path, enough: Callable[[Mapping[str, Any]], object] = bool) -> Mapping[str, Any]:
    """The newest values, and their step, of the first rank that has rows; reads back until `enough` is satisfied."""
    newest = {segment.rank: segment for segment in layout.segments(run)}  # keeps the last one of each rank
    found: dict[str, Any] = {}
    for rank in sorted(newest)[:ENDS]:
        found = {**_last_values(run, newest[rank], enough), **found}
        if "step" in found:
            break
    return found


def _last_values(run: Path, segment: Segment, enough: Callable[[Mapping[str, Any]], object]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    file = run / layout.JOURNAL / segment.filename
    if not file.exists() and layout.has_part(run, segment):  # pruned
        from chiplog.store.parts import part as parts

        if (part := parts.load(run, segment)) is not None:
            found.update((name, value) for name, _, value in part.last())
            found["step"] = part.about.last_step
        return found
    for near in lines.endings(file, NEAR, END, 16 * END):  # long printed output may follow the last values
        for record in near:
            found.update(records.points(record))
            if isinstance(record, (records.Step, records.Eval)):
                found["step"] = record.step
        if enough(found):
            break
    return found


def highest_step(run: Path, rank: int) -> int | None:
    """The highest step that a rank has logged, from the ends of its newest attempts; None if it has none.

    Reads at most a few MiB, however long the journal is. The saved state covers what is further back.
    """
    newest: dict[int, Segment] = {}
    for segment in layout.segments(run):
        if segment.rank == rank:
            newest[segment.attempt] = segment
    found = [_highest(run, newest[attempt]) for attempt in sorted(newest)[-ENDS:]]
    return max((step for step in found if step is not None), default=None)


def _highest(run: Path, segment: Segment) -> int | None:
    """The highest step near the end of a segment; of a compressed one, the last."""
    file = run / layout.JOURNAL / segment.filename
    if not file.exists() and layout.has_part(run, segment):
        from chiplog.store.parts import part as parts

        part = parts.load(run, segment)
        return None if part is None else _whole([part.about.last_step])
    for near in lines.endings(file, END, 16 * END, 264 * END):  # the last is longer than the longest line
        highest = _whole([record.step for record in near if isinstance(record, (records.Step, records.Eval))])
        if highest is not None:
            return highest
    return None


def _whole(steps: Iterable[int | float | None]) -> int | None:
    """The highest finite one, truncated to an integer."""
    return max((int(step) for step in steps if step is not None and step - step == 0), default=None)


def _attempt(run: Path, segments: list[Segment]) -> AttemptState:
    first, newest = segments[0], segments[-1]
    start = _beginning(lines.located(run / layout.JOURNAL / first.filename))
    path = lines.located(run / layout.JOURNAL / newest.filename)
    last, finish = _ending(path) if path.suffix != ".zst" else _packed_ending(run, newest)
    try:
        beat = path.stat().st_mtime
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


def _beginning(path: Path) -> records.Attempt | None:
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
    for number, found in enumerate(lines.endings(path, NEAR, END, 16 * END)):
        for record in found:
            if last is None or record.seq >= last.seq:
                last = record
            if isinstance(record, records.Finish):
                finish = record
        if finish is not None or (last is not None and number):
            break
    return last, finish


def _packed_ending(run: Path, segment: Segment) -> tuple[AnyRecord | None, records.Finish | None]:
    """The same for a pruned segment, from its part: decompressing it would take a second."""
    try:
        from chiplog.store.parts import part as parts  # a plain journal can be read without pyarrow
    except ImportError:
        raise MissingPackage("this run is compressed; to read it: pip install 'chiplog[read]'") from None

    part = parts.load(run, segment)
    last = finish = None
    try:
        rows: Iterable[AnyRecord] = part.rows() if part is not None else ()
    except parts.Broken:
        rows = ()
    for record in rows or lines.Scanner(run / layout.JOURNAL / segment.filename).read():
        last = record
        finish = record if isinstance(record, records.Finish) else finish
    return last, finish
