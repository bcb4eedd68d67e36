"""The journal: what is on disk when `append` returns, and what happens when the disk does not want it."""

from __future__ import annotations

import errno
import os
import resource
import stat
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from chiplog.core import records
from chiplog.store import layout
from chiplog.store.journal import file_systems, lines, writer
from chiplog.store.journal.writer import Journal


def step(seq: int, **metrics: float) -> records.Step:
    return records.Step(seq, seq, seq, dict(metrics) or {"loss": 1.0})


def make(run: Path, durability: str = "process", wake: Callable[[], None] = lambda: None) -> Journal:
    segment, fd = writer.open_attempt(run, 0)
    return Journal(run, segment, fd, durability=durability, wake=wake)


def seqs(run: Path) -> list[int]:
    found = []
    for segment in layout.segments(run):
        found += [record.seq for record in lines.Scanner(run / "journal" / segment.filename).read()]
    return found


@pytest.mark.parametrize("durability", ["process", "disk"])
def test_a_record_is_in_the_file_when_append_returns(tmp_path: Path, durability: str) -> None:
    """Nothing waits in the process."""
    pages = make(tmp_path, durability)
    pages.append(step(0))
    assert seqs(tmp_path) == [0]


def test_a_relaxed_journal_writes_when_it_is_tended(tmp_path: Path) -> None:
    """The caller only leaves the record in memory."""
    pages = make(tmp_path, "relaxed")
    pages.append(step(0))
    assert seqs(tmp_path) == [] and pages.waiting == 1
    assert pages.tend() <= 0.5
    assert seqs(tmp_path) == [0] and pages.waiting == 0


def test_files_are_for_the_owner_only(tmp_path: Path) -> None:
    """Directories 0700, files 0600."""
    make(tmp_path / "run")
    assert stat.S_IMODE((tmp_path / "run").stat().st_mode) == 0o700
    for path in (tmp_path / "run" / "journal").iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_two_writers_get_a_file_each(tmp_path: Path) -> None:
    """Nothing is overwritten."""
    first, second = make(tmp_path), make(tmp_path)
    first.append(step(0))
    second.append(step(0))
    assert [segment.attempt for segment in layout.segments(tmp_path)] == [1, 2]


def test_the_next_segment_begins_when_one_is_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And no record is lost or doubled at the border, whoever writes meanwhile."""
    monkeypatch.setattr(writer, "SEGMENT_BYTES", 20_000)
    pages = make(tmp_path)
    threads = [
        threading.Thread(target=lambda n=n: [pages.append(step(n * 1000 + i)) for i in range(500)]) for n in range(4)
    ]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        pages.tend()
    pages.tend()
    pages.append(step(9999))
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
    pages = make(tmp_path, wake=lambda: woken.append(1))
    disk = Disk(monkeypatch)
    pages.append(step(0))
    disk.fail = errno.ENOSPC
    for seq in range(1, 5):
        pages.append(step(seq))
    assert woken and pages.tend() <= 0.5 and pages.trouble
    pages.tend()
    disk.fail = 0
    pages.tend()
    pages.append(step(5))
    assert seqs(tmp_path) == [0, 1, 2, 3, 4, 5] and pages.dropped == 0 and pages.trouble is None
    said = capsys.readouterr().err
    assert said.count("No space left") == 1 and said.count("can be written again") == 1


def test_a_half_written_record_is_written_again_behind_a_newline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file is never truncated; the torn line is skipped when it is read."""
    pages = make(tmp_path)
    disk = Disk(monkeypatch)
    pages.append(step(0))
    disk.cut = 20
    pages.append(step(1))
    disk.cut = 0
    pages.tend()
    assert seqs(tmp_path) == [0, 1]


@pytest.mark.parametrize("durability", ["process", "relaxed"])
def test_a_record_torn_at_any_byte_is_there_once(tmp_path: Path, durability: str) -> None:
    """Whatever the file's limit leaves of a record, of all of it or of its newline only: it is read once."""
    pages = make(tmp_path, durability)
    path = tmp_path / "journal" / pages.segment.filename
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    written = 0
    for lacking in range(100):
        room = max(0, len(lines.line_of(step(written))) - lacking)
        try:
            resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + room, limits[1]))
            pages.append(step(written))
            pages.append(step(written + 1))
            pages.tend()
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        written += 2
        pages.tend()
        assert seqs(tmp_path) == list(range(written)), lacking
    assert pages.dropped == pages.waiting == 0


def test_the_tail_is_bounded_and_what_does_not_fit_is_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kept and dropped add up to what was logged."""
    monkeypatch.setattr(writer, "TAIL_PLACES", 100)
    pages = make(tmp_path)
    disk = Disk(monkeypatch)
    disk.fail = errno.EIO
    for seq in range(250):
        pages.append(step(seq))
    disk.fail = 0
    pages.tend()
    assert len(seqs(tmp_path)) + pages.dropped == 250
    assert pages.dropped > 100


def test_a_keeper_that_gets_no_turn_costs_no_record(tmp_path: Path) -> None:
    """The tail is full because other threads are busy, and no write is under way: then the caller writes."""
    pages = make(tmp_path)
    pages._direct, pages._room, pages._took = False, 3, time.monotonic() - 60
    for seq in range(10):
        pages.append(step(seq))
    assert pages.dropped == 0
    pages.tend()
    assert sorted(seqs(tmp_path)) == list(range(10))
    pages._direct, pages._took = False, time.monotonic() - 60
    pages._writing = time.monotonic() - 60  # the keeper waits for a disk that has stalled
    for seq in range(10, 20):
        pages.append(step(seq))
    assert pages.dropped == 7


def test_the_reserve_makes_room_for_the_last_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a full disk the finish record goes where the reserve was, first of all that waits."""
    pages = make(tmp_path)
    disk = Disk(monkeypatch)
    disk.fail = errno.ENOSPC
    for seq in range(3):
        pages.append(step(seq))
    reserve = tmp_path / "journal" / "r00000.reserve"
    assert reserve.stat().st_size == writer.RESERVE_BYTES
    real_unlink = Path.unlink

    def unlink(path: Path, missing_ok: bool = False) -> None:
        disk.fail = 0 if path == reserve else disk.fail
        real_unlink(path, missing_ok)

    monkeypatch.setattr(Path, "unlink", unlink)
    pages.close(records.Finish(3, 3, "finished"))
    assert seqs(tmp_path) == [3, 0, 1, 2] and not reserve.exists()


def test_a_deleted_segment_is_written_anew_with_all_it_held(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The open file still has the records; they are saved under the old name."""
    pages = make(tmp_path)
    pages.append(step(0))
    for path in (tmp_path / "journal").iterdir():
        path.unlink()
    (tmp_path / "journal").rmdir()
    pages.append(step(1))
    pages.tend()
    pages.append(step(2))
    assert seqs(tmp_path) == [0, 1, 2]
    assert "was deleted" in capsys.readouterr().err


def test_a_slow_write_hands_over_to_the_keeper_and_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One slow write an episode: the next records do not wait for the disk."""
    pages = make(tmp_path)
    clock = [0]
    slow = [True]
    monkeypatch.setattr(writer.time, "monotonic_ns", lambda: clock[0])
    real = os.write

    def write(fd: int, data: bytes) -> int:
        clock[0] += 200_000_000 if slow[0] else 1000
        return real(fd, data)

    monkeypatch.setattr(os, "write", write)
    pages.append(step(0))
    pages.append(step(1))
    pages.append(step(2))
    assert pages.waiting == 2
    pages.tend()
    pages.append(step(3))
    assert pages.waiting == 1, "the keeper's own write was slow too"
    slow[0] = False
    pages.tend()
    pages.append(step(4))
    assert pages.waiting == 0 and seqs(tmp_path) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    ("mounts", "expected"),
    [
        ("/dev/sda / ext4 rw 0 0\n", ("process", "ext4")),
        ("/dev/sda / ext4 rw 0 0\nserver:/x /data nfs4 rw 0 0\n", ("relaxed", "nfs4")),
        ("/dev/sda / ext4 rw 0 0\nx /data lustre rw 0 0\ny /data/fast xfs rw 0 0\n", ("process", "xfs")),
        ("/dev/sda / ext4 rw 0 0\nsshfs /data fuse.sshfs rw 0 0\n", ("relaxed", "fuse.sshfs")),
        ("", ("process", "")),
    ],
)
def test_durability_follows_the_file_system(mounts: str, expected: tuple[str, str]) -> None:
    """The longest mount point that holds the path decides."""
    assert file_systems.default_durability(Path("/data/fast/runs"), mounts) == expected
