"""The archives in a folder that have certain files inside."""

from __future__ import annotations

from collections.abc import Iterator

from chiplog.store.foreign.archive import Archive
from chiplog.store.foreign.protocol import Folder


def archives(folder: Folder, *names: str) -> Iterator[Archive]:
    """Zip files with all of these inside, and the folder itself if it has them; adds what they take."""
    if set(names) <= set(folder.free(*names)):
        folder.taken |= {*folder.files, *folder.folders}
        yield Archive(folder.path)
    for name in folder.free(".zip"):
        archive = Archive(folder.path / name)
        if set(names) <= archive.files().keys():
            folder.taken.add(name)
            yield archive
