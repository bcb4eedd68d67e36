"""Faults at system calls, injected by strace into a trainer's calls on its own journal."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from .harness import Trainer

SEGMENT = "journal/r00000-a01-{:04d}.jsonl"
SEGMENTS = 130  # more than any trainer here begins


def segments(folder: Path, count: int = 1) -> tuple[Path, ...]:
    """Where a trainer that runs in `folder` will have its segments."""
    return tuple(folder / "runs" / "faults" / "run" / SEGMENT.format(number) for number in range(count))


def strace(folder: Path, call: str, fault: str, paths: tuple[Path, ...] = ()) -> tuple[str, ...]:
    """The words that make a trainer's calls on its journal fail. The N-th call is that of each thread."""
    program = shutil.which("strace")
    if program is None:
        pytest.skip("strace is not installed")
    if subprocess.run([program, "-f", "-o", "/dev/null", "true"], capture_output=True, check=False).returncode:
        pytest.skip("strace is not allowed to trace here")
    only = (word for path in paths or segments(folder) for word in ("-P", str(path)))
    return (program, "-f", "-o", str(folder / "trace"), "-e", f"trace={call}", "-e", f"inject={call}:{fault}", *only)


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
