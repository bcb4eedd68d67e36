"""Turn closed journals into Parquet.

With `--prune`, journals that are finished and delivered are compressed to `.jsonl.zst`.
"""

from __future__ import annotations

import os
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from chiplog.commands.compact.progress import CompactionProgress
from chiplog.commands.compact.workers import Answer, side_by_side, worth_it
from chiplog.core import display, messages
from chiplog.core.operating_system import check_writes
from chiplog.core.paths import cache_dir
from chiplog.store import layout
from chiplog.store.layout import Segment
from chiplog.store.runs import access, find

WorkOn = Callable[..., list[str]]

EXAMPLE = "chiplog compact latest --prune"


def arguments(parser: ArgumentParser) -> None:
    parser.add_argument("runs", nargs="*", metavar="RUN", help="the runs (default: all)")
    parser.add_argument("--prune", action="store_true", help="also compress journals that are finished and delivered")
    parser.add_argument("--quiet", action="store_true", help="print only errors")
    parser.add_argument(
        "--beside", action="store_true", help="run at low priority, one compaction at a time per machine"
    )


def run(args: Namespace) -> int:
    check_writes("run `chiplog compact` in WSL, or where they were written")
    chosen = find.select(args.runs, args.root) or [
        path
        for path in layout.find_runs(args.root)
        if os.access(path, os.W_OK)  # others' runs are theirs to compact
    ]
    if not args.beside:
        return _compact(chosen, args)
    with turn(cache_dir(args.environ)):
        return _compact(chosen, args)


def _compact(chosen: Sequence[Path], args: Namespace) -> int:
    from chiplog.commands.compact import segments  # needs pyarrow, which the help does without

    code, done = 0, 0
    for path in chosen:
        label = f"{path.parent.name}/{path.name}"
        if not os.access(path, os.W_OK):
            messages.say(f"{label}: not writable: {access.reason(path)}")
            code = 2
            continue
        with segments.claimed(path, args.quiet) as claim:
            while claim is not None and (fresh := claim.fresh()):
                progress = CompactionProgress(label, fresh, quiet=args.quiet)
                for answer in _work(path, fresh, args, segments.work_on):
                    claim.renew()
                    if answer is not None:
                        progress.add(answer.segment)
                        with progress.wiped():
                            done += len(answer.lines)
                            code = max(code, _report(path, answer, args.quiet))
                    progress.show()
                with progress.wiped():
                    pass
    if not done and not code and not args.quiet:
        print(f"nothing to compact in {display.counted(len(chosen), 'run')} under {args.root}")
    return code


def _work(path: Path, fresh: Mapping[Segment, int], args: Namespace, work_on: WorkOn) -> Iterator[Answer | None]:
    """Compact segments: side by side if there are many and a person waits, otherwise one after the other."""
    if not args.beside and not args.quiet and worth_it(sum(fresh.values()), len(fresh)):
        yield from side_by_side(path, list(fresh), prune=args.prune)
        return
    for segment in fresh:
        yield None
        try:
            yield Answer(segment, work_on(path, segment, prune=args.prune))
        except OSError as error:
            yield Answer(segment, error=error.strerror or str(error))


def _report(path: Path, answer: Answer, quiet: bool) -> int:
    """Print what was done with a segment, or why not; returns the exit code."""
    if answer.error:
        messages.say(f"{path / layout.JOURNAL / answer.segment.filename}: {answer.error}")
        return 2
    if not quiet:
        for line in answer.lines:
            print(messages.clean(f"{path.parent.name}/{path.name}  {answer.segment.stem}  {line}"), flush=True)
    return 0


@contextmanager
def turn(folder: Path) -> Iterator[None]:
    """Wait until no other process is inside, if that can be known. The priority stays low afterwards."""
    try:
        import fcntl

        os.nice(19)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        fd = os.open(folder / "compact.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except (OSError, ImportError):
        yield
        return
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)  # released when the process ends, however it ends
        yield
    finally:
        os.close(fd)
