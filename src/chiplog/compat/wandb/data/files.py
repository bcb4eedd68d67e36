"""Files of a run: media, what `save` copies, and what the script itself writes to `run.dir`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from glob import glob
from pathlib import Path

from chiplog.compat.shared.file_media import FileMedia, write
from chiplog.compat.wandb import messages
from chiplog.core import records
from chiplog.core.paths import file_name, make_dir
from chiplog.core.run import Run

OWN = "files/wandb"  # in the run directory: what `run.dir` is for the script


class Files:
    """The files of one run."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._at_end: dict[Path, str] = {}  # files to copy at the end, and their names
        self._copied: dict[Path, tuple[int, int]] = {}  # the size and the time of a file when it was copied
        self.dir = run.dir / OWN
        if not run.inert:
            try:
                make_dir(self.dir)
            except OSError as error:
                messages.failed("creating run.dir", error)

    def keep(self, name: str, media: FileMedia, step: float) -> None:
        """Write media to the run directory and record them."""
        if media.problem or media.data is None:
            messages.once(f"media {name}", f"{name!r} cannot be kept ({media.problem}); the rest of the row is")
            return
        write(self._run, name, media, step)

    def save(self, pattern: str | Path, base: str | Path | None, policy: str) -> list[str]:
        """Copy the files that a pattern describes: now, at the end, or both."""
        folder = Path(base) if base else None
        paths = [Path(path) for path in sorted(glob(os.fspath(pattern), recursive=True))]  # noqa: PTH207  absolute or not
        if not paths and policy == "now":
            messages.once(f"save {pattern}", f"save({str(pattern)!r}) matches no file")
        for path in paths:
            if path.is_dir():
                continue
            name = str(path.relative_to(folder)) if folder and path.is_relative_to(folder) else path.name
            if policy != "end":
                self._copied[path] = _version(path)
                self._run.artifact(path, name)
            if policy != "now":
                self._at_end[path] = name
        return [str(path) for path in paths]

    def restore(self, name: str) -> Path | None:
        """A file that was saved under this name, or written to `run.dir`."""
        for path in (self.dir / name, *sorted(self._run.dir.glob(f"files/artifacts/{file_name(name, '')}"))):
            if path.is_file():
                return path
        return None

    def complete(self) -> None:
        """Copy what was to be copied at the end and has changed; record what the script wrote to `run.dir`."""
        for path, name in self._at_end.items():
            if path.is_file() and self._copied.get(path) != _version(path):
                self._run.artifact(path, name)
        for path in _files(self.dir):
            name = str(path.relative_to(self.dir))
            self._run.write(records.File, name=name, path=f"{OWN}/{name}", size=path.stat().st_size)


def _version(path: Path) -> tuple[int, int]:
    about = path.stat()
    return about.st_size, about.st_mtime_ns


def _files(folder: Path) -> Iterator[Path]:
    yield from sorted(path for path in folder.rglob("*") if path.is_file())
