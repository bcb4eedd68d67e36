"""The folders of a run, opened without following a link inside it.

The user chooses the path of a run, and every link on the way there is followed. What is inside the run is the word of
its maker. Where the system has no descriptors of directories (Windows), paths are checked instead.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Sequence
from pathlib import Path

from chiplog.core.operating_system import O_CLOEXEC, O_DIRECTORY, O_NOFOLLOW
from chiplog.core.paths import access_of, is_run, share

RELATIVE = {os.open, os.stat, os.mkdir, os.unlink, os.rename} <= os.supports_dir_fd  # not on Windows
NO_LINK = O_NOFOLLOW
CLOSED_ON_EXEC = O_CLOEXEC | getattr(os, "O_BINARY", 0)
NO_WAIT = getattr(os, "O_NONBLOCK", 0)
_DIRECTORY = os.O_RDONLY | O_DIRECTORY | CLOSED_ON_EXEC
_IN_A_RUN = ("journal", "files", "parts", "cursors", "relay", "baselines")

LINK = "a link, and links inside a run are not followed"


def parts_of(name: str) -> list[str]:
    """The names in a path inside a run, which has slashes on every system; raises `OSError` for a path out of it."""
    parts = name.split("/")
    odd = "\\\0:" if os.name == "nt" else "\\\0"
    if any(part in ("", ".", "..") or any(sign in part for sign in odd) for part in parts):
        raise OSError(errno.EINVAL, "not a path inside the run", name)
    return parts


def run_of(path: Path) -> tuple[Path, str] | None:
    """The run that a path is written to be in, and the path inside it; None for a path elsewhere.

    A run that is reached through a link inside another one is the business of that other run, whose maker chose it.
    """
    path = Path(os.path.abspath(path))  # noqa: PTH100  follows no link, unlike `resolve`
    nearest: Path | None = None
    for run in path.parents:
        first = path.relative_to(run).parts[0]
        named = first in _IN_A_RUN  # a `run.json` alone may be anything, such as an exported trace
        is_one = (named and any(os.path.lexists(run / name) for name in ("journal", "run.json"))) or is_run(run)
        if is_one and (nearest is None or _linked(run, nearest)):
            nearest = run
    return None if nearest is None else (nearest, path.relative_to(nearest).as_posix())


def _linked(run: Path, inner: Path) -> bool:
    """Whether a link leads from a run to a folder below it."""
    return any(os.path.islink(one) for one in (inner, *inner.parents) if one.is_relative_to(run) and one != run)  # noqa: PTH114


def open_folder(run: Path, parts: Sequence[str], *, make: bool = False) -> int:
    """A descriptor of a folder of a run; with `make`, missing ones are created as the run is, but not the run."""
    folder = os.open(run, _DIRECTORY)
    access = access_of(folder) if make else 0
    for part in parts:
        try:
            inner = _open_in(folder, part, make=make, access=access)
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.ENOTDIR) and is_link(lstat(part, folder)):
                raise OSError(errno.ELOOP, f"{part!r} is {LINK}", str(run.joinpath(*parts))) from None
            raise OSError(error.errno, error.strerror, str(run.joinpath(*parts))) from None
        finally:
            os.close(folder)
        folder = inner
    return folder


def check_folder(run: Path, parts: Sequence[str], *, make: bool = False) -> None:
    """Raise `OSError` unless this is a folder of a run that is reached without a link."""
    if RELATIVE:
        os.close(open_folder(run, parts, make=make))
        return
    path = run
    for part in parts:
        path = path / part
        if make and not os.path.lexists(path):
            path.mkdir(mode=0o700, exist_ok=True)
            share(path, access_of(run))
        about = path.lstat()
        if is_link(about):
            raise OSError(errno.ELOOP, f"{part!r} is {LINK}", str(path))
        if not stat.S_ISDIR(about.st_mode):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path))


def lstat(name: str, folder: int) -> os.stat_result:
    return os.stat(name, dir_fd=folder, follow_symlinks=False)


def is_link(about: os.stat_result) -> bool:
    """Whether this is a link, or on Windows a junction."""
    reparse = getattr(stat, "FILE_ATTRIBUTE_REPARSE_POINT", 0)
    return stat.S_ISLNK(about.st_mode) or bool(getattr(about, "st_file_attributes", 0) & reparse)


def _open_in(folder: int, name: str, *, make: bool, access: int) -> int:
    try:
        return os.open(name, _DIRECTORY | NO_LINK, dir_fd=folder)
    except FileNotFoundError:
        if not make:
            raise
    try:
        os.mkdir(name, 0o700, dir_fd=folder)
    except FileExistsError:
        return os.open(name, _DIRECTORY | NO_LINK, dir_fd=folder)  # another process was faster
    made = os.open(name, _DIRECTORY | NO_LINK, dir_fd=folder)
    share(made, access)
    return made
