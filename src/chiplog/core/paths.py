"""Paths that chiplog creates: names that every file system accepts, and the permissions of their run."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Mapping
from pathlib import Path

from chiplog.core.operating_system import O_CLOEXEC, O_DIRECTORY, is_dir, sync

# What each choice of `permissions` grants to group and others; "umask" grants what the umask leaves.
_ACCESS = {"private": 0, "group": 0o050, "umask": 0}


def cache_dir(environ: Mapping[str, str]) -> Path:
    """The user's folder for what readers derive from runs; never inside a run."""
    base = environ.get("XDG_CACHE_HOME") or ""
    return Path(base if base.startswith("/") else "~/.cache").expanduser() / "chiplog"


def state_dir(environ: Mapping[str, str]) -> Path:
    """The user's folder for what chiplog remembers on this machine, as the XDG base directory specification has it."""
    base = environ.get("XDG_STATE_HOME") or ""
    home = Path(environ["HOME"]) if environ.get("HOME") else Path("~").expanduser()
    return (Path(base) if base.startswith("/") else home / ".local" / "state") / "chiplog"


def make_dir(path: Path, access: int = 0) -> None:
    """Create a directory and its missing parents, for the owner and with this access of group and others."""
    if not is_dir(path):
        make_dir(path.parent, access)
        path.mkdir(mode=0o700, exist_ok=True)
        share(path, access)


def make_run(run: Path, permissions: str) -> None:
    """Create the directory of a run and that of its journal, whose modes everything in the run inherits.

    Those that exist keep their modes, except that "group" adds the group, whatever the umask was: every writer does so
    before it creates a file, so that no file is created too early to inherit.
    """
    for parent in reversed(run.parents) if not is_dir(run.parent) else ():
        if not is_dir(parent):
            parent.mkdir(exist_ok=True)  # the user named it, so it follows the umask
            share(parent, _ACCESS[permissions])
    for folder in (run, run / "journal"):
        if not is_dir(folder):
            folder.mkdir(0o777 if permissions == "umask" else 0o700, exist_ok=True)
        share(folder, _ACCESS[permissions])


def access_of(run: Path | int) -> int:
    """What group and others may do in a run, as mode bits: by the modes of its directory and its journal."""
    if os.name == "nt":
        return 0
    try:
        if isinstance(run, int):
            modes = os.fstat(run).st_mode, os.stat("journal", dir_fd=run, follow_symlinks=False).st_mode
        else:
            modes = run.stat().st_mode, (run / "journal").lstat().st_mode
    except OSError:
        return 0  # not a run, or not yet
    return modes[0] & modes[1] & 0o077 if stat.S_ISDIR(modes[1]) else 0


def share(path: Path | int, access: int) -> None:
    """Add access of group and others to a path or descriptor, whatever the umask is; files are not executable."""
    if not access:
        return
    mode = os.stat(path).st_mode  # noqa: PTH116  a path or a descriptor
    wide = stat.S_IMODE(mode) | (access if stat.S_ISDIR(mode) else access & 0o066)
    if wide != stat.S_IMODE(mode):
        os.chmod(path, wide)  # noqa: PTH101


def sync_dir(path: Path) -> None:
    """Wait until the names in a directory are on disk: until then a power cut may undo a rename."""
    fd = os.open(path, os.O_RDONLY | O_CLOEXEC | O_DIRECTORY)
    try:
        sync(fd)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # some file systems have nothing to sync in a directory
            raise
    finally:
        os.close(fd)


def in_run(path: Path) -> bool:
    """Whether a path is inside a run directory, whose permissions it then has; other paths follow the umask."""
    return _run_around(path) is not None


def file_mode(path: Path) -> int:
    """The mode to create a file with: by the umask, but inside a run as the run is."""
    run = _run_around(path)
    return 0o666 if run is None else 0o600 | access_of(run) & 0o066


def file_name(name: str, suffix: str) -> str:
    """The relative path of a file of this name: with the folders in the name, and with the suffix."""
    parts = [safe_name(part) for part in name.split("/") if part.strip(".")]
    last = parts.pop() if parts else "file"
    end = safe_name(suffix)
    return "/".join([*parts, last if last.lower().endswith(end.lower()) else f"{last}{end}"])


def safe_name(text: str) -> str:
    """Text as part of a file name: letters, digits, dot, dash and underscore, and never only dots."""
    safe = "".join(char if char.isascii() and (char.isalnum() or char in "-_.") else "-" for char in text)[:100]
    return safe if safe.strip(".") else safe.replace(".", "-")


def is_run(folder: Path) -> bool:
    try:
        names = os.listdir(folder / "journal")
    except OSError:
        return False
    return any(
        name[:1] == "r" and name[1:6].isdecimal() and name.endswith((".jsonl", ".zst", "serve")) for name in names
    )


def _run_around(path: Path) -> Path | None:
    return next(filter(is_run, Path(os.path.realpath(path)).parents), None)
