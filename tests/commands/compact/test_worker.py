"""A process that compacts the segments that another one names."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from chiplog.commands.compact.workers import Answer
from chiplog.store import layout
from chiplog.store.layout import Segment

FIRST, ABSENT = Segment(0, 1, 0), Segment(0, 9, 0)


def answers(run: Path, *segments: Segment, prune: bool = False) -> list[Answer]:
    """What a worker answers before its input ends."""
    words = [sys.executable, "-m", "chiplog.commands.compact.worker", str(run), *(["--prune"] if prune else [])]
    named = b"".join(msgspec.json.encode(segment) + b"\n" for segment in segments)
    done = subprocess.run(words, input=named, stdout=subprocess.PIPE, timeout=60, check=True)
    return [msgspec.json.decode(line, type=Answer) for line in done.stdout.splitlines()]


def test_every_segment_has_an_answer(path: Path) -> None:
    """A line about what was done, nothing for what is done already, and the reason for what cannot be read."""
    done, again, absent = answers(path, FIRST, FIRST, ABSENT)
    assert done.segment == FIRST and "->" in done.lines[0] and not done.error
    assert (again.lines, again.error) == ([], "")
    assert absent.segment == ABSENT and absent.error == "No such file or directory"
    assert layout.has_part(path, FIRST)


@pytest.mark.parametrize("prune", [False, True])
def test_a_journal_is_compressed_if_asked(path: Path, prune: bool) -> None:
    """With another line about it."""
    (one,) = answers(path, FIRST, prune=prune)
    assert len(one.lines) == 1 + prune
    compressed = (path / "journal" / f"{FIRST.filename}.zst").exists()
    assert compressed == prune == one.lines[-1].startswith("journal ")


def test_without_a_segment_there_is_nothing_to_do(path: Path) -> None:
    """It ends with its input, and leaves the run as it was."""
    assert answers(path) == [] and not layout.has_part(path, FIRST)
