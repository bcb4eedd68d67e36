"""Faults at system calls, injected by strace into a trainer's calls on its own journal."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import pytest

from . import reference
from .harness import COUNTED, Trainer

SEGMENT = "journal/r00000-a01-{:04d}.jsonl"
SEGMENTS = 130  # more than any trainer here begins
RECORDS = 120  # of a trainer that runs TRAIN
NO_GIT = {"PATH": "/nowhere"}  # a start of git under strace would cost more than a whole case

# After every record the keeper has a turn. Where the border between segments is what is tested, each turn begins the
# next segment: opened, duplicated over the old one, which is synced and closed. Under strace on a busy machine a write
# may look slow, and would be handed to the keeper; that is another test.
TRAIN = (
    """
from chiplog.store.journal import segment_file, writer

durability, call, pause = sys.argv[3], sys.argv[4], int(sys.argv[5])
segment_file.BEAT, writer.SLOW = 0.0, 1 << 60
if call != "write":
    segment_file.SEGMENT_BYTES = 1
run = init(durability=durability)
turns = 0

def turn():
    global turns
    turns += 1
    return 60.0

def wait_for_turn():
    before, patience = turns, time.monotonic() + 10
    run._background.wake()
    while turns == before and time.monotonic() < patience:
        time.sleep(0.0005)

run._background.add(turn)
for n in range(120):
    if n == pause:
        ack(n)
        while not os.path.exists("go"):
            time.sleep(0.001)
    run.log({"i": n}, step=n)
    wait_for_turn()
    if call == "fsync":
        run.flush(fsync=True)
    ack(n)
print("finishing", file=sys.stderr, flush=True)
"""
    + COUNTED
)


def segments(folder: Path, count: int = 1) -> tuple[Path, ...]:
    """Where a trainer that runs in `folder` will have its segments."""
    return tuple(folder / "runs" / "faults" / "run" / SEGMENT.format(number) for number in range(count))


def strace(folder: Path, call: str, fault: str, paths: tuple[Path, ...] = ()) -> tuple[str, ...]:
    """The words that make a trainer's calls on its journal fail. The N-th call is that of each thread."""
    program = _program()
    # a segment after the first is opened by its name, relative to the directory
    only = (word for path in paths or segments(folder) for name in (str(path), path.name) for word in ("-P", name))
    return (program, "-f", "-o", str(folder / "trace"), "-e", f"trace={call}", "-e", f"inject={call}:{fault}", *only)


@cache
def _program() -> str:
    program = shutil.which("strace")
    if program is None:
        pytest.skip("strace is not installed")
    if subprocess.run([program, "-f", "-o", "/dev/null", "true"], capture_output=True, check=False).returncode:
        pytest.skip("strace is not allowed to trace here")
    return program


@contextmanager
def failing(victim: Trainer, folder: Path, call: str, fault: str, paths: tuple[Path, ...] = ()) -> Iterator[None]:
    """Let the calls of a running trainer on its journal fail, in all its threads, for as long as this lasts."""
    words = strace(folder, call, fault, paths)
    with subprocess.Popen([*words, "-p", str(victim.process.pid)], stderr=subprocess.PIPE, text=True) as tracer:
        assert tracer.stderr is not None
        first = tracer.stderr.readline()
        if "attached" not in first:
            pytest.skip(f"strace is not allowed to attach here: {first.strip()}")
        try:
            yield
        finally:
            tracer.terminate()  # it lets go of the trainer; if that has ended, so has this
            tracer.communicate(timeout=60)


def injected(folder: Path) -> int:
    """How many calls really failed."""
    return len(re.findall(r"\(INJECTED\)", (folder / "trace").read_text(errors="replace")))


def rows(run: Path) -> list[int]:
    return reference.series(run, "i")


def segments_of(run: Path) -> list[Path]:
    return list((run / "journal").glob("*.jsonl"))
