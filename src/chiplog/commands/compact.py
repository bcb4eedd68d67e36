"""Turn closed journals into Parquet.

With `--prune`, journals that are finished and delivered are compressed to `.jsonl.zst`.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from pathlib import Path

from chiplog.core import display, messages
from chiplog.sinks.shared.lease import Lease
from chiplog.store import layout
from chiplog.store.journal.cursors import cursors
from chiplog.store.layout import Segment
from chiplog.store.runs import find, state

OVER = ("finished", "failed", "interrupted", "killed")  # a lost attempt may still run on another machine

EXAMPLE = "chiplog compact latest --prune"


def arguments(parser: ArgumentParser) -> None:
    parser.add_argument("runs", nargs="*", metavar="RUN", help="the runs (default: all)")
    parser.add_argument("--prune", action="store_true", help="also compress journals that are finished and delivered")
    parser.add_argument("--quiet", action="store_true", help="print only errors")


def run(args: Namespace) -> int:
    chosen = find.select(args.runs, args.root) or list(layout.find_runs(args.root))
    code, done = 0, 0
    for path in chosen:
        for segment in _closed_segments(path, args.quiet):
            try:
                lines = [*_compact(path, segment), *(_prune(path, segment) if args.prune else ())]
            except OSError as error:
                messages.say(f"{path / layout.JOURNAL / segment.filename}: {error.strerror or error}")
                code = 2
                continue
            done += len(lines)
            if not args.quiet:
                for line in lines:
                    print(messages.clean(f"{path.parent.name}/{path.name}  {segment.stem}  {line}"), flush=True)
    if not done and not code and not args.quiet:
        print(f"nothing to compact in {display.count(len(chosen))} runs under {args.root}")
    return code


def _closed_segments(path: Path, quiet: bool) -> Iterator[Segment]:
    """The closed segments of a run, including those that close meanwhile.

    None if another process is compacting the run: one process at a time, however often the run is resumed.
    """
    if not closed(path):
        return
    lease = Lease(path / layout.PARTS / "compact.lease")
    if not lease.hold():
        if not quiet:
            messages.say(f"another process is compacting {path.parent.name}/{path.name}")
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
    """The segments that no longer grow: a later one exists, or the attempt has ended."""
    segments = layout.segments(path)
    running = {(one.rank, one.attempt) for one in state.attempts(path) if one.state == "running"}
    newest = {(segment.rank, segment.attempt): segment for segment in segments}
    return [
        segment
        for segment in segments
        if (segment.rank, segment.attempt) not in running or segment != newest[segment.rank, segment.attempt]
    ]


def _compact(path: Path, segment: Segment) -> Iterator[str]:
    from chiplog.store.parts import compaction  # needs pyarrow, which the help does without

    file = path / layout.JOURNAL / segment.filename
    if compaction.compact(path, segment):
        after = sum(part.stat().st_size for part in (path / layout.PARTS).glob(f"{segment.stem}.*.parquet"))
        yield _sizes(file.stat().st_size, after)


def _prune(path: Path, segment: Segment) -> Iterator[str]:
    from chiplog.store.parts import compaction

    file = path / layout.JOURNAL / segment.filename
    if not file.exists():
        return
    before = file.stat().st_size
    if (reason := kept(path, segment, before)) is not None:
        yield f"journal kept: {reason}"
    elif compaction.prune(path, segment):
        yield f"journal {_sizes(before, file.with_name(f'{file.name}.zst').stat().st_size)}"


def kept(path: Path, segment: Segment, size: int) -> str | None:
    """Why a segment must stay as it is; None if it may be compressed."""
    from chiplog.store.parts.part import load

    states = {(one.rank, one.attempt): one.state for one in state.attempts(path)}
    if (attempt_state := states.get((segment.rank, segment.attempt), "lost")) not in OVER:
        return f"its attempt is {attempt_state}"
    part = load(path, segment)
    if part is None:
        return "its part cannot be read"
    if part.about.covers != size:
        return f"its part covers {display.count(part.about.covers)} of {display.count(size)} bytes"
    waiting = [sink.name for sink in cursors(path) if sink.needs(segment, size)]
    return f"not yet delivered to {', '.join(waiting)}" if waiting else None


def _sizes(before: int, after: int) -> str:
    ratio = f"{before / after:.1f}x smaller" if before >= after > 0 else f"{after / max(1, before):.1f}x larger"
    return f"{display.size(before)} -> {display.size(after)}  {ratio}"
