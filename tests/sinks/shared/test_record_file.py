"""The file of a record, for sinks that send it elsewhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from chiplog.core.records import File
from chiplog.sinks.shared import record_file


def test_a_file_and_a_folder_of_the_run_are_sent(tmp_path: Path) -> None:
    """One that has been deleted is not, without a word."""
    (tmp_path / "files" / "folder" / "deep").mkdir(parents=True)
    (tmp_path / "files" / "one").write_bytes(b"one")
    (tmp_path / "files" / "folder" / "deep" / "two").write_bytes(b"two")
    assert record_file.path_of(tmp_path, File(0, 0, "a", "files/one")) == tmp_path / "files" / "one"
    assert record_file.path_of(tmp_path, File(0, 0, "a", "files/folder")) == tmp_path / "files" / "folder"
    assert record_file.contents_of(tmp_path, File(0, 0, "a", "files/one")) == b"one"
    assert record_file.contents_of(tmp_path, File(0, 0, "a", "files/gone")) is None


def test_a_folder_with_a_link_is_not_sent(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """However deep the link is; the reason is reported once."""
    (tmp_path / "files" / "folder" / "deep").mkdir(parents=True)
    (tmp_path / "files" / "folder" / "deep" / "link").symlink_to("/etc/passwd")
    for _ in range(2):
        assert record_file.path_of(tmp_path, File(0, 0, "a", "files/folder")) is None
    assert capsys.readouterr().err.count("is not sent: a link") == 1
