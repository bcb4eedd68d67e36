"""Files that are kept with a run: images and artifacts, written by a thread and never by the caller."""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from pathlib import Path
from typing import IO

from chiplog.core import messages, records
from chiplog.core.engine.recorder import Recorder
from chiplog.core.files.writing import match_run
from chiplog.core.identity import Identity
from chiplog.core.paths import access_of, file_name, make_dir, safe_name, share
from chiplog.core.records import Number, Plain
from chiplog.core.values import convert
from chiplog.core.values.media import Image
from chiplog.core.values.pictures import SUFFIXES, EncodedPicture
from chiplog.core.values.redact import redact_text
from chiplog.core.values.text import cut


class Attachments:
    """Jobs that write a file to the run directory and then record it. The thread starts with the first job."""

    def __init__(self, identity: Identity, recorder: Recorder) -> None:
        self._run, self._recorder, self._held = identity.dir, recorder, recorder.held
        self._jobs: deque[tuple[str, Callable[[], None]]] = deque()
        self._work = threading.Condition()
        self._thread: threading.Thread | None = None
        self._closing = False

    def image(self, name: str, image: Image, step: Number) -> None:
        """Write a logged image under its name; later images of that name have their step in the file name."""
        caption = redact_text(cut(image.caption))
        for picture in image.pictures:
            self._add(name, partial(self._keep_picture, name, picture, caption, step))

    def copy(self, source: Path, name: str | None, media: str, step: Number) -> None:
        """Copy a file or folder under a name, by default its own; an earlier copy of that name stays."""
        import shutil  # by the caller: a child forked while our thread imports could never import the same module

        if self._recorder.keeps and not source.exists():
            raise FileNotFoundError(f"there is no file {str(source)!r}")
        name = convert.name(name or source.name or source.resolve().name)
        is_folder = source.is_dir()

        def keep() -> None:
            for path in self._free("files/artifacts", file_name(name, "" if is_folder else source.suffix)):
                target = self._run / path
                try:
                    if is_folder:
                        shutil.copytree(source, target)
                        match_run(target)
                    else:
                        with source.open("rb") as old, self._create(path) as new:
                            shutil.copyfileobj(old, new, 1 << 20)
                    break
                except FileExistsError:
                    continue
            self._record(path, target.stat().st_size, name=name, media=media, step=step)

        self._add(name, keep)

    def release(self) -> None:
        """Run the jobs that were held until it was decided that this rank keeps the run."""
        self._held = False
        with self._work:
            self._start()

    def close(self, timeout: float) -> list[str]:
        """Wait for the jobs to finish, up to `timeout` seconds; return the names of those that have not."""
        with self._work:
            self._closing = True
            self._work.notify_all()
            self._start()
        if self._thread is not None:
            self._thread.join(max(0.0, timeout))
        elif not self._held:
            self._loop(time.monotonic() + timeout)  # no thread could be started
        return [name for name, _ in list(self._jobs)]

    def forget(self) -> None:
        """Drop the jobs: they belong to the parent of a fork, or to another rank."""
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
                thread = threading.Thread(target=self._loop, name="chiplog-files", daemon=True)
                try:
                    thread.start()
                    self._thread = thread
                except RuntimeError as error:  # tried again with the next job, and at the end
                    messages.once(f"thread {id(self)}", f"files wait: no thread could be started ({error})")
            self._work.notify_all()

    def _loop(self, deadline: float = float("inf")) -> None:
        while time.monotonic() < deadline:
            with self._work:
                while not self._jobs and not self._closing:
                    self._work.wait()
                if not self._jobs:
                    return
                name, job = self._jobs[0]
            try:
                job()
            except BaseException as error:  # a picture of the user may raise anything
                messages.say(f"{name!r} could not be kept with the run: {error}")
            with self._work:
                if self._jobs:  # it stays in the queue while it runs, so that `close` sees it
                    self._jobs.popleft()

    def _free(self, folder: str, name: str, step: Number | None = None) -> Iterator[str]:
        """Free paths in the run directory for a file of this name, in the order of preference; their folders exist."""
        base, dot, suffix = name.rpartition(".") if "." in name.rpartition("/")[2][1:] else (name, "", "")
        at = "" if step is None else f"-{safe_name(f'{step:.15g}')}"
        for number in count(1):
            mark = "" if number == 1 else at if number == 2 and at else f"{at}-{number}"
            path = f"{folder}/{base}{mark}{dot}{suffix}"
            try:
                make_dir((self._run / path).parent, access_of(self._run))
            except (FileExistsError, NotADirectoryError):  # a file has the name of the folder
                path = f"{folder}/{path.removeprefix(folder + '/').replace('/', '-')}"
            if not (self._run / path).exists():
                yield path

    def _keep_picture(self, name: str, picture: EncodedPicture, caption: str, step: Number) -> None:
        for path in self._free("files/media", file_name(name, SUFFIXES[picture.media]), step):
            try:
                with self._create(path) as file:
                    file.write(picture.data)
                break
            except FileExistsError:
                continue  # another process took the path
        self._record(path, len(picture.data), name=name, media=picture.media, caption=caption, step=step)

    def _record(self, path: str, size: int, **fields: Plain) -> None:
        self._recorder.write(records.File, path=path, size=size, **fields)

    def _create(self, path: str) -> IO[bytes]:
        fd = os.open(self._run / path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        share(fd, access_of(self._run))
        return os.fdopen(fd, "wb")
