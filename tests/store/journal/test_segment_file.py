"""The file of a segment: who may read it, what is torn, and what follows it."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from chiplog.store import layout
from chiplog.store.journal import segment_file
from chiplog.store.journal.segment_file import SegmentFile, open_attempt


def make(run: Path) -> SegmentFile:
    segment, fd = open_attempt(run, 0)
    return SegmentFile(run, segment, fd, sync_each=False)


def test_files_are_for_the_owner_only(tmp_path: Path) -> None:
    """Directories 0700, files 0600."""
    make(tmp_path / "run")
    assert stat.S_IMODE((tmp_path / "run").stat().st_mode) == 0o700
    for path in (tmp_path / "run" / "journal").iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_two_writers_get_a_file_each(tmp_path: Path) -> None:
    """Nothing is overwritten."""
    first, second = make(tmp_path), make(tmp_path)
    first.write(b"first\n")
    second.write(b"second\n")
    assert [segment.attempt for segment in layout.segments(tmp_path)] == [1, 2]
    assert first.path.read_bytes() == b"first\n" and second.path.read_bytes() == b"second\n"


def test_a_torn_line_is_written_again_after_a_newline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The lines before it are not repeated."""
    file = make(tmp_path)
    real = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: real(fd, data[:7]))
    left, why = file.write_lines([b"one\n", b"second\n", b"three\n"])
    assert left == [b"second\n", b"three\n"] and why and file.torn
    monkeypatch.undo()
    assert file.write_lines(left) == ([], "")
    assert file.path.read_bytes() == b"one\nsec\nsecond\nthree\n" and not file.torn


def test_only_a_missing_newline_is_not_a_torn_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The record is on disk; it lacks the newline, which the next write starts with."""
    file = make(tmp_path)
    real = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: real(fd, data[:3]))
    assert file.write_lines([b"one\n"])[0] == [b""]
    monkeypatch.undo()
    file.write_lines([b"", b"two\n"])
    assert file.path.read_bytes() == b"one\ntwo\n"


def test_a_full_segment_is_followed_by_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Under the same descriptor, so that a write in flight cannot hit another file."""
    monkeypatch.setattr(segment_file, "SEGMENT_BYTES", 10)
    file = make(tmp_path)
    fd = file.fd
    file.write(b"ten bytes\n")
    file.maintain()
    file.write(b"next\n")
    assert file.fd == fd and file.segment.number == 1 and file.path.read_bytes() == b"next\n"
    assert file.fsync()


def test_a_forked_child_lets_go_of_the_file(tmp_path: Path) -> None:
    """Its descriptor is closed, and a late write fails instead of hitting another file."""
    file = make(tmp_path)
    file.forget()
    with pytest.raises(OSError, match="Bad file descriptor"):
        file.write(b"late\n")
