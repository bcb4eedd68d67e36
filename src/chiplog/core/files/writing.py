"""Creates and replaces files: inside a run, which someone else may have made, never through a link.

Temporary names cannot be guessed and are created exclusively, so that no other process can put a link in their place.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from chiplog.core.files import folders, reading
from chiplog.core.files.folders import parts_of
from chiplog.core.paths import access_of, share

_NEW = os.O_CREAT | os.O_EXCL | folders.NO_LINK | folders.CLOSED_ON_EXEC


def replace(run: Path, name: str, data: bytes) -> None:
    """Replace a small file of a run atomically: a reader sees the old one or the new one.

    Any directory that the user chose may stand for the run. Its own folders must exist: see `make_folder`.
    """
    parts = parts_of(name)
    aside = f".{parts[-1]}.{os.urandom(8).hex()}"
    if not folders.RELATIVE:
        folders.check_folder(run, parts[:-1])
        _replace(run, run.joinpath(*parts[:-1], aside), run.joinpath(*parts), data)
        return
    folder = folders.open_folder(run, parts[:-1])
    try:
        _write_all(_new(run, aside, folder), data)
        os.replace(aside, parts[-1], src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        _unlink(aside, folder)
        raise
    finally:
        os.close(folder)


def create(run: Path, name: str, data: bytes) -> None:
    """Create a small file of a run; raises `FileExistsError` if there is something of that name."""
    parts = parts_of(name)
    if folders.RELATIVE:
        folder = folders.open_folder(run, parts[:-1])
        try:
            _write_all(_new(run, parts[-1], folder), data)
        finally:
            os.close(folder)
    else:
        folders.check_folder(run, parts[:-1])
        _write_all(_new(run, run.joinpath(*parts)), data)


def make_folder(run: Path, name: str) -> None:
    """Create a folder of a run, with its permissions; raises `OSError` if it is a link. Never creates the run itself,
    which may just have been renamed."""
    folders.check_folder(run, parts_of(name), make=True)


def open_update(path: Path, mode: int, more: int = 0) -> int:
    """A descriptor to read and write a file at a path that the user may have chosen; created if it is missing.

    Inside a run it must be a regular file, no link is followed, and a new file has the permissions of the run. `more`
    are flags such as `os.O_APPEND`.
    """
    flags = os.O_RDWR | os.O_CREAT | folders.CLOSED_ON_EXEC | more
    place = folders.run_of(path)
    if place is None:
        return os.open(path, flags, mode)
    run, name = place
    parts = parts_of(name)
    try:
        reading.status(run, name)
    except FileNotFoundError:
        flags |= os.O_EXCL
    flags |= folders.NO_LINK | folders.NO_WAIT
    if not folders.RELATIVE:
        return os.open(path, flags, mode)
    folder = folders.open_folder(run, parts[:-1])
    try:
        opened = os.open(parts[-1], flags, mode, dir_fd=folder)
    finally:
        os.close(folder)
    if not stat.S_ISREG(os.fstat(opened).st_mode):
        os.close(opened)
        raise OSError(f"{path} is not a regular file")
    if flags & os.O_EXCL:
        share(opened, access_of(run))
    return opened


def make_place(path: Path) -> None:
    """Create a directory that the user may have chosen, and its missing parents: by the umask, but inside a run with
    its permissions and never through a link."""
    place = folders.run_of(path)
    if place is None:
        path.mkdir(parents=True, exist_ok=True)
    else:
        make_folder(*place)


def new_beside(path: Path, mode: int) -> Path:
    """An empty new file in the directory of a path, with a name that cannot be guessed and the same ending."""
    place = folders.run_of(path)
    if place is not None:
        folders.check_folder(place[0], parts_of(place[1])[:-1])
    aside = path.with_name(f".{os.urandom(8).hex()}.{path.name}")
    try:
        os.close(os.open(aside, os.O_WRONLY | _NEW, mode))
    except OSError as error:  # the user knows neither the name nor that there are two files
        error.filename = str(path.parent if isinstance(error, FileNotFoundError) else path)
        raise
    if place is not None:
        share(aside, access_of(place[0]))
    return aside


def unfinished(path: Path, names: Iterable[str]) -> list[str]:
    """Those of the names that `new_beside` gave to files for a path; their writers were killed, if no other writes."""
    ours = re.compile(rf"\.[0-9a-f]{{16}}\.{re.escape(path.name)}")
    return [name for name in names if ours.fullmatch(name)]


@contextmanager
def replacing(path: Path, mode: int | None = None) -> Iterator[Path]:
    """A temporary file in the same directory, which becomes `path` at the end; removed if the block raises.

    A device or a pipe that the user names, such as `/dev/null`, is written to instead of being replaced.
    """
    if folders.run_of(path) is None and path.exists() and not (path.is_file() or path.is_dir()):
        yield path
        return
    temporary = new_beside(path, mode if mode is not None else 0o666 if folders.run_of(path) is None else 0o600)
    try:
        yield temporary
        rename(temporary, path)
    finally:
        remove(temporary)


def write_text(path: Path, text: str) -> None:
    """Write a text atomically."""
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8", errors="replace")


def match_run(folder: Path) -> None:
    """Give a folder of a run and everything in it the permissions of the run; links are left alone."""
    run, inside = folders.run_of(folder) or (folder, "")
    access = access_of(run)
    try:
        folders.check_folder(run, parts_of(inside) if inside else [])
        for path in (inside, *(name for name, _ in reading.tree(run, inside))):
            _match(run / path, access)
    except OSError:
        pass  # gone, a link, or more than we go through


def _match(path: Path, access: int) -> None:
    try:
        about = path.lstat()
        mode = stat.S_IMODE(about.st_mode)
        right = mode & ~0o077 | (access if stat.S_ISDIR(about.st_mode) else access & 0o066)
        if not folders.is_link(about) and right != mode:
            path.chmod(right)
    except OSError:
        pass  # gone, or owned by another user


def rename(path: Path, new: Path) -> None:
    """Rename a file within its directory, which the user may have chosen; inside a run through no link."""
    place = folders.run_of(path)
    if place is None or not folders.RELATIVE:
        if place is not None:
            folders.check_folder(place[0], parts_of(place[1])[:-1])
        path.replace(new)
        return
    folder = folders.open_folder(place[0], parts_of(place[1])[:-1])
    try:
        os.replace(path.name, new.name, src_dir_fd=folder, dst_dir_fd=folder)
    finally:
        os.close(folder)


def remove(path: Path) -> None:
    """Remove a file at a path that the user may have chosen, if it is there; inside a run through no link."""
    place = folders.run_of(path)
    try:
        unlink(*place) if place is not None else path.unlink(missing_ok=True)
    except FileNotFoundError:
        pass  # its folder is gone too


def unlink(run: Path, name: str) -> None:
    """Remove a file of a run, if it is there; a link itself, never what it points to."""
    parts = parts_of(name)
    if not folders.RELATIVE:
        folders.check_folder(run, parts[:-1])
        run.joinpath(*parts).unlink(missing_ok=True)
        return
    folder = folders.open_folder(run, parts[:-1])
    try:
        _unlink(parts[-1], folder)
    finally:
        os.close(folder)


def _new(run: Path, name: str | Path, folder: int | None = None) -> int:
    """A descriptor of a new file in a folder of a run, with the permissions of the run."""
    opened = os.open(name, os.O_WRONLY | _NEW, 0o600, dir_fd=folder)
    share(opened, access_of(run))
    return opened


def _replace(run: Path, aside: Path, path: Path, data: bytes) -> None:
    try:
        _write_all(_new(run, aside), data)
        aside.replace(path)
    except BaseException:
        aside.unlink(missing_ok=True)
        raise


def _write_all(fd: int, data: bytes) -> None:
    try:
        view: Sequence[int] = memoryview(data)
        while view:
            view = view[os.write(fd, view) :]  # type: ignore[arg-type]
    finally:
        os.close(fd)


def _unlink(name: str, folder: int) -> None:
    try:
        os.unlink(name, dir_fd=folder)
    except FileNotFoundError:
        pass
