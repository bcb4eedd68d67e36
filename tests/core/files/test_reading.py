"""Files of a run that somebody else may have made."""

from __future__ import annotations

from pathlib import Path

import pytest

from chiplog.core.files import reading

ODD = {
    "files/link": "a link, and links inside a run are not followed",
    "files/broken": "a link",
    "files/zero": "a link",
    "files/folder/secret": "'folder' is a link",
    "files/pipe": "a pipe, not a file",
    "files/socket": "a socket, not a file",
    "files/inner": "a directory, not a file",
    "files/missing": "No such file",
    "files/plain/x": "Not a directory",
}


def test_a_regular_file_is_read(run: Path) -> None:
    """Its contents, its size and its name are those of the file."""
    assert reading.read_bytes(run, "files/inner/deep") == b"deep"
    assert reading.status(run, "files/plain").st_size == 5
    with reading.open_file(run, "files/plain") as file:
        assert file.read() == b"plain"
    assert sorted(reading.names(run, "files/inner")) == ["deep"]


@pytest.mark.parametrize(("name", "why"), ODD.items())
def test_anything_else_is_refused_with_the_reason(run: Path, name: str, why: str) -> None:
    """No link is followed, and no pipe, socket or device is opened."""
    for refused in (reading.open_file, reading.read_bytes, reading.status):
        with pytest.raises(OSError, match=why):
            refused(run, name)
    assert not reading.exists(run, name)


def test_a_device_is_not_opened() -> None:
    """Even outside of a test's own folder."""
    with pytest.raises(OSError, match="a device, not a file"):
        reading.open_file(Path("/dev"), "zero")


def test_no_more_is_read_than_asked_for(run: Path) -> None:
    """A file that is too large is refused before it is read, also if it is sparse."""
    with (run / "files" / "huge").open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(OSError, match="1,099,511,627,776 bytes, and at most 33,554,432 are read"):
        reading.read_bytes(run, "files/huge")
    with pytest.raises(OSError, match="5 bytes, and at most 4"):
        reading.read_bytes(run, "files/plain", 4)


def test_a_second_name_is_refused_where_asked(run: Path) -> None:
    """A file that is to leave the machine has one name, inside the run."""
    assert reading.read_bytes(run, "files/second") == b"secret"
    with pytest.raises(OSError, match="hard link"):
        reading.read_bytes(run, "files/second", single=True)


def test_a_walk_leaves_links_out(run: Path) -> None:
    """Only regular files inside the run are listed, in the folders of the run too."""
    assert [name for name, _ in reading.walk(run, "files")] == ["files/inner/deep", "files/plain", "files/second"]
    assert list(reading.walk(run, "files/folder")) == []
    assert reading.matching(run, "files", "in") == ["files/plain"]
    assert reading.matching(run, "files/folder", "secret") == []


def test_a_path_of_the_user_is_opened_through_links(run: Path, tmp_path: Path) -> None:
    """Outside of a run, links are the user's own."""
    (tmp_path / "mine").symlink_to(tmp_path / "outside" / "secret")
    with reading.open_path(tmp_path / "mine") as file:
        assert file.read() == b"secret"
    with pytest.raises(OSError, match="a link"):
        reading.open_path(run / "files" / "link")


def test_a_tree_has_everything_and_follows_no_link(run: Path) -> None:
    """Links, pipes and folders are listed, by path; a folder that is a link is not entered."""
    listed = [name for name, _ in reading.tree(run, "files")]
    assert listed == sorted(listed) and {"files/folder", "files/inner/deep", "files/pipe"} <= {*listed}
    assert "files/folder/secret" not in listed
    with pytest.raises(FileNotFoundError):
        list(reading.tree(run, "missing", strict=True))
    assert list(reading.tree(run, "missing")) == []


def test_a_tree_is_bounded(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Too many folders inside each other and too many files raise; a walk ends there."""
    folder = run / "files"
    for _ in range(reading.DEEPEST + 5):
        folder = folder / "n"
        folder.mkdir()
    with pytest.raises(OSError, match="nested more than 64 deep"):
        list(reading.tree(run))
    assert "files/inner/deep" in [name for name, _ in reading.walk(run, "files")]
    monkeypatch.setattr(reading, "MOST_ENTRIES", 3)
    with pytest.raises(OSError, match="more than 3 files"):
        list(reading.tree(run, "files"))


def test_the_status_and_the_names_at_a_path_follow_no_link_inside_a_run(run: Path, tmp_path: Path) -> None:
    """Elsewhere links are the user's own."""
    (tmp_path / "mine").symlink_to(tmp_path / "outside")
    assert reading.path_status(tmp_path / "mine" / "secret").st_size == 6
    assert reading.path_names(tmp_path / "mine") == ["secret"] and reading.path_names(tmp_path / "missing") == []
    for look in (reading.path_status, reading.path_names):
        with pytest.raises(OSError, match="'folder' is a link"):
            look(run / "files" / "folder" / "secret")
