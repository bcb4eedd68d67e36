"""What a disk is like: near or far away, quick or slow."""

from __future__ import annotations

import os
import time
from pathlib import Path

SLOW = 10_000_000  # ns: a write that takes longer hands the writing over to the keeper


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
    far = kind.startswith(("nfs", "fuse", "lustre", "gpfs", "beegfs", "ceph", "cifs", "smb", "afs", "9p", "virtiofs"))
    return ("relaxed" if far else "process"), kind


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
