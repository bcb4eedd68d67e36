"""The progress of compacting a large run."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from chiplog.commands.compact.progress import LONG, WIPE, CompactionProgress
from chiplog.store.layout import Segment

SIZES = {Segment(0, 1, 0): LONG, Segment(0, 1, 1): 3 * LONG}


@contextmanager
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """The other end of a terminal that is stderr."""
    outer, inner = os.openpty()
    os.set_blocking(outer, False)
    with os.fdopen(inner, "w") as file, monkeypatch.context() as patch:
        patch.setattr(sys, "stderr", file)
        yield outer
    os.close(outer)


def test_a_terminal_shows_how_much_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    """By bytes of the journal, and how long the rest will take; the line is wiped for other output."""
    with terminal(monkeypatch) as screen:
        progress = CompactionProgress("p/run", SIZES, quiet=False)
        progress.show()
        assert os.read(screen, 1000).decode().endswith("p/run  compacting 128.0 MiB  0%")
        progress.add(Segment(0, 1, 0))
        progress.show()
        text = os.read(screen, 1000).decode()
        assert "  25%  " in text and text.endswith(" left")
        with progress.wiped():
            assert os.read(screen, 1000).decode() == WIPE


def test_nothing_is_shown_if_nobody_waits(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Short work, `--quiet`, and output that is not a terminal."""
    with terminal(monkeypatch) as screen:
        CompactionProgress("p/run", SIZES, quiet=True).show()
        CompactionProgress("p/run", {Segment(0, 1, 0): 1000}, quiet=False).show()
        with pytest.raises(BlockingIOError):
            os.read(screen, 1000)
    CompactionProgress("p/run", SIZES, quiet=False).show()
    assert capsys.readouterr().err == ""
