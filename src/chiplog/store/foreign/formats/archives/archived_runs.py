"""The archives in a folder that have certain files inside."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from chiplog.store.foreign.archive import Archive
from chiplog.store.foreign.protocol import Folder

ENDING = ".zip"


def archives(folder: Folder, *names: str) -> Iterator[Archive]:
    """Zip files with all of these inside, and the folder itself if it has them; adds what they take."""
    if set(names) <= set(folder.free(*names)):
        folder.taken |= {*folder.files, *folder.folders}
        yield Archive(folder.path)
    for name in folder.free(ENDING):
        archive = Archive(folder.path / name)
        if set(names) <= archive.files().keys():
            folder.taken.add(name)
            yield archive


def no_run_in(path: Path) -> str:
    """Why an archive holds no run; empty for other files."""
    if path.suffix.lower() != ENDING or not path.is_file():
        return ""
    damage = Archive(path).damage()
    return f"the archive is cut off or damaged ({damage})" if damage else ""
