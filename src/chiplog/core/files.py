"""Files that are kept with a run: pictures and artifacts, written by a thread of their own and never by the caller."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

from chiplog.core import notes, records
from chiplog.core.identity import Identity
from chiplog.core.media import SUFFIXES, Image
from chiplog.core.redact import redact_text
from chiplog.core.texts import cut

Write = Callable[..., object]  # (kind of record, **fields)


class Files:
    """Jobs that put a file into the run directory and then say so in a record. The thread begins with the first job."""

    def __init__(self, identity: Identity, write: Write) -> None:
        self._run, self._write = identity.dir, write
        self._prefix = f"r{identity.rank:05d}-a{identity.attempt:02d}"  # no two writers of a run share a picture
        self._pictures = count()
        self._jobs: deque[tuple[str, Callable[[], None]]] = deque()
        self._work = threading.Condition()
        self._thread: threading.Thread | None = None
        self._closing = False

    def image(self, name: str, image: Image, step: int | float) -> None:
        """Keep a picture that was logged."""
        path = f"files/media/{self._prefix}-{next(self._pictures):06d}{SUFFIXES[image.media]}"

        def keep() -> None:
            with _create(self._target(path)) as file:
                file.write(image.data)
            self._say(
                path, len(image.data), name=name, media=image.media, caption=redact_text(cut(image.caption)), step=step
            )

        self._add(name, keep)

    def copy(self, source: Path, name: str, media: str, step: int | float) -> None:
        """Keep a copy of a file or a folder; one that has the name already stays."""
        import shutil  # by the caller: a child forked while our thread imports could never import the same module

        stem, suffix = _safe(name), _safe(source.suffix) if source.is_file() else ""

        def keep() -> None:
            path = f"files/artifacts/{stem}{suffix}"
            for number in count(2):
                if not (self._run / path).exists():
                    break
                path = f"files/artifacts/{stem}-{number}{suffix}"
            target = self._target(path)
            if source.is_dir():
                shutil.copytree(source, target)
            else:
                with source.open("rb") as old, _create(target) as new:
                    shutil.copyfileobj(old, new, 1 << 20)
            self._say(path, target.stat().st_size, name=name, media=media, step=step)

        self._add(name, keep)

    def close(self, timeout: float) -> list[str]:
        """Let the jobs be done, for so many seconds; the names of what is not kept by then."""
        with self._work:
            self._closing = True
            self._work.notify_all()
        if self._thread is not None:
            self._thread.join(max(0.0, timeout))
        return [name for name, _ in list(self._jobs)]

    def forget(self) -> None:
        """In a forked child: the jobs are the parent's."""
        self._jobs.clear()
        self._work = threading.Condition()
        self._thread = None

    def _add(self, name: str, job: Callable[[], None]) -> None:
        with self._work:
            self._jobs.append((name, job))
            if self._thread is None:
                self._thread = threading.Thread(target=self._loop, name="chiplog-files", daemon=True)
                self._thread.start()
            self._work.notify_all()

    def _loop(self) -> None:
        while True:
            with self._work:
                while not self._jobs and not self._closing:
                    self._work.wait()
                if not self._jobs:
                    return
                name, job = self._jobs[0]
            try:
                job()
            except Exception as error:
                notes.say(f"{name!r} could not be kept with the run: {error}")
            with self._work:
                if self._jobs:  # still there while it is worked on, so that `close` knows
                    self._jobs.popleft()

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


def _create(path: Path) -> Any:
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "wb")


def _safe(text: str) -> str:
    """A text as part of a file name: letters, digits, dot, dash and underscore, and never only dots."""
    safe = "".join(char if char.isascii() and (char.isalnum() or char in "-_.") else "-" for char in text)[:100]
    return safe if safe.strip(".") else safe.replace(".", "-")
