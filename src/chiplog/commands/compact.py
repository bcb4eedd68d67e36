"""`chiplog compact`: closed journals to Parquet; with `--prune`, finished and delivered ones to `.jsonl.zst`."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path

from chiplog.core import notes
from chiplog.sinks.lease import Lease
from chiplog.store import index, layout, parts, state
from chiplog.store.cursors import Cursor, cursors
from chiplog.store.layout import Segment
from chiplog.views import units

OVER = ("finished", "failed", "interrupted", "killed")  # a lost attempt may be alive where we cannot see it


def run(args: Namespace) -> int:
    chosen = [index.find(which, args.root) for which in args.runs] or list(layout.find_runs(args.root))
    code, done = 0, 0
    for path in chosen:
        for segment in _alone(path, args.quiet):
            try:
                lines = [*_compact(path, segment), *(_prune(path, segment) if args.prune else ())]
            except OSError as error:
                notes.say(f"{path / layout.JOURNAL / segment.filename}: {error.strerror or error}")
                code = 2
                continue
            done += len(lines)
            if not args.quiet:
                for line in lines:
                    print(notes.clean(f"{path.parent.name}/{path.name}  {segment.stem}  {line}"), flush=True)
    if not done and not code and not args.quiet:
        print(f"nothing to compact in {units.count(len(chosen))} runs under {args.root}")
    return code


def _alone(path: Path, quiet: bool) -> Iterator[Segment]:
    """The closed segments of a run, also those that are closed meanwhile; none where another process is at it, so that
    a run that is resumed many times is compacted once at a time."""
    if not closed(path):
        return
    lease = Lease(path / layout.PARTS / "compact.lease")
    if not lease.hold():
        if not quiet:
            notes.say(f"another process compacts {path.parent.name}/{path.name} just now")
        return
    try:
        done: set[Segment] = set()
        while fresh := [segment for segment in closed(path) if segment not in done]:
            for segment in fresh:
                done.add(segment)
                lease.hold()
                yield segment
    finally:
        lease.release()


def closed(path: Path) -> list[Segment]:
    """The segments nobody writes to any more: a later one has begun, or the attempt does not run."""
    segments = layout.segments(path)
    running = {(one.rank, one.attempt) for one in state.attempts(path) if one.state == "running"}
    newest = {(segment.rank, segment.attempt): segment for segment in segments}
    return [
        segment
        for segment in segments
        if (segment.rank, segment.attempt) not in running or segment != newest[segment.rank, segment.attempt]
    ]


def _compact(path: Path, segment: Segment) -> Iterator[str]:
    file = path / layout.JOURNAL / segment.filename
    if parts.compact(path, segment):
        after = sum(part.stat().st_size for part in (path / layout.PARTS).glob(f"{segment.stem}.*.parquet"))
        yield _sizes(file.stat().st_size, after)


def _prune(path: Path, segment: Segment) -> Iterator[str]:
    file = path / layout.JOURNAL / segment.filename
    if not file.exists():
        return
    before = file.stat().st_size
    if (reason := kept(path, segment, before)) is not None:
        yield f"journal kept: {reason}"
    elif parts.prune(path, segment):
        yield f"journal {_sizes(before, file.with_name(f'{file.name}.zst').stat().st_size)}"


def kept(path: Path, segment: Segment, size: int) -> str | None:
    """Why a segment must stay as it is; None when it need not."""
    states = {(one.rank, one.attempt): one.state for one in state.attempts(path)}
    if (doing := states.get((segment.rank, segment.attempt), "lost")) not in OVER:
        return f"its attempt is {doing}"
    part = parts.load(path, segment)
    if part is None:
        return "its part cannot be read"
    if part.about.covers != size:
        return f"its part covers {units.count(part.about.covers)} of {units.count(size)} bytes"
    waiting = [cursor for cursor in cursors(path) if cursor.needs(segment, size)]
    return f"not yet delivered to {_names(waiting)}" if waiting else None


def _names(waiting: list[Cursor]) -> str:
    return ", ".join(cursor.name for cursor in waiting)


def _sizes(before: int, after: int) -> str:
    ratio = f"{before / after:.1f}x smaller" if before >= after > 0 else f"{after / max(1, before):.1f}x larger"
    return f"{units.size(before)} -> {units.size(after)}  {ratio}"
