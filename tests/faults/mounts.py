"""Real file systems for the fault tests: disks whose power can be cut, and one whose server can be stopped."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.waiting import wait_for

MAKE = {"ext4": ("mkfs.ext4", "-q", "-F"), "xfs": ("mkfs.xfs", "-q", "-f")}
# Without these the file system would write by itself what nobody has asked it to sync, or refuse a copy of itself.
OPTIONS = {"ext4": "loop,commit=60", "xfs": "loop"}
COPY_OPTIONS = {"ext4": "loop", "xfs": "loop,nouuid"}


def need(*tools: str) -> None:
    """Skip where a real file system cannot be mounted."""
    if os.geteuid() != 0:
        pytest.skip("mounting needs root")
    for tool in ("mount", *tools):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed")


@contextmanager
def mounted(what: Path, point: Path, options: str) -> Iterator[Path]:
    point.mkdir(exist_ok=True)
    done = subprocess.run(["mount", "-o", options, str(what), str(point)], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"this machine does not let root mount {what.name}: {done.stderr.strip()}")
    try:
        yield point
    finally:
        if subprocess.run(["umount", str(point)], capture_output=True, check=False).returncode:
            subprocess.run(["umount", "-l", str(point)], check=True)  # the loop device goes with the last user


class Disk:
    """A mounted disk image. It lies on an XFS of its own, where a clone of a file is the file at one instant."""

    def __init__(self, image: Path, path: Path, kind: str) -> None:
        self.path = path
        self._image, self._kind = image, kind
        self._cuts = 0

    @contextmanager
    def cut(self) -> Iterator[Path]:
        """What a disk that loses power just now holds, mounted again: nothing of what is only in memory."""
        unsynced = self.path / "unsynced"
        unsynced.write_bytes(bytes(5000))
        self._cuts += 1
        copy = self._image.with_name(f"cut-{self._cuts}")
        subprocess.run(["cp", "--reflink=always", str(self._image), str(copy)], check=True)
        with mounted(copy, self._image.parent.parent / f"cut-{self._cuts}", COPY_OPTIONS[self._kind]) as point:
            left = point / "unsynced"
            assert not left.exists() or left.stat().st_size == 0, "the copy holds what was never synced"
            yield point
        copy.unlink()
        unsynced.unlink()


@contextmanager
def disk(folder: Path, kind: str) -> Iterator[Disk]:
    """A disk with a file system of its own, whose power can be cut."""
    need("umount", "mkfs.xfs", MAKE[kind][0])
    folder.mkdir(parents=True, exist_ok=True)
    below = folder / "below.img"
    with below.open("wb") as file:
        file.truncate(2 << 30)
    subprocess.run([*MAKE["xfs"], "-m", "reflink=1", str(below)], check=True)
    with mounted(below, folder / "below", "loop") as ground:
        image = ground / "disk.img"
        with image.open("wb") as file:
            file.truncate(400 << 20)
        subprocess.run([*MAKE[kind], str(image)], check=True)
        with mounted(image, folder / "disk", OPTIONS[kind]) as path:
            yield Disk(image, path, kind)


class Passthrough:
    """A directory seen through a FUSE server. While that is stopped, whoever touches `path` waits."""

    def __init__(self, folder: Path) -> None:
        self.behind, self.path = folder / "behind", folder / "fuse"
        self.behind.mkdir()
        self.path.mkdir()
        self._server = subprocess.Popen(["bindfs", "-f", str(self.behind), str(self.path)], stderr=subprocess.PIPE)
        wait_for(lambda: self._server.poll() is not None or os.path.ismount(self.path), 20, "the FUSE mount")
        if self._server.poll() is not None:
            pytest.skip(f"this machine does not let root mount FUSE: {self._server.communicate()[1]!r}")

    def stop(self) -> None:
        self._server.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self._server.pid, os.WSTOPPED)

    def go_on(self) -> None:
        self._server.send_signal(signal.SIGCONT)

    def close(self) -> None:
        self.go_on()
        subprocess.run(["umount", "-l", str(self.path)], check=True)
        self._server.terminate()
        self._server.communicate(timeout=60)


@pytest.fixture
def passthrough(tmp_path: Path) -> Iterator[Passthrough]:
    need("umount", "bindfs")
    made = Passthrough(tmp_path)
    yield made
    made.close()
