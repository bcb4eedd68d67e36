"""Local and network file systems: durability, tries at the start, and private directories."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from chiplog.core.errors import Unwritable
from chiplog.store.journal import file_systems


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


def test_a_network_file_system_is_recognized_by_its_type() -> None:
    """Only a file system with a server may fail to answer."""
    assert file_systems.has_network("/dev/sda / ext4 rw 0 0\nserver:/x /data nfs4 rw 0 0\n")
    assert not file_systems.has_network("/dev/sda / ext4 rw 0 0\nodd line\n")


def test_a_disk_that_refuses_for_a_moment_is_tried_again(tmp_path: Path) -> None:
    """`init` survives a short refusal, and reports a lasting one with the way out."""
    refusals = [OSError(errno.EIO, "Input/output error")]

    def write() -> str:
        if refusals:
            raise refusals.pop()
        return "written"

    assert file_systems.patiently(tmp_path, write) == "written"

    def refuse() -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    with pytest.raises(Unwritable, match=r"Read-only file system; choose another directory with CHIPLOG_DIR"):
        file_systems.patiently(tmp_path, refuse, means="CHIPLOG_DIR")


def test_a_check_leaves_only_the_directory_above_the_run(tmp_path: Path) -> None:
    """The run itself is created by the journal."""
    file_systems.check(tmp_path / "project" / "run")
    assert [path.name for path in tmp_path.rglob("*")] == ["project"]


def test_a_temporary_directory_is_private(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For a front end whose own directory cannot be written."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    folder = file_systems.temporary()
    assert folder is not None and Path(folder).parent == tmp_path and Path(folder).stat().st_mode & 0o77 == 0
