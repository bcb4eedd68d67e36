"""What a disk is like: near or far away, quick or slow."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from chiplog.core import notes
from chiplog.core.errors import Unwritable

T = TypeVar("T")

SLOW = 10_000_000  # ns: a write that takes longer hands the writing over to the keeper
PAUSES = (0.1, 0.2, 0.0)  # s after each time that a disk refused at the door
REACH = (5.0, 30.0)  # s after which a file system that does not answer is named, and given up
FAR = ("nfs", "fuse", "lustre", "gpfs", "beegfs", "ceph", "cifs", "smb", "afs", "9p", "virtiofs")


def durability(path: Path) -> str:
    durability, kind = default_durability(path.resolve(), _mounts())
    if durability == "relaxed":
        notes.say(
            f"{path} is on a network file system ({kind}): records are written in the background, at most 0.5 s behind "
            "(durability='relaxed'; set durability='process' to have each on disk before log() returns)"
        )
    return durability


def default_durability(path: Path, mounts: str) -> tuple[str, str]:
    """(`process` or `relaxed`, file system type) for a path, from the text of /proc/self/mounts."""
    best, kind = "", ""
    for line in mounts.splitlines():
        fields = line.split(" ")
        if len(fields) < 3:
            continue
        point = fields[1].replace("\\040", " ")
        if len(point) > len(best) and (path == Path(point) or Path(point) in path.parents):
            best, kind = point, fields[2]
    return ("relaxed" if kind.startswith(FAR) else "process"), kind


def reach(path: Path) -> None:
    """Wait until the file system of a path answers, or fail: without its server, `init` would hang for ever."""
    if not some_far(_mounts()):
        return
    answered = _ask(path)
    if answered.wait(REACH[0]):
        return
    notes.say(f"waiting for the file system of {path}, which does not answer")
    if not answered.wait(REACH[1] - REACH[0]):
        raise Unwritable(
            f"the file system of {path} has not answered for {REACH[1]:.0f} s; "
            "choose another place with init(dir=...) or CHIPLOG_DIR"
        )


def patiently(path: Path, question: Callable[[], T]) -> T:
    """The answer to a question at the door; a disk that refuses for a moment is asked again."""
    for pause in PAUSES:
        try:
            return question()
        except OSError as error:
            refused = error
        time.sleep(pause)
    raise Unwritable(
        f"cannot write {path}: {refused.strerror or refused}; choose another place with init(dir=...) or CHIPLOG_DIR"
    )


def some_far(mounts: str) -> bool:
    """Whether any file system here has a server that may not answer."""
    return any(line.split(" ")[2:3] and line.split(" ")[2].startswith(FAR) for line in mounts.splitlines())


def _ask(path: Path) -> threading.Event:
    """Set as soon as the file system of a path answers; the path need not be there yet."""
    answered = threading.Event()

    def call() -> None:
        nearest = path
        try:
            while not nearest.exists():
                nearest = nearest.parent
            os.statvfs(nearest)  # is never answered from a cache
        except OSError:
            pass  # an answer, too
        answered.set()

    threading.Thread(target=call, name="chiplog-ask", daemon=True).start()
    return answered


def _mounts() -> str:
    try:
        return Path("/proc/self/mounts").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def waited_for_disk(fd: int, before: int) -> bool:
    """Whether a write that has taken long since `before` waited for the disk. If busy threads of this process held the
    interpreter, letting go of it takes long without a write, too; if others held the processor, the next is quick."""
    took = time.monotonic_ns() - before
    for _ in range(5):
        before = time.monotonic_ns()
        time.sleep(0)
        if took < SLOW + 4 * (time.monotonic_ns() - before):
            return False
    before = time.monotonic_ns()
    try:
        os.write(fd, b"\n")  # an empty line is nothing to a reader
    except OSError:
        return True
    return time.monotonic_ns() - before > SLOW
