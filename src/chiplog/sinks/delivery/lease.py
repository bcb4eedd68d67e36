"""A lease: of several processes that could deliver to the same files, one does."""

from __future__ import annotations

import os
import time
from pathlib import Path

import msgspec

from chiplog.store import layout
from chiplog.store.runs import liveness
from chiplog.store.runs.manifest import write_whole

RENEW = 10.0  # s
EXPIRES = 60.0  # s without renewal; sooner when the holder is seen to be gone


class Holder(msgspec.Struct, frozen=True):
    host: str
    pid: int
    born: int
    token: str


class Lease:
    """A small file that belongs to the process named in it, as long as that one keeps touching it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        pid = os.getpid()
        self._me = Holder(liveness.hostname(), pid, liveness.born(pid), os.urandom(8).hex())
        self._held = 0.0

    def hold(self) -> bool:
        """Take or renew the lease; false while somebody else has it."""
        now = time.monotonic()
        if self._held and now - self._held <= RENEW:
            return True
        self._held = now if self._renew() or self._take() else 0.0
        return bool(self._held)

    def release(self) -> None:
        if self._held and self._renew():
            self._path.unlink(missing_ok=True)
        self._held = 0.0

    def held_by(self, run: Path) -> str:
        """Who has it, in words."""
        holder = self._holder()
        if holder is None:
            return "another process"
        where = "" if holder.host == self._me.host else f" on {holder.host}"
        return f"{'the relay process' if holder.pid in _relays(run) else 'process'} {holder.pid}{where}"

    def free(self) -> bool:
        """Whether nobody has it."""
        return not self._path.exists() or self._stale()

    def _renew(self) -> bool:
        """Touch the lease if it is still ours."""
        if not self._held or self._holder() != self._me:
            return False
        try:
            os.utime(self._path)
        except OSError:
            return False
        return True

    def _holder(self) -> Holder | None:
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=Holder)
        except (OSError, msgspec.MsgspecError):
            return None

    def _take(self) -> bool:
        """Create the lease, or put ours in the place of a stale one and see whether it stayed there."""
        self._path.parent.mkdir(mode=0o700, exist_ok=True)  # and not the run, which may just have been renamed
        data = msgspec.json.encode(self._me)
        try:
            fd = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        except FileExistsError:
            if not self._stale():
                return False
            write_whole(self._path, data)
        else:
            with os.fdopen(fd, "wb") as file:
                file.write(data)
        return self._holder() == self._me

    def _stale(self) -> bool:
        try:
            age = time.time() - self._path.stat().st_mtime
        except OSError:
            return True
        holder = self._holder()
        if holder is not None and holder.host == self._me.host:
            return not liveness.alive(holder.pid, holder.born)
        return age > EXPIRES


class _Relay(msgspec.Struct):
    pid: int = 0


def _relays(run: Path) -> set[int]:
    """The processes of the relays that a run has had."""
    found = set()
    for file in (run / layout.RELAY).glob("[!.]*.json"):
        try:
            found.add(msgspec.json.decode(file.read_bytes(), type=_Relay).pid)
        except (OSError, ValueError):
            continue  # it is being written
    return found
