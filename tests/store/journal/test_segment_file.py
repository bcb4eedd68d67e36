"""The file of a segment: who may read it, what is torn, and what follows it."""

from __future__ import annotations

import os
import stat
from bisect import bisect
from itertools import accumulate
from pathlib import Path

import pytest

from chiplog.core import records
from chiplog.store import layout
from chiplog.store.journal import segment_file
from chiplog.store.journal.lines import Scanner, line_of
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


def test_an_old_segment_is_followed_by_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Unless it is too short to be worth compacting; the next one is young again."""
    monkeypatch.setattr(segment_file, "ENOUGH", 10)
    file = make(tmp_path)
    file.write(b"ten bytes\n")
    file.maintain()
    assert file.segment.number == 0, "young"
    monkeypatch.setattr(segment_file, "SEGMENT_SECONDS", 0.0)
    file.maintain()
    file.write(b"short\n")
    file.maintain()
    assert file.segment.number == 1, "not again"
    monkeypatch.setattr(segment_file, "SEGMENT_SECONDS", 3600.0)
    file.write(b"ten bytes\n")
    file.maintain()
    assert file.segment.number == 1


def test_a_week_of_training_has_few_segments() -> None:
    """10 GB are some hundred files, a hundred times as much some thousand; a short run closes them early."""
    sizes = [segment_file.full(number) for number in range(20_000)]
    assert sizes[0] == 8 << 20 and sizes[-1] == 64 << 20 and sizes == sorted(sizes)
    ends = list(accumulate(sizes))
    assert bisect(ends, 10**10) < 500 and bisect(ends, 10**12) < 20_000
    weeks_worth = 7 * 86400 / segment_file.SEGMENT_SECONDS  # of a run so slow that time closes them all
    assert weeks_worth < 500


def test_a_forked_child_lets_go_of_the_file(tmp_path: Path) -> None:
    """Its descriptor is closed, and a late write fails instead of hitting another file."""
    file = make(tmp_path)
    file.forget()
    with pytest.raises(OSError, match="Bad file descriptor"):
        file.write(b"late\n")


def test_a_record_without_its_newline_gets_it_before_the_next_segment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A whole record at the end of a segment is readable, although the write of its newline failed."""
    file = make(tmp_path)
    real = os.write
    line = line_of(records.Step(0, 0, 1, {"x": 1.0}))
    monkeypatch.setattr(os, "write", lambda fd, data: real(fd, data[:-1]))
    assert file.write_lines([line])[0] == [b""]
    monkeypatch.undo()
    monkeypatch.setattr(segment_file, "SEGMENT_BYTES", 10)
    file.maintain()
    file.write_lines([b"", line_of(records.Step(1, 1, 2, {"x": 2.0}))])
    assert file.segment.number == 1
    assert [
        record.seq for number in (0, 1) for record in Scanner(tmp_path / f"journal/r00000-a01-000{number}.jsonl").read()
    ] == [0, 1]
