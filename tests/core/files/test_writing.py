"""New files: inside a run, never through a link."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from chiplog.core.files import writing


@pytest.mark.parametrize(("folder", "file"), [(0o700, 0o600), (0o750, 0o640)])
def test_a_file_is_replaced_atomically(run: Path, folder: int, file: int) -> None:
    """The new contents are there, with the permissions of the run, and no temporary file is left."""
    run.chmod(folder)
    writing.replace(run, "files/plain", b"new")
    assert (run / "files" / "plain").read_bytes() == b"new"
    assert (run / "files" / "plain").stat().st_mode & 0o777 == file
    assert not [name for name in os.listdir(run / "files") if name.startswith(".")]


def test_a_link_is_replaced_not_followed(run: Path, tmp_path: Path) -> None:
    """What a link points to stays as it was."""
    writing.replace(run, "files/link", b"new")
    with writing.replacing(run / "files" / "broken") as temporary:
        temporary.write_bytes(b"new")
    assert (tmp_path / "outside" / "secret").read_text() == "secret"
    assert (run / "files" / "link").read_bytes() == (run / "files" / "broken").read_bytes() == b"new"
    assert os.listdir(tmp_path / "outside") == ["secret"]


def test_nothing_is_written_through_a_linked_folder(run: Path, tmp_path: Path) -> None:
    """Every way to write refuses a folder that is a link."""
    path = run / "files" / "folder" / "new"
    for write in (
        lambda: writing.replace(run, "files/folder/new", b""),
        lambda: writing.create(run, "files/folder/new", b""),
        lambda: writing.make_folder(run, "files/folder/new"),
        lambda: writing.make_place(path),
        lambda: writing.new_beside(path, 0o600),
        lambda: writing.open_update(path, 0o600),
        lambda: writing.unlink(run, "files/folder/secret"),
        lambda: writing.remove(run / "files" / "folder" / "secret"),
        lambda: writing.rename(run / "files" / "folder" / "secret", path),
    ):
        with pytest.raises(OSError, match="'folder' is a link"):
            write()
    assert os.listdir(tmp_path / "outside") == ["secret"]


@pytest.mark.parametrize("name", ["link", "broken", "pipe", "zero", "socket", "inner"])
def test_only_a_regular_file_is_updated(run: Path, tmp_path: Path, name: str) -> None:
    """A link, a pipe or a device in the place of an output is refused, and not waited for."""
    with pytest.raises(OSError, match=r"link|pipe|socket|directory"):
        writing.open_update(run / "files" / name, 0o600)
    assert os.listdir(tmp_path / "outside") == ["secret"]


def test_an_output_is_created_and_updated(run: Path, tmp_path: Path) -> None:
    """In a run for the owner only; at a path of the user's own through links, by the umask."""
    for place in (run / "files" / "new", run / "files" / "new"):
        fd = writing.open_update(place, 0o600)
        os.write(fd, b"x")
        os.close(fd)
    assert (run / "files" / "new").read_bytes() == b"x"
    (tmp_path / "mine").symlink_to(tmp_path / "outside" / "fresh")
    os.close(writing.open_update(tmp_path / "mine", 0o666))
    assert (tmp_path / "outside" / "fresh").exists()


def test_create_wants_a_free_name(run: Path) -> None:
    """A lease is taken by whoever creates it."""
    writing.create(run, "files/lease", b"mine")
    with pytest.raises(FileExistsError):
        writing.create(run, "files/lease", b"theirs")
    with pytest.raises(FileExistsError):
        writing.create(run, "files/broken", b"theirs")
    writing.unlink(run, "files/lease")
    writing.unlink(run, "files/lease")
    assert not (run / "files" / "lease").exists()


def test_places_are_made(run: Path, tmp_path: Path) -> None:
    """Inside a run for the owner only; elsewhere with all parents."""
    run.chmod(0o700)
    writing.make_place(run / "files" / "plots" / "train")
    assert (run / "files" / "plots").stat().st_mode & 0o777 == 0o700
    writing.make_place(tmp_path / "mine" / "out")
    assert (tmp_path / "mine" / "out").is_dir()


def test_a_failed_write_leaves_nothing(run: Path) -> None:
    """The temporary file is removed, and the old one stays."""
    with pytest.raises(ZeroDivisionError), writing.replacing(run / "files" / "plain") as temporary:
        temporary.write_bytes(b"half")
        raise ZeroDivisionError
    assert (run / "files" / "plain").read_bytes() == b"plain"
    assert not [name for name in os.listdir(run / "files") if name.startswith(".")]


def test_a_folder_gets_the_permissions_of_its_run(tmp_path: Path) -> None:
    """What the owner may do stays, and what a link points to is left alone."""
    folder, other = tmp_path / "folder", tmp_path / "other"
    folder.mkdir(mode=0o755)
    for file in (folder / "script.sh", other):
        file.touch()
        file.chmod(0o755)
    (folder / "link").symlink_to(other)
    writing.match_run(folder)
    assert [path.stat().st_mode & 0o777 for path in (folder, folder / "script.sh", other)] == [0o700, 0o700, 0o755]


def test_a_linked_folder_of_a_run_keeps_its_permissions(run: Path, tmp_path: Path) -> None:
    """What is behind a link is not the run's."""
    (tmp_path / "outside").chmod(0o755)
    writing.match_run(run / "files" / "folder")
    assert (tmp_path / "outside").stat().st_mode & 0o777 == 0o755


def test_a_file_is_renamed_and_removed(run: Path, tmp_path: Path) -> None:
    """In a run and at a path of the user's own; a file that is not there is removed already."""
    for folder in (run / "files", tmp_path):
        (folder / "old").write_bytes(b"x")
        writing.rename(folder / "old", folder / "new")
        assert (folder / "new").read_bytes() == b"x" and not (folder / "old").exists()
        for _ in range(2):
            writing.remove(folder / "new")
        assert not (folder / "new").exists()
    writing.remove(run / "parts" / "missing")


def test_a_device_or_a_pipe_is_written_to_and_stays_what_it_is(tmp_path: Path) -> None:
    """Replacing it would take it from everybody else; inside a run, nothing but files is written."""
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    writing.write_text(tmp_path / "pipe", "words")
    assert os.read(reader, 100) == b"words" and stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)
    os.close(reader)
    writing.write_text(Path(os.devnull), "words")
    assert stat.S_ISCHR(Path(os.devnull).stat().st_mode)
