"""A lease: lets one of several processes deliver to the same files."""

from __future__ import annotations

import os
import time
from pathlib import Path

import msgspec

from chiplog.store import layout
from chiplog.store.journal.cursors import enrolled
from chiplog.store.runs import liveness
from chiplog.store.runs.manifest import write_whole

RENEW = 10.0  # s
EXPIRES = 60.0  # s without renewal; sooner if the holder is seen to be gone


class Holder(msgspec.Struct, frozen=True):
    host: str
    pid: int
    born: int
    token: str


class Lease:
    """A small file that belongs to the process named in it, as long as that process keeps touching it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        pid = os.getpid()
        self._me = Holder(liveness.hostname(), pid, liveness.born(pid), os.urandom(8).hex())
        self._held = 0.0

    def hold(self) -> bool:
        """Acquire or renew the lease; false while another process has it."""
        now = time.monotonic()
        if self._held and now - self._held <= RENEW:
            return True
        self._held = now if self._renew() or self._acquire() else 0.0
        return bool(self._held)

    def release(self) -> None:
        if self._held and self._renew():
            self._path.unlink(missing_ok=True)
        self._held = 0.0

    def held_by(self, run: Path) -> str:
        """The process that has it, in words."""
        holder = self._holder()
        if holder is None:
            return "another process"
        where = "" if holder.host == self._me.host else f" on {holder.host}"
        return f"{'the relay process' if holder.pid in _relays(run) else 'process'} {holder.pid}{where}"

    def free(self) -> bool:
        """Whether no process has it."""
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

    def _acquire(self) -> bool:
        """Create the lease, or replace a stale one and check that ours stayed."""
        self._path.parent.mkdir(mode=0o700, exist_ok=True)  # but not the run, which may just have been renamed
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


def wait_for_files(run: Path, patience: float = 10.0) -> None:
    """Wait until the sinks that keep files of a run, unlike its services, have released them, or time is up."""
    services = {layout.slug(name) for name in enrolled(run)}
    leases = [Lease(path) for path in (run / layout.CURSORS).glob("*.lease") if path.stem not in services]
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline and not all(lease.free() for lease in leases):
        time.sleep(0.05)


class _Relay(msgspec.Struct):
    pid: int = 0


def _relays(run: Path) -> set[int]:
    """The process ids of the relays of a run."""
    pids = set()
    for file in (run / layout.RELAY).glob("[!.]*.json"):
        try:
            pids.add(msgspec.json.decode(file.read_bytes(), type=_Relay).pid)
        except (OSError, ValueError):
            continue  # being written
    return pids
