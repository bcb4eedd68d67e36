"""Tells local from network file systems, and slow writes from a busy interpreter."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from chiplog.core import messages
from chiplog.core.errors import Unwritable
from chiplog.core.operating_system import check_writes, exists, is_dir

T = TypeVar("T")

SLOW = 10_000_000  # ns: after a slower write, the background thread writes
PAUSES = (0.1, 0.2, 0.0)  # s after each failed try during init
MEANS = "init(dir=...) or CHIPLOG_DIR"  # how a script chooses the directory
REACH = (5.0, 30.0)  # s until a file system that does not answer is reported, and given up
PROBE = 4096  # bytes that must be writable
FAR = ("nfs", "fuse", "lustre", "gpfs", "beegfs", "ceph", "cifs", "smb", "afs", "9p", "virtiofs")


def durability(path: Path) -> str:
    durability, kind = default_durability(path.resolve(), _mounts())
    if durability == "relaxed":
        messages.say(
            f"{path} is on a network file system ({kind}): records are written in the background, at most 0.5 s behind "
            "(durability='relaxed'; set durability='process' to write each before log() returns)"
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


def reach(path: Path, means: str = MEANS) -> None:
    """Wait until the file system of a path answers, or fail: without its server, `init` would hang forever."""
    check_writes("train in WSL, or pass init(mode='disabled')")
    if not has_network(_mounts()):
        return
    answered = _ask(path)
    if answered.wait(REACH[0]):
        return
    messages.say(f"the file system of {path} does not answer; waiting")
    if not answered.wait(REACH[1] - REACH[0]):
        raise Unwritable(
            f"the file system of {path} has not answered for {REACH[1]:.0f} s; choose another directory with {means}"
        )


def patiently(path: Path, question: Callable[[], T], means: str = MEANS) -> T:
    """Call a function during init, and retry it if the disk refuses for a moment."""
    for pause in PAUSES:
        try:
            return question()
        except OSError as error:
            refused = error
        time.sleep(pause)
    raise Unwritable(f"cannot write {path}: {refused.strerror or refused}; choose another directory with {means}")


def check(path: Path, means: str = MEANS) -> None:
    """Fail if a run could not be written; leaves nothing but the directory above it."""
    reach(path, means)
    patiently(path, lambda: _try(path), means)


def temporary() -> str | None:
    """A new private directory, on disk or in memory; None if there is no room for one."""
    import tempfile  # takes 5 ms, and is rarely needed

    for folder in (None, "/dev/shm"):
        try:
            return tempfile.mkdtemp(prefix="chiplog-", dir=folder)
        except OSError:
            continue
    return None


def _try(path: Path) -> None:
    folder = next((one for one in (path / "journal", path) if is_dir(one)), path.parent)
    folder.mkdir(parents=True, exist_ok=True)
    probe = folder / f".{os.urandom(4).hex()}"
    try:
        probe.write_bytes(b"\0" * PROBE)
    finally:
        probe.unlink(missing_ok=True)


def has_network(mounts: str) -> bool:
    """Whether any file system here has a server that may not answer."""
    return any(line.split(" ")[2:3] and line.split(" ")[2].startswith(FAR) for line in mounts.splitlines())


def _ask(path: Path) -> threading.Event:
    """An event that is set once the file system of a path answers; the path need not exist."""
    answered = threading.Event()

    def call() -> None:
        nearest = path
        try:
            while not exists(nearest):
                nearest = nearest.parent
            os.statvfs(nearest)  # is never answered from a cache
        except OSError:
            pass  # an answer, too
        answered.set()

    try:
        threading.Thread(target=call, name="chiplog-ask", daemon=True).start()
    except RuntimeError:  # no thread can be started: ask here, and wait if need be
        call()
    return answered


def _mounts() -> str:
    try:
        return Path("/proc/self/mounts").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def waited_for_disk(fd: int, before: int) -> bool:
    """Whether a write that has been slow since `before` waited for the disk.

    If busy threads held the interpreter, releasing it is slow even without a write; if other processes held the CPU,
    the next write is fast.
    """
    took = time.monotonic_ns() - before
    for _ in range(5):
        before = time.monotonic_ns()
        time.sleep(0)
        if took < SLOW + 4 * (time.monotonic_ns() - before):
            return False
    before = time.monotonic_ns()
    try:
        os.write(fd, b"\n")  # readers skip an empty line
    except OSError:
        return True
    return time.monotonic_ns() - before > SLOW
