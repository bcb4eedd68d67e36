"""A process that compacts the segments that another one names on stdin, until that closes it or ends."""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec

from chiplog.commands.compact.segments import work_on
from chiplog.commands.compact.workers import Answer
from chiplog.store.layout import Segment


def work(run: Path, *, prune: bool) -> None:
    """Answer every segment with a line: what was done, or why it failed."""
    for line in sys.stdin.buffer:
        segment = Segment(*msgspec.json.decode(line, type=tuple[int, int, int]))
        try:
            answer = Answer(segment, work_on(run, segment, prune=prune))
        except OSError as error:
            answer = Answer(segment, error=error.strerror or str(error))
        sys.stdout.buffer.write(msgspec.json.encode(answer) + b"\n")
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    work(Path(sys.argv[1]), prune="--prune" in sys.argv[2:])
