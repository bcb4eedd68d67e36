"""Reads the files of any run, including untrusted ones.

Only regular files are opened, no link inside the run is followed, nothing is waited for, and no more is read than was
asked for. A path inside a run is a text with slashes, such as "journal/r00000-a01-0000.jsonl".
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from io import FileIO
from pathlib import Path

from chiplog.core.files import folders
from chiplog.core.files.folders import parts_of

MOST_ENTRIES = 100_000  # files and folders of a run that are gone through
DEEPEST = 64  # folders inside each other
LARGEST = 32 << 20  # bytes of a small file that is read at once: a manifest, a cursor, a lease

_FILE = os.O_RDONLY | folders.NO_LINK | folders.NO_WAIT | folders.CLOSED_ON_EXEC
_KINDS = {
    stat.S_IFLNK: folders.LINK,
    stat.S_IFIFO: "a pipe, not a file",
    stat.S_IFSOCK: "a socket, not a file",
    stat.S_IFCHR: "a device, not a file",
    stat.S_IFBLK: "a device, not a file",
}


def open_file(run: Path, name: str, *, single: bool = False) -> FileIO:
    """A regular file of a run, unbuffered; raises `OSError` with the reason for anything else.

    With `single`, the file must not be a hard link, whose other name may be outside the run.
    """
    parts = parts_of(name)
    return FileIO(_open(run, parts, single) if folders.RELATIVE else _open_by_path(run, parts, single))


def read_bytes(run: Path, name: str, most: int = LARGEST, *, single: bool = False) -> bytes:
    """The contents of a file of a run; raises `OSError` if there are more than `most` bytes."""
    with open_file(run, name, single=single) as file:
        return _read_all(file, most, run / name)


def native_path(file: FileIO, path: Path) -> str:
    """A path by which a package opens the very file that is open, whatever is at its own `path` meanwhile."""
    opened = f"/dev/fd/{file.fileno()}"
    return opened if os.path.exists(opened) else str(path)  # noqa: PTH110  not on Windows


def open_path(path: Path, *, regular: bool = False) -> FileIO:
    """A file at a path that the user may have chosen; one inside a run is opened like every file of a run.

    With `regular`, it must be a regular file elsewhere too, where links to one are followed.
    """
    place = folders.run_of(path)
    if place is not None:
        return open_file(*place)
    return FileIO(_open_regular(path)) if regular else FileIO(path)


def read_path(path: Path, most: int = LARGEST) -> bytes:
    """The contents of a regular file at a path of the user's; raises `OSError` if there are more than `most` bytes."""
    with open_path(path, regular=True) as file:
        return _read_all(file, most, path)


def is_empty(data: bytes) -> bool:
    """Whether there are only zeros, as in a hole of a sparse file."""
    return data.count(0) == len(data)


def skip_hole(file: FileIO, place: int) -> int:
    """Go to the first data of a file from a place on: behind a hole of a sparse file, whose end is the last hole's."""
    if hasattr(os, "SEEK_DATA"):
        try:
            return file.seek(place, os.SEEK_DATA)
        except OSError as error:
            if error.errno == errno.ENXIO:  # no data from here to the end
                return file.seek(0, os.SEEK_END)
    return file.seek(place)


def status(run: Path, name: str) -> os.stat_result:
    """The status of a regular file of a run; raises `OSError` for anything else, and for one behind a link."""
    parts = parts_of(name)
    if not folders.RELATIVE:
        return _status_by_path(run, parts)
    folder = folders.open_folder(run, parts[:-1])
    try:
        return _check(folders.lstat(parts[-1], folder), run, parts)
    finally:
        os.close(folder)


def path_status(path: Path) -> os.stat_result:
    """The status of a file at a path that the user may have chosen; inside a run it must be a regular one."""
    place = folders.run_of(path)
    return status(*place) if place is not None else path.stat()


def path_names(folder: Path) -> list[str]:
    """The names in a folder that the user may have chosen; none if there is no such folder."""
    place = folders.run_of(folder)
    try:
        return names(*place) if place is not None else os.listdir(folder)
    except FileNotFoundError:
        return []


def exists(run: Path, name: str) -> bool:
    """Whether a run has this regular file."""
    try:
        status(run, name)
    except OSError:
        return False
    return True


def names(run: Path, folder: str) -> list[str]:
    """The names in a folder of a run; raises `OSError` if it is not a directory, or a link to one."""
    parts = parts_of(folder)
    if not folders.RELATIVE:
        folders.check_folder(run, parts)
        return os.listdir(run / folder)
    opened = folders.open_folder(run, parts)
    try:
        return os.listdir(opened)
    finally:
        os.close(opened)


def entries(run: Path, folder: str, wanted: Callable[[str], bool] = lambda _: True) -> list[tuple[str, os.stat_result]]:
    """The wanted names in a folder of a run with their status, links not followed; none if it cannot be read."""
    listed = []
    try:
        opened = folders.open_folder(run, parts_of(folder)) if folders.RELATIVE else -1
        if opened < 0:
            folders.check_folder(run, parts_of(folder))
        try:
            with os.scandir(opened if opened >= 0 else run / folder) as scanned:
                listed = [(entry.name, entry.stat(follow_symlinks=False)) for entry in scanned if wanted(entry.name)]
        finally:
            if opened >= 0:
                os.close(opened)
    except OSError:
        pass  # missing, a link, or changed meanwhile
    return listed


def matching(run: Path, folder: str, ending: str) -> list[str]:
    """The paths of the entries of a folder that end so and are not hidden, sorted; none if it cannot be read."""
    try:
        listed = names(run, folder)
    except OSError:
        return []
    return [f"{folder}/{name}" for name in sorted(listed) if name.endswith(ending) and not name.startswith(".")]


def walk(run: Path, folder: str) -> Iterator[tuple[str, os.stat_result]]:
    """The regular files in a folder of a run and in the folders below, by path; links are left out.

    At most `MOST_ENTRIES`, and none below `DEEPEST` folders.
    """
    try:
        for path, about in tree(run, folder):
            if stat.S_ISREG(about.st_mode) and not folders.is_link(about) and "\\" not in path:
                yield path, about
    except OSError:
        return  # too much; `chiplog doctor` says so


def tree(run: Path, folder: str = "", *, strict: bool = False) -> Iterator[tuple[str, os.stat_result]]:
    """Everything in a folder of a run and in the folders below, by path, links not followed.

    Raises `OSError` if there is too much to go through, and with `strict` if a folder cannot be read; without it, what
    is in that folder is left out.
    """
    waiting: list[tuple[str, os.stat_result | None]] = [(folder, None)]
    seen = 0
    while waiting:
        path, about = waiting.pop()
        if about is not None:
            yield path, about
            if not stat.S_ISDIR(about.st_mode) or folders.is_link(about):
                continue
        if path.count("/") - folder.count("/") > DEEPEST:
            raise OSError(errno.EFBIG, f"folders are nested more than {DEEPEST} deep", str(run / path))
        try:
            listed = sorted(_listed(run, path, MOST_ENTRIES - seen), reverse=True)
        except OSError as error:
            if strict or error.errno == errno.EFBIG:
                raise
            continue  # missing, private, or gone
        seen += len(listed)
        waiting += ((f"{path}/{name}" if path else name, status) for name, status in listed)


def _listed(run: Path, folder: str, most: int) -> Iterator[tuple[str, os.stat_result]]:
    """The names in a folder with their status, links not followed; raises `OSError` if there are more than `most`."""
    parts = parts_of(folder) if folder else []
    opened = folders.open_folder(run, parts) if folders.RELATIVE else None
    try:
        if opened is None:
            folders.check_folder(run, parts)
        with os.scandir(run / folder if opened is None else opened) as entries_:
            for count, entry in enumerate(entries_):
                if count >= most:
                    raise OSError(errno.EFBIG, f"more than {MOST_ENTRIES:,} files and folders", str(run / folder))
                try:
                    about = entry.stat(follow_symlinks=False)
                except FileNotFoundError:
                    continue  # gone meanwhile
                yield entry.name, about
    finally:
        if opened is not None:
            os.close(opened)


def _read_all(file: FileIO, most: int, path: Path) -> bytes:
    size = os.fstat(file.fileno()).st_size
    if size > most:
        raise OSError(errno.EFBIG, f"it has {size:,} bytes, and at most {most:,} are read", str(path))
    data = b""
    while len(data) < size and (piece := file.read(size - len(data))):
        data += piece
    return data


def _open_regular(path: Path) -> int:
    """A descriptor of a regular file, links followed; a pipe is not waited for."""
    _check_regular(path.stat(), path)  # before it is opened too, since opening a device may have an effect
    opened = os.open(path, _FILE & ~folders.NO_LINK)
    try:
        _check_regular(os.fstat(opened), path)
    except OSError:
        os.close(opened)
        raise
    return opened


def _check_regular(about: os.stat_result, path: Path) -> None:
    if stat.S_ISDIR(about.st_mode):
        raise IsADirectoryError(errno.EISDIR, "a directory, not a file", str(path))
    if not stat.S_ISREG(about.st_mode):
        raise OSError(errno.EINVAL, _KINDS.get(stat.S_IFMT(about.st_mode), "not a regular file"), str(path))


def _open(run: Path, parts: Sequence[str], single: bool) -> int:
    folder = folders.open_folder(run, parts[:-1])
    try:
        # Before it is opened too, since opening a device may have an effect.
        _check(folders.lstat(parts[-1], folder), run, parts, single)
        opened = os.open(parts[-1], _FILE, dir_fd=folder)
    except OSError as error:
        if error.filename == parts[-1]:
            error.filename = str(run.joinpath(*parts))
        raise
    finally:
        os.close(folder)
    try:
        _check(os.fstat(opened), run, parts, single)
    except OSError:
        os.close(opened)
        raise
    return opened


def _open_by_path(run: Path, parts: Sequence[str], single: bool) -> int:
    """The same without descriptors of directories; the file is compared with the one that was checked."""
    before = _status_by_path(run, parts, single)
    opened = os.open(run.joinpath(*parts), _FILE)
    if not os.path.samestat(before, os.fstat(opened)):
        os.close(opened)
        raise OSError(errno.EAGAIN, "replaced while it was opened", str(run.joinpath(*parts)))
    return opened


def _status_by_path(run: Path, parts: Sequence[str], single: bool = False) -> os.stat_result:
    folders.check_folder(run, parts[:-1])
    return _check(run.joinpath(*parts).lstat(), run, parts, single)


def _check(about: os.stat_result, run: Path, parts: Sequence[str], single: bool = False) -> os.stat_result:
    """Raise `OSError` unless this is the status of a regular file."""
    mode = about.st_mode
    if stat.S_ISREG(mode) and not folders.is_link(about) and not (single and about.st_nlink != 1):
        return about
    path = str(run.joinpath(*parts))
    if stat.S_ISREG(mode) and not folders.is_link(about):
        raise OSError(errno.EMLINK, "a hard link, whose other name may be outside the run", path)
    if stat.S_ISDIR(mode) and not folders.is_link(about):
        raise IsADirectoryError(errno.EISDIR, "a directory, not a file", path)
    kind = folders.LINK if folders.is_link(about) else _KINDS.get(stat.S_IFMT(mode), "not a regular file")
    raise OSError(errno.ELOOP if folders.is_link(about) else errno.EINVAL, kind, path)
