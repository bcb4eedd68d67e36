"""The append file."""

import os
import resource
import signal

import pytest

from chiplog.sinks.shared.append_file import AppendFile, keep_aside


def test_a_file_grows_and_can_be_cut_back(tmp_path):
    """What is appended stands before the tail, and a cut brings back what was there."""
    file = AppendFile(tmp_path / "deep" / "file", tail=b"]")
    file.append(b"[1")
    size = file.size
    file.append(b",2")
    assert file.path.read_bytes() == b"[1,2]"
    file.cut(size)
    assert file.path.read_bytes() == b"[1]"
    file.close()
    file.append(b",3")
    assert file.path.read_bytes() == b"[1,3]"


def test_files_are_private(tmp_path):
    """In the directory of a run, nobody else can read the file or the directory made for it."""
    (tmp_path / "journal").mkdir()
    (tmp_path / "journal" / "r00000-a01-0000.jsonl").touch()
    file = AppendFile(tmp_path / "deep" / "file")
    file.append(b"x")
    file.replace([b"y"])
    assert file.path.stat().st_mode & 0o777 == 0o600
    assert file.path.parent.stat().st_mode & 0o777 == 0o700


def test_a_write_that_fails_leaves_the_file_as_it_was(tmp_path):
    """When the disk takes only a part, that part is taken back and the error is raised."""
    file = AppendFile(tmp_path / "file", tail=b"]")
    file.append(b"[1")
    old = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, limits[1]))
        with pytest.raises(OSError):
            file.append(b"," + b"2" * 200)
        assert file.path.read_bytes() == b"[1]"
        with pytest.raises(OSError):
            file.replace([b"3" * 200])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, old)
    assert os.listdir(tmp_path) == ["file"]
    file.append(b",2")
    assert file.path.read_bytes() == b"[1,2]"


def test_replacing_is_by_rename(tmp_path):
    """Who has the old file open still sees all of it."""
    file = AppendFile(tmp_path / "file")
    file.append(b"old")
    with file.path.open("rb") as reader:
        file.replace([b"n", b"ew"])
        assert reader.read() == b"old"
    file.append(b"er")
    assert file.path.read_bytes() == b"newer"


def test_a_file_is_restored_only_if_it_is_long_enough(tmp_path):
    """One that is shorter than it was stays as it is, for the sink to decide."""
    file = AppendFile(tmp_path / "file")
    file.append(b"12345")
    assert file.restore(3) and file.path.read_bytes() == b"123"
    assert not file.restore(4) and file.path.read_bytes() == b"123"
    file.path.unlink()
    file.path.write_bytes(b"another")
    assert file.restore(2)
    file.append(b"!")
    assert file.path.read_bytes() == b"an!"


def test_a_file_is_kept_aside_under_the_next_number(tmp_path, capsys):
    """Unless it is empty or not there."""
    path = tmp_path / "x.csv"
    keep_aside(path)
    path.touch()
    keep_aside(path)
    (tmp_path / "x.1.csv").touch()
    path.write_text("1")
    keep_aside(path)
    assert sorted(one.name for one in tmp_path.iterdir()) == ["x.1.csv", "x.2.csv"]
    assert "the old file is now x.2.csv" in capsys.readouterr().err


def test_a_replacement_that_a_killed_writer_left_is_removed(tmp_path):
    """A new replacement removes what a killed writer of the same file has left beside it, and nothing else."""
    left, other = tmp_path / ".0123456789abcdef.metrics.csv", tmp_path / ".0123456789abcdef.table.csv"
    for path in (left, other):
        path.write_bytes(b"half")
    file = AppendFile(tmp_path / "metrics.csv")
    file.replace([b"a,b\n"])
    file.close()
    assert {path.name for path in tmp_path.iterdir()} == {"metrics.csv", other.name}
