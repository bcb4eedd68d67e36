"""A lease: of several processes that could deliver to the same files, one does."""

from __future__ import annotations

import os
import time
from pathlib import Path

import msgspec

from chiplog.core.files import make_dir
from chiplog.store import process

RENEW = 10.0  # s
EXPIRES = 60.0  # s without renewal; sooner when the holder is seen to be gone


class Holder(msgspec.Struct):
    host: str
    pid: int
    born: int


class Lease:
    """A small file that belongs to the process named in it, as long as that one keeps touching it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._me = Holder(process.hostname(), os.getpid(), process.born(os.getpid()))
        self._token = f"{os.getpid()}-{id(self):x}"
        self._held = 0.0

    def hold(self) -> bool:
        """Take or renew the lease; false while somebody else has it."""
        now = time.monotonic()
        if self._held:
            if now - self._held > RENEW:
                try:
                    os.utime(self._path)
                    self._held = now
                except OSError:
                    self._held = 0.0
            if self._held:
                return True
        if self._take():
            self._held = now
            return True
        return False

    def release(self) -> None:
        if self._held:
            self._held = 0.0
            self._path.unlink(missing_ok=True)

    def _take(self) -> bool:
        make_dir(self._path.parent)
        for _ in range(2):
            try:
                fd = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            except FileExistsError:
                if not self._stale():
                    return False
                self._path.unlink(missing_ok=True)
                continue
            with os.fdopen(fd, "wb") as file:
                file.write(msgspec.json.encode(self._me))
            return True
        return False

    def _stale(self) -> bool:
        try:
            age = time.time() - self._path.stat().st_mtime
            holder = msgspec.json.decode(self._path.read_bytes(), type=Holder)
        except FileNotFoundError:
            return True
        except (OSError, msgspec.MsgspecError):
            return age > EXPIRES
        if holder.host == self._me.host:
            return not process.alive(holder.pid, holder.born)
        return age > EXPIRES
