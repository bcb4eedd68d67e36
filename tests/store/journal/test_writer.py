"""The journal: what is on disk when `append` returns, and what happens when the disk refuses it."""

from __future__ import annotations

import errno
import os
import resource
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from chiplog.core import records
from chiplog.store import layout
from chiplog.store.journal import backlog, lines, segment_file, writer
from chiplog.store.journal.writer import Journal


def step(seq: int, **metrics: float) -> records.Step:
    return records.Step(seq, seq, seq, dict(metrics) or {"loss": 1.0})


def make(run: Path, durability: str = "process", wake: Callable[[], None] = lambda: None) -> Journal:
    segment, fd = segment_file.open_attempt(run, 0)
    return Journal(run, segment, fd, durability=durability, wake=wake)


def seqs(run: Path) -> list[int]:
    found = []
    for segment in layout.segments(run):
        found += [record.seq for record in lines.Scanner(run / "journal" / segment.filename).read()]
    return found


@pytest.mark.parametrize("durability", ["process", "disk"])
def test_a_record_is_in_the_file_when_append_returns(tmp_path: Path, durability: str) -> None:
    """Nothing waits in the process."""
    journal = make(tmp_path, durability)
    journal.append(step(0))
    assert seqs(tmp_path) == [0]


def test_a_relaxed_journal_writes_in_the_background(tmp_path: Path) -> None:
    """The caller only leaves the record in memory."""
    journal = make(tmp_path, "relaxed")
    journal.append(step(0))
    assert seqs(tmp_path) == [] and journal.waiting == 1
    assert journal.maintain() <= 0.5
    assert seqs(tmp_path) == [0] and journal.waiting == 0


def test_the_next_segment_begins_when_one_is_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And no record is lost or doubled at the border, whoever writes meanwhile."""
    monkeypatch.setattr(segment_file, "SEGMENT_BYTES", 20_000)
    journal = make(tmp_path)
    threads = [
        threading.Thread(target=lambda n=n: [journal.append(step(n * 1000 + i)) for i in range(500)]) for n in range(4)
    ]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        journal.maintain()
    journal.maintain()
    journal.append(step(9999))
    assert len(layout.segments(tmp_path)) > 1
    assert sorted(seqs(tmp_path)) == sorted([n * 1000 + i for n in range(4) for i in range(500)] + [9999])


class Disk:
    """Stands between the journal and the file system; `fail` and `cut` make it refuse or take only a part."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.fail = 0
        self.cut = 0
        self._write = os.write
        monkeypatch.setattr(os, "write", self)

    def __call__(self, fd: int, data: bytes) -> int:
        if self.fail:
            raise OSError(self.fail, os.strerror(self.fail))
        return self._write(fd, data[: self.cut] if self.cut else data)


def test_a_refused_record_is_written_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One message when it fails, one when it works again, and the callers write for themselves afterwards."""
    woken: list[int] = []
    journal = make(tmp_path, wake=lambda: woken.append(1))
    disk = Disk(monkeypatch)
    journal.append(step(0))
    disk.fail = errno.ENOSPC
    for seq in range(1, 5):
        journal.append(step(seq))
    assert woken and journal.maintain() <= 0.5 and journal.trouble
    journal.maintain()
    disk.fail = 0
    journal.maintain()
    journal.append(step(5))
    assert seqs(tmp_path) == [0, 1, 2, 3, 4, 5] and journal.dropped == 0 and journal.trouble is None
    said = capsys.readouterr().err
    assert said.count("No space left") == 1 and said.count("can be written again") == 1


def test_a_half_written_record_is_written_again_behind_a_newline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file is never truncated; the torn line is skipped when it is read."""
    journal = make(tmp_path)
    disk = Disk(monkeypatch)
    journal.append(step(0))
    disk.cut = 20
    journal.append(step(1))
    disk.cut = 0
    journal.maintain()
    assert seqs(tmp_path) == [0, 1]


@pytest.mark.parametrize("durability", ["process", "relaxed"])
def test_a_record_torn_at_any_byte_is_there_once(tmp_path: Path, durability: str) -> None:
    """Whatever the file's limit leaves of a record, of all of it or of its newline only: it is read once."""
    journal = make(tmp_path, durability)
    path = tmp_path / "journal" / journal.segment.filename
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    written = 0
    for lacking in range(100):
        room = max(0, len(lines.line_of(step(written))) - lacking)
        try:
            resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + room, limits[1]))
            journal.append(step(written))
            journal.append(step(written + 1))
            journal.maintain()
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        written += 2
        journal.maintain()
        assert seqs(tmp_path) == list(range(written)), lacking
    assert journal.dropped == journal.waiting == 0


def test_the_backlog_is_bounded_and_what_does_not_fit_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kept and dropped add up to what was logged."""
    monkeypatch.setattr(backlog, "SLOTS", 100)
    journal = make(tmp_path)
    disk = Disk(monkeypatch)
    disk.fail = errno.EIO
    for seq in range(250):
        journal.append(step(seq))
    disk.fail = 0
    journal.maintain()
    assert len(seqs(tmp_path)) + journal.dropped == 250
    assert journal.dropped > 100


def test_a_background_thread_without_a_turn_costs_no_record(tmp_path: Path) -> None:
    """The backlog is full because other threads are busy, and no write is in progress: then the caller writes."""
    journal = make(tmp_path)
    journal._direct, journal._backlog._slots, journal._last_write = False, 3, time.monotonic() - 60
    for seq in range(10):
        journal.append(step(seq))
    assert journal.dropped == 0
    journal.maintain()
    assert sorted(seqs(tmp_path)) == list(range(10))
    journal._direct, journal._last_write = False, time.monotonic() - 60
    journal._writing = time.monotonic() - 60  # the background thread waits for a disk that has stalled
    for seq in range(10, 20):
        journal.append(step(seq))
    assert journal.dropped == 7


def test_the_reserve_makes_room_for_the_last_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a full disk the finish record goes where the reserve was, first of all that waits."""
    journal = make(tmp_path)
    disk = Disk(monkeypatch)
    disk.fail = errno.ENOSPC
    for seq in range(3):
        journal.append(step(seq))
    reserve = tmp_path / "journal" / "r00000.reserve"
    assert reserve.stat().st_size == segment_file.RESERVE_BYTES
    real_unlink = os.unlink

    def unlink(path: str, *, dir_fd: int | None = None) -> None:
        disk.fail = 0 if path == reserve.name else disk.fail
        real_unlink(path, dir_fd=dir_fd)

    monkeypatch.setattr(os, "unlink", unlink)
    journal.close(records.Finish(3, 3, "finished"))
    assert seqs(tmp_path) == [3, 0, 1, 2] and not reserve.exists()


def test_records_lost_on_a_full_disk_are_lost_for_that_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """That the last ones fit where the reserve was does not mean that the disk has space again."""
    journal = make(tmp_path)
    disk = Disk(monkeypatch)
    disk.fail = errno.ENOSPC
    for seq in range(3000):
        journal.append(step(seq))
    real_unlink = Path.unlink

    def unlink(path: Path, missing_ok: bool = False) -> None:
        disk.fail = 0
        real_unlink(path, missing_ok)

    monkeypatch.setattr(Path, "unlink", unlink)
    journal.close(records.Finish(3000, 3000, "finished"))
    assert journal.dropped > 0 and journal.trouble == "No space left on device"
    assert "can be written again" not in capsys.readouterr().err


def test_a_deleted_segment_is_written_again_with_all_it_held(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The open file still has the records; they are saved under the old name."""
    journal = make(tmp_path)
    journal.append(step(0))
    for path in (tmp_path / "journal").iterdir():
        path.unlink()
    (tmp_path / "journal").rmdir()
    journal.append(step(1))
    journal.maintain()
    journal.append(step(2))
    assert seqs(tmp_path) == [0, 1, 2]
    assert "was deleted" in capsys.readouterr().err


def test_a_slow_write_hands_over_to_the_background_and_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One slow write per episode: the next records do not wait for the disk."""
    journal = make(tmp_path)
    clock = [0]
    slow = [True]
    monkeypatch.setattr(writer.time, "monotonic_ns", lambda: clock[0])
    real = os.write

    def write(fd: int, data: bytes) -> int:
        clock[0] += 200_000_000 if slow[0] else 1000
        return real(fd, data)

    monkeypatch.setattr(os, "write", write)
    journal.append(step(0))
    journal.append(step(1))
    journal.append(step(2))
    assert journal.waiting == 2
    journal.maintain()
    journal.append(step(3))
    assert journal.waiting == 1, "the background write was slow too"
    slow[0] = False
    journal.maintain()
    journal.append(step(4))
    assert journal.waiting == 0 and seqs(tmp_path) == [0, 1, 2, 3, 4]


def test_a_last_record_without_its_newline_is_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk takes all of it but the newline, and nothing ever after: no reader can use it, so it is missing."""
    journal = make(tmp_path)
    real = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: real(fd, data[:-1]))
    journal.append(step(0))

    def refuse(fd: int, data: bytes) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "write", refuse)
    journal.close(records.Finish(1, 1, "finished"), timeout=0.1)
    monkeypatch.undo()
    assert seqs(tmp_path) == [] and journal.dropped == 2
