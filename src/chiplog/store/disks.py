"""What a disk is like: near or far away, quick or slow."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

SLOW = 10_000_000  # ns: a write that takes longer hands the writing over to the keeper
FAR = ("nfs", "fuse", "lustre", "gpfs", "beegfs", "ceph", "cifs", "smb", "afs", "9p", "virtiofs")


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


def some_far(mounts: str) -> bool:
    """Whether any file system here has a server that may not answer."""
    return any(line.split(" ")[2:3] and line.split(" ")[2].startswith(FAR) for line in mounts.splitlines())


def ask(path: Path) -> threading.Event:
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
