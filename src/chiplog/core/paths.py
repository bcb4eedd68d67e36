"""Paths that chiplog creates: names that every file system accepts, and permissions for the owner of a run only."""

from __future__ import annotations

import os
from pathlib import Path


def make_dir(path: Path) -> None:
    """Create a directory and its missing parents, accessible to the owner only."""
    if not path.is_dir():
        make_dir(path.parent)
        path.mkdir(mode=0o700, exist_ok=True)


def is_private(path: Path) -> bool:
    """Whether a path is inside a run directory, which only its owner may access; other paths follow the umask."""
    return any(map(_is_run, Path(os.path.realpath(path)).parents))


def make_place(path: Path) -> None:
    """Create a directory and its missing parents: for the owner only inside a run, by the umask elsewhere."""
    if is_private(path):
        make_dir(path)
    else:
        path.mkdir(parents=True, exist_ok=True)


def file_mode(path: Path) -> int:
    """The mode to create a file with."""
    return 0o600 if is_private(path) else 0o666


def make_private(folder: Path) -> None:
    """Remove the permissions of group and others from everything in a folder of a run."""
    for path in (folder, *folder.rglob("*")):
        try:
            if not path.is_symlink() and (mode := path.stat().st_mode) & 0o077:
                path.chmod(mode & 0o700)
        except OSError:
            continue  # gone, or owned by another user


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


def _is_run(folder: Path) -> bool:
    try:
        names = os.listdir(folder / "journal")
    except OSError:
        return False
    return any(
        name[:1] == "r" and name[1:6].isdecimal() and name.endswith((".jsonl", ".zst", "serve")) for name in names
    )
