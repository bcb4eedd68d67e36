"""Processes that compact the segments of a large run side by side, for a person who waits."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path
from select import select
from typing import IO, NamedTuple

import msgspec

from chiplog.store.layout import Segment

MOST = 2  # processes; each takes up to 256 MB
LARGE = 32 << 20  # bytes of journal; less is compacted before another process has started
TICK = 0.5  # s


class Answer(NamedTuple):
    """What a worker reports about a segment: lines to print, or why it failed."""

    segment: Segment
    lines: Sequence[str] = ()
    error: str = ""


def side_by_side(run: Path, segments: Sequence[Segment], *, prune: bool) -> Iterator[Answer | None]:
    """Compact segments in several processes, which end with this one; yields None now and then while it waits."""
    waiting, busy = deque(segments), dict[IO[bytes], tuple[subprocess.Popen[bytes], Segment]]()
    workers = [_start(run, prune=prune) for _ in range(min(MOST, len(segments)))]
    try:
        for worker in workers:
            _give(worker, waiting, busy)
        while busy:
            answered = select(list(busy), [], [], TICK)[0]
            for pipe in answered:
                worker, segment = busy.pop(pipe)
                line = pipe.readline()
                if line:
                    _give(worker, waiting, busy)
                    yield msgspec.json.decode(line, type=Answer)
                else:
                    yield Answer(segment, error="its process has ended")
            if not answered:
                yield None
        yield from (Answer(segment, error="all processes have ended") for segment in waiting)
    finally:
        for worker in workers:
            assert worker.stdin is not None and worker.stdout is not None
            worker.stdin.close()
            worker.wait()
            worker.stdout.close()


def worth_it(size: int, count: int) -> bool:
    """Whether so many segments of this size together are compacted sooner by several processes."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return size >= LARGE and count > 1 and cores > 1


def _start(run: Path, *, prune: bool) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "chiplog.commands.compact.worker", os.fspath(run), *(["--prune"] if prune else [])]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)


def _give(
    worker: subprocess.Popen[bytes],
    waiting: deque[Segment],
    busy: dict[IO[bytes], tuple[subprocess.Popen[bytes], Segment]],
) -> None:
    if waiting:
        assert worker.stdin is not None and worker.stdout is not None
        segment = waiting.popleft()
        try:
            worker.stdin.write(msgspec.json.encode(segment) + b"\n")
        except BrokenPipeError:  # it has just ended, which its pipe tells too
            pass
        busy[worker.stdout] = worker, segment
