"""Archives of other trackers: nothing is unpacked, and nothing in them is trusted."""

from __future__ import annotations

import os
import stat
import zipfile
from pathlib import Path

import pytest

from chiplog.store.foreign import archive
from chiplog.store.foreign.archive import Archive
from chiplog.store.foreign.protocol import Losses


def packed(path: Path, **files: bytes) -> Archive:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as made:
        for name, data in files.items():
            made.writestr(name, data)
    return Archive(path)


def test_lines_come_one_after_the_other(tmp_path: Path) -> None:
    """The last one needs no end, in an archive and in a folder."""
    made, losses = packed(tmp_path / "a.zip", x=b"1\n22\n333"), Losses()
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "x").write_bytes(b"1\n22\n333")
    for one in (made, Archive(tmp_path / "folder")):
        assert list(one.lines("x", losses)) == [b"1", b"22", b"333"] and not losses.counts
        assert one.read("x", 8) == b"1\n22\n333" and one.read("x", 7) == b"" == one.read("y", 7)


def test_a_bomb_is_named_and_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that unfolds to a thousand times its size would fill the memory, or the disk."""
    monkeypatch.setattr(archive, "ROOM", 1 << 20)
    made, losses = packed(tmp_path / "a.zip", x=b"0\n" * (1 << 23)), Losses()
    assert list(made.lines("x", losses)) == []
    assert "unfolds to more than 200 times" in str(losses.counts)


def test_names_lead_nowhere(tmp_path: Path) -> None:
    """A link in an archive, a name with dots, a link and a pipe in a folder."""
    (tmp_path / "secret").write_text("secret")
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as made:
        link = zipfile.ZipInfo("x")
        link.external_attr = (stat.S_IFLNK | 0o777) << 16
        made.writestr(link, "../secret")
        made.writestr("../secret", "inside")
    one = Archive(tmp_path / "a.zip")
    assert one.read("x", 100) == b"../secret" and one.read("../secret", 100) == b"inside"
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "x").symlink_to(tmp_path / "secret")
    os.mkfifo(folder / "pipe")
    for name in ("x", "../secret", "pipe"):
        assert Archive(folder).read(name, 100) == b"" and list(Archive(folder).lines(name, Losses())) == []


def test_what_is_not_an_archive_has_no_files(tmp_path: Path) -> None:
    """Other bytes, and a directory of entries that leads outside the file."""
    (tmp_path / "a.zip").write_bytes(b"PK\x05\x06" + b"\xff" * 18)
    (tmp_path / "b.zip").write_bytes(b"")
    assert Archive(tmp_path / "a.zip").files() == {} == Archive(tmp_path / "b.zip").files()
