"""Files that are kept with a run: pictures and artifacts, written by the keeper's thread and never by the caller."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

from chiplog.core import records
from chiplog.core.media import SUFFIXES, Image
from chiplog.core.texts import cut

Write = Callable[..., object]  # (kind of record, **fields)


class Files:
    """Jobs that put a file into the run directory and then say so in a record."""

    def __init__(self, run: Path, write: Write) -> None:
        self._run, self._write = run, write
        self._jobs: deque[Callable[[], None]] = deque()
        self._pictures = count()

    def image(self, name: str, image: Image, step: int | float) -> None:
        """Keep a picture that was logged."""
        path = f"files/media/{next(self._pictures):08d}{SUFFIXES[image.media]}"

        def keep() -> None:
            self._target(path).write_bytes(image.data)
            self._say(path, len(image.data), name=name, media=image.media, caption=cut(image.caption), step=step)

        self._jobs.append(keep)

    def copy(self, source: Path, name: str, media: str, step: int | float) -> None:
        """Keep a copy of a file or a folder."""
        path = f"files/artifacts/{_safe(name)}{_safe(source.suffix) if source.is_file() else ''}"

        def keep() -> None:
            import shutil  # compression modules come with it, and few runs need it

            target = self._target(path)
            if source.is_dir():
                shutil.copytree(source, target, dirs_exist_ok=True)
            else:
                shutil.copyfile(source, target)
            self._say(path, target.stat().st_size, name=name, media=media, step=step)

        self._jobs.append(keep)

    def tend(self) -> None:
        """Do the jobs; one that fails is done with, and its error goes to the caller of `tend`."""
        while self._jobs:
            self._jobs.popleft()()

    def forget(self) -> None:
        self._jobs.clear()

    def _target(self, path: str) -> Path:
        target = self._run / path
        make_dir(target.parent)
        return target

    def _say(self, path: str, size: int, **fields: Any) -> None:
        self._write(records.File, path=path, size=size, **fields)


def make_dir(path: Path) -> None:
    """Make a directory for the owner alone, and those above it that are missing."""
    if not path.is_dir():
        make_dir(path.parent)
        path.mkdir(mode=0o700, exist_ok=True)


def _safe(text: str) -> str:
    """A text as part of a file name: letters, digits, dot, dash and underscore, and never only dots."""
    safe = "".join(char if char.isascii() and (char.isalnum() or char in "-_.") else "-" for char in text)[:100]
    return safe if safe.strip(".") else safe.replace(".", "-")
