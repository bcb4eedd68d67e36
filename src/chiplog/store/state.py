"""What a run is doing: judged from the ends of its journal and its heartbeat, never from a stored flag."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from chiplog.core import records
from chiplog.core.errors import MissingPackage
from chiplog.core.records import AnyRecord
from chiplog.store import layout, lines, process
from chiplog.store.layout import Segment

LOST = 60.0  # s without a beat
NEAR = 4 << 10  # bytes from the end that mostly have the finish record, and the last step with its loss
END = 64 << 10  # bytes looked at from the end


class AttemptState(NamedTuple):
    """One start of a run, of one rank."""

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


def attempts(run: Path, *, rank: int | None = None) -> list[AttemptState]:
    """All attempts of a run, oldest first; of one rank, or of all."""
    streams: dict[tuple[int, int], list[Segment]] = {}
    for segment in layout.segments(run):
        if rank in (None, segment.rank):
            streams.setdefault((segment.rank, segment.attempt), []).append(segment)
    found = [_attempt(run, segments) for segments in streams.values()]
    return sorted(found, key=lambda one: (one.attempt, one.rank))  # the order they began in, whatever the clocks said


def state_of(run: Path) -> str:
    """running, finished, failed, interrupted, killed or lost; empty when nothing was ever written."""
    ranks = {segment.rank for segment in layout.segments(run)}
    if not ranks:
        return "empty"
    return judge(attempts(run, rank=min(ranks)))


def judge(main: list[AttemptState]) -> str:
    """What a run is doing, from the attempts of its main rank; workers that attached themselves do not decide it."""
    own = [one for one in main if one.start is None or not one.start.attached] or main
    return "running" if any(one.state == "running" for one in own) else own[-1].state if own else "empty"


def last_values(run: Path, enough: Callable[[Mapping[str, Any]], object] = bool) -> Mapping[str, Any]:
    """The newest values of a run's first rank and their step, from as far back as it takes to have `enough` of them."""
    segments = layout.segments(run)
    newest = [segment for segment in segments if segment.rank == segments[0].rank][-1:]
    found: dict[str, Any] = {}
    for segment in newest:
        file = run / layout.JOURNAL / segment.filename
        if not file.exists() and layout.has_part(run, segment):  # pruned
            from chiplog.store import parts

            if (part := parts.load(run, segment)) is not None:
                found.update((name, value) for name, _, value in part.last())
                found["step"] = part.about.last_step
            break
        for near in lines.endings(file, NEAR, END, 16 * END):  # much that was printed may stand behind the last values
            for record in near:
                found.update(records.points(record))
                if isinstance(record, (records.Step, records.Eval)):
                    found["step"] = record.step
            if enough(found):
                break
    return found


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
    here = start is not None and start.host == process.hostname() and start.boot in ("", process.boot_id())
    if here and start is not None:
        return "running" if process.alive(start.pid, start.born) else "killed"
    return "running" if time.time() - beat < LOST else "lost"


def _beginning(path: Path) -> records.Attempt | None:
    """The first record of a segment; one line is read unless that one is damaged."""
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
    """The same of a segment that was pruned, from its part: decompressing it would take a second."""
    try:
        from chiplog.store import parts  # a journal that is not compressed is read without pyarrow
    except ImportError:
        raise MissingPackage("this run is compressed, and reading it needs: pip install 'chiplog[read]'") from None

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
