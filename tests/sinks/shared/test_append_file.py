"""The tape."""

import os
import resource
import signal

import pytest

from chiplog.sinks.shared.append_file import AppendFile


def test_a_tape_grows_and_can_be_cut_back(tmp_path):
    """What is appended stands before the tail, and a cut brings back what was there."""
    tape = AppendFile(tmp_path / "deep" / "file", tail=b"]")
    tape.append(b"[1")
    size = tape.size
    tape.append(b",2")
    assert tape.path.read_bytes() == b"[1,2]"
    tape.cut(size)
    assert tape.path.read_bytes() == b"[1]"
    tape.close()
    tape.append(b",3")
    assert tape.path.read_bytes() == b"[1,3]"


def test_files_are_private(tmp_path):
    """In the directory of a run, nobody else can read the file or the directory made for it."""
    (tmp_path / "journal").mkdir()
    (tmp_path / "journal" / "r00000-a01-0000.jsonl").touch()
    tape = AppendFile(tmp_path / "deep" / "file")
    tape.append(b"x")
    tape.replace([b"y"])
    assert tape.path.stat().st_mode & 0o777 == 0o600
    assert tape.path.parent.stat().st_mode & 0o777 == 0o700


def test_a_write_that_fails_leaves_the_file_as_it_was(tmp_path):
    """When the disk takes only a part, that part is taken back and the error is raised."""
    tape = AppendFile(tmp_path / "file", tail=b"]")
    tape.append(b"[1")
    old = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, limits[1]))
        with pytest.raises(OSError):
            tape.append(b"," + b"2" * 200)
        assert tape.path.read_bytes() == b"[1]"
        with pytest.raises(OSError):
            tape.replace([b"3" * 200])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, old)
    assert os.listdir(tmp_path) == ["file"]
    tape.append(b",2")
    assert tape.path.read_bytes() == b"[1,2]"


def test_replacing_is_by_rename(tmp_path):
    """Who has the old file open still sees all of it."""
    tape = AppendFile(tmp_path / "file")
    tape.append(b"old")
    with tape.path.open("rb") as reader:
        tape.replace([b"n", b"ew"])
        assert reader.read() == b"old"
    tape.append(b"er")
    assert tape.path.read_bytes() == b"newer"
