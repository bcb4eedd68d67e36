"""Files that are kept with a run: pictures and artifacts, written by a thread of their own and never by the caller."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

from chiplog.core import messages, records
from chiplog.core.engine.recorder import Recorder
from chiplog.core.identity import Identity
from chiplog.core.values.media import SUFFIXES, Image
from chiplog.core.values.redact import redact_text
from chiplog.core.values.text import cut


class Attachments:
    """Jobs that put a file into the run directory and then say so in a record. The thread begins with the first job."""

    def __init__(self, identity: Identity, recorder: Recorder) -> None:
        self._run, self._recorder, self._held = identity.dir, recorder, recorder.held
        self._jobs: deque[tuple[str, Callable[[], None]]] = deque()
        self._work = threading.Condition()
        self._thread: threading.Thread | None = None
        self._closing = False

    def image(self, name: str, image: Image, step: int | float) -> None:
        """Keep a picture that was logged, under its name; of several, those behind the first with their step."""

        def keep() -> None:
            for path in self._free("files/media", file_name(name, SUFFIXES[image.media]), step):
                try:
                    with _create(self._run / path) as file:
                        file.write(image.data)
                    break
                except FileExistsError:
                    continue  # another writer of the run was quicker
            self._say(
                path, len(image.data), name=name, media=image.media, caption=redact_text(cut(image.caption)), step=step
            )

        self._add(name, keep)

    def copy(self, source: Path, name: str, media: str, step: int | float) -> None:
        """Keep a copy of a file or a folder, under its name; one that has the name already stays."""
        import shutil  # by the caller: a child forked while our thread imports could never import the same module

        is_folder = source.is_dir()

        def keep() -> None:
            for path in self._free("files/artifacts", file_name(name, "" if is_folder else source.suffix)):
                target = self._run / path
                try:
                    if is_folder:
                        shutil.copytree(source, target)
                    else:
                        with source.open("rb") as old, _create(target) as new:
                            shutil.copyfileobj(old, new, 1 << 20)
                    break
                except FileExistsError:
                    continue
            self._say(path, target.stat().st_size, name=name, media=media, step=step)

        self._add(name, keep)

    def begin(self) -> None:
        """Do the jobs that were held back until it was clear that this run keeps something."""
        self._held = False
        with self._work:
            self._start()

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
        if not self._recorder.keeps:
            self._recorder.refuse()
            return
        with self._work:
            self._jobs.append((name, job))
            self._start()
        self._recorder.notice()

    def _start(self) -> None:
        if self._jobs and not self._held:
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
                messages.say(f"{name!r} could not be kept with the run: {error}")
            with self._work:
                if self._jobs:  # still there while it is worked on, so that `close` knows
                    self._jobs.popleft()

    def _free(self, folder: str, name: str, step: int | float | None = None) -> Iterator[str]:
        """Paths in the run's directory for a file of this name, until one is taken; their folders are there."""
        base, dot, suffix = name.rpartition(".") if "." in name.rpartition("/")[2][1:] else (name, "", "")
        at = "" if step is None else f"-{_safe(f'{step:.15g}')}"
        for number in count(1):
            more = "" if number == 1 else at if number == 2 and at else f"{at}-{number}"
            path = f"{folder}/{base}{more}{dot}{suffix}"
            try:
                make_dir((self._run / path).parent)
            except (FileExistsError, NotADirectoryError):  # a file has the name of the folder
                path = f"{folder}/{path.removeprefix(folder + '/').replace('/', '-')}"
            if not (self._run / path).exists():
                yield path

    def _say(self, path: str, size: int, **fields: Any) -> None:
        self._recorder.write(records.File, path=path, size=size, **fields)


def make_dir(path: Path) -> None:
    """Make a directory for the owner alone, and those above it that are missing."""
    if not path.is_dir():
        make_dir(path.parent)
        path.mkdir(mode=0o700, exist_ok=True)


def is_private(path: Path) -> bool:
    """Whether a path lies in the directory of a run, which is for its owner alone; elsewhere a person has named it, and
    it follows the umask."""
    return any(map(_is_run, Path(os.path.realpath(path)).parents))


def make_place(path: Path) -> None:
    """Make a directory, and those above it that are missing: in a run for the owner alone, elsewhere by the umask."""
    if is_private(path):
        make_dir(path)
    else:
        path.mkdir(parents=True, exist_ok=True)


def file_mode(path: Path) -> int:
    """What a file is to be created with."""
    return 0o600 if is_private(path) else 0o666


def make_private(folder: Path) -> None:
    """Take the rights of others from what somebody else has put into a folder of a run."""
    for path in (folder, *folder.rglob("*")):
        try:
            if not path.is_symlink() and (mode := path.stat().st_mode) & 0o077:
                path.chmod(mode & 0o700)
        except OSError:
            continue  # gone, or somebody else's


def _is_run(folder: Path) -> bool:
    try:
        names = os.listdir(folder / "journal")
    except OSError:
        return False
    return any(
        name[:1] == "r" and name[1:6].isdecimal() and name.endswith((".jsonl", ".zst", "serve")) for name in names
    )


def file_name(name: str, suffix: str) -> str:
    """The path that a file is expected under by the name it was given: with its suffix, and the folders in the name."""
    parts = [_safe(part) for part in name.split("/") if part.strip(".")]
    last = parts.pop() if parts else "file"
    end = _safe(suffix)
    return "/".join([*parts, last if last.lower().endswith(end.lower()) else f"{last}{end}"])


def _create(path: Path) -> Any:
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb")


def _safe(text: str) -> str:
    """A text as part of a file name: letters, digits, dot, dash and underscore, and never only dots."""
    safe = "".join(char if char.isascii() and (char.isalnum() or char in "-_.") else "-" for char in text)[:100]
    return safe if safe.strip(".") else safe.replace(".", "-")
