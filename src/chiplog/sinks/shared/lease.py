"""A lease: lets one of several processes deliver to the same files."""

from __future__ import annotations

import os
import time
from pathlib import Path

import msgspec

from chiplog.core.files import reading, writing
from chiplog.store import layout
from chiplog.store.journal.cursors import services
from chiplog.store.runs import liveness

RENEW = 10.0  # s
UNREADABLE = 1.0  # s after which a lease that names no process is free
SIZE = 64 << 10  # bytes of a lease at most
EXPIRES = 60.0  # s without renewal; sooner if the holder is seen to be gone


class Holder(msgspec.Struct, frozen=True):
    host: str
    pid: int
    born: int
    token: str
    boot: str = ""
    pid_namespace: int = 0


class Lease:
    """A small file that belongs to the process named in it, as long as that process keeps touching it."""

    def __init__(self, path: Path) -> None:
        self._run, self._name = path.parents[1], f"{path.parent.name}/{path.name}"
        pid = os.getpid()
        self._me = Holder(
            liveness.hostname(),
            pid,
            liveness.born(pid),
            os.urandom(8).hex(),
            liveness.boot_id(),
            liveness.pid_namespace(),
        )
        self._held = 0.0

    @property
    def sink(self) -> str:
        """The name of the sink's cursor."""
        return Path(self._name).stem

    def hold(self) -> bool:
        """Acquire or renew the lease; false while another process has it."""
        now = time.monotonic()
        if self._held and now - self._held <= RENEW:
            return True
        self._held = now if self._renew() or self._acquire() else 0.0
        return bool(self._held)

    def release(self) -> None:
        if self._held and self._renew():
            writing.unlink(self._run, self._name)
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
        return not reading.exists(self._run, self._name) or self._stale()

    def _renew(self) -> bool:
        """Touch the lease if it is still ours."""
        if not self._held or self._holder() != self._me:
            return False
        try:
            with reading.open_file(self._run, self._name) as file:
                os.utime(file.fileno())
        except OSError:
            return False
        return True

    def _holder(self) -> Holder | None:
        try:
            return msgspec.json.decode(reading.read_bytes(self._run, self._name, SIZE), type=Holder)
        except (OSError, ValueError, RecursionError):
            return None

    def _acquire(self) -> bool:
        """Create the lease, or replace a stale one and check that ours stayed."""
        writing.make_folder(self._run, str(Path(self._name).parent))
        data = msgspec.json.encode(self._me)
        try:
            writing.create(self._run, self._name, data)
        except FileExistsError:
            if not self._stale():
                return False
            writing.replace(self._run, self._name, data)
        return self._holder() == self._me

    def _stale(self) -> bool:
        try:
            age = time.time() - reading.status(self._run, self._name).st_mtime
        except OSError:
            return True
        holder = self._holder()
        if holder is None:  # empty or damaged: a full disk, or a kill between the two calls that make it
            return abs(age) > UNREADABLE
        alive = liveness.is_alive(holder)
        return abs(age) > EXPIRES if alive is None else not alive


def wait_for_files(run: Path, patience: float = 10.0) -> None:
    """Wait until the sinks that keep files of a run, unlike its services, have released them, or time is up."""
    remote = services(run)
    leases = [Lease(run / name) for name in reading.matching(run, layout.CURSORS, ".lease")]
    leases = [lease for lease in leases if lease.sink not in remote]
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline and not all(lease.free() for lease in leases):
        time.sleep(0.05)


class _Relay(msgspec.Struct):
    pid: int = 0


def _relays(run: Path) -> set[int]:
    """The process ids of the relays of a run."""
    pids = set()
    for file in reading.matching(run, layout.RELAY, ".json"):
        try:
            pids.add(msgspec.json.decode(reading.read_bytes(run, file), type=_Relay).pid)
        except (OSError, ValueError, RecursionError):
            continue  # being written
    return pids
