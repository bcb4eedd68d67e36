"""The relay: a process separate from training that delivers its journal to services.

So the training process imports none of their packages, shares no interpreter with them and never waits for them at its
end; and if it is killed, its last records still arrive. A pipe tells the relay that the run has ended, and it notices
by itself that the training process has gone. Its output goes to a log in the run directory, its status to a small file
beside that, which `run.health()` reads.
"""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import IO

import msgspec

from chiplog.core import messages
from chiplog.core.background import subprocesses
from chiplog.core.engine.shutdown import SinkDelivery
from chiplog.core.files import reading, writing
from chiplog.core.records import Plain
from chiplog.sinks import registry
from chiplog.sinks.delivery.courier import failure_key, say_failing
from chiplog.sinks.delivery.destinations import enrol
from chiplog.sinks.delivery.run_address import announce
from chiplog.store import layout
from chiplog.store.journal.tail import stream_key
from chiplog.store.layout import Segment
from chiplog.store.runs import liveness

HOUR = 3600.0  # s
CHECK = 2.0  # s between the training's checks of its relay
RESTART = 60.0  # s between two starts of a relay that dies
LOOK, SOON, HOPELESS = 0.25, 1.0, 5.0  # s at the end: between looks at its status; until a failure is reported; and
# the longest wait for services that fail
DONE, START = b"done", b"start"  # to a relay on standby: everything is delivered; deliver
PIPE = 60_000  # bytes that a pipe holds before the writer has to wait


class Patience(msgspec.Struct, frozen=True):
    """How long a relay tries services that fail after the end of the run, in seconds.

    After `busy` seconds of failures it leaves, and another process tries again after pauses that grow.
    """

    busy: float = 600.0
    pauses: tuple[float, float] = (60.0, 600.0)
    retry: float = 30.0  # of failures after a pause
    total: float = 24 * HOUR


PATIENCE = Patience()


class Orders(msgspec.Struct):
    """What a relay has to do; through a pipe, since options may contain secrets."""

    run: str
    stream: str
    pid: int
    born: int
    services: dict[str, dict[str, Plain]]
    cwd: str
    standby: bool = False  # deliver only when told to, or if the training process is killed
    patience: Patience = PATIENCE
    pause: float = 0.0  # s since the last try of services that fail; 0 for the first relay
    ends: float = 0.0  # when they are given up; 0 for the first relay
    place: int = -1  # the descriptor of its place among the waiting relays; -1 for the first relay


def open_log(orders: Orders) -> IO[bytes]:
    """The log of a relay, in the folder of relays of its run, which exists."""
    path = Path(orders.run, layout.RELAY, f"{orders.stream}.log")
    return os.fdopen(writing.open_update(path, 0o600, os.O_APPEND), "ab")


class Status(msgspec.Struct):
    """The status of a relay."""

    pid: int = 0
    over: bool = False
    services: dict[str, dict[str, Plain]] = {}
    missing: dict[str, str] = {}


class Relay:
    """The relay, as seen by the training process."""

    def __init__(
        self,
        run: Path,
        segment: Segment,
        services: Mapping[str, Mapping[str, Plain]],
        environ: Mapping[str, str],
        cwd: str,
        *,
        standby: bool = False,
    ) -> None:
        self.services = list(services)
        self._run, self._environ = run, _with_absolute_paths(environ)
        stream, pid, options = stream_key(segment), os.getpid(), {name: dict(each) for name, each in services.items()}
        self._orders = Orders(str(run), stream, pid, liveness.born(pid), options, cwd, standby, PATIENCE)
        self._name = f"{layout.RELAY}/{stream}"
        self._base = run / self._name
        self._process: subprocess.Popen[bytes] | None = None
        self._started = 0.0
        self._failing: set[str] = set()
        self._start()

    def beside(self, post: SinkDelivery | None) -> SinkDelivery:
        """The delivery of a run: to its local sinks, and through this relay."""
        here = post or SinkDelivery({}, dict, lambda _: {})

        def close(timeout: float) -> dict[str, str]:
            deadline = time.monotonic() + timeout
            self.end()
            undelivered = here.close(timeout)
            return undelivered | self.close(deadline - time.monotonic())

        return SinkDelivery(
            here.sinks, lambda: {**here.health(), **self.health()}, close, tuple(self.services), here.settle
        )

    def check(self) -> float:
        """A background task: report once the address of the run and what fails, and restart a relay that has died."""
        status = self._status()
        self._announce(status)
        failing = _failing(status)
        self._report(
            status, failing & self._failing
        )  # also at the last check, so that a front end could report it first
        self._failing = failing
        if self._process is not None and self._process.returncode is not None and not status.over:
            messages.once(
                f"relay {self._base}",
                f"the relay process ended with code {self._process.returncode} and is restarted; see {self._base}.log",
            )
            if time.monotonic() - self._started > RESTART:
                self.end()
                self._start()
        return CHECK

    def health(self) -> dict[str, Plain]:
        services = self._status().services
        return {name: services.get(name, {"state": "starting"}) for name in self.services}

    def end(self) -> None:
        """Tell the relay that the run has ended."""
        self._tell(b"end")
        self._hang_up()

    def start(self) -> None:
        """Tell a relay on standby to deliver; what fails has been reported."""
        self._orders.standby = False  # for one that is started again
        for name in self.services:
            messages.first(failure_key(name, str(self._base)))
        if self._process is None or self._process.returncode is not None:
            self._start()
        else:
            self._tell(START)

    def dismiss(self) -> None:
        """Tell a relay on standby that it is not needed."""
        self._tell(DONE)
        self._hang_up()

    def close(self, timeout: float) -> dict[str, str]:
        """Wait for the delivery, and return what is undelivered."""
        end = time.monotonic() + timeout
        running = self._process
        looked, failing = 0.0, None
        while running is not None and running.returncode is None and (now := time.monotonic()) < end:
            if now - looked > LOOK:
                looked = now
                failing = (failing or now) if self._only_fails() else None
                if failing is not None and now - failing > SOON:  # a front end could report it first
                    self._report(self._status())
            if failing is not None and now - failing > HOPELESS:
                break
            time.sleep(0.02)
        status = self._status()
        self._announce(status)
        if status.over:
            return {name: f"{what}; `chiplog sync {self._run}` completes it" for name, what in status.missing.items()}
        why = self.promise
        reasons = {name: health.get("last_error", "") for name, health in status.services.items()}
        done = {name for name, health in status.services.items() if health["state"] == "closed"}
        return {
            name: f"{why} ({reasons[name]})" if reasons.get(name) else why for name in self.services if name not in done
        }

    @property
    def promise(self) -> str:
        """What happens to what is not delivered yet."""
        running = self._process
        if running is not None and running.returncode is None:
            return (
                f"the relay process {running.pid} continues for up to {PATIENCE.total / HOUR:.0f} hours; later, "
                f"`chiplog sync {self._run}` completes it"
            )
        return f"the relay process has gone, see {self._base}.log; `chiplog sync {self._run}` completes it"

    def _only_fails(self) -> bool:
        """Whether all that is left to deliver is for services that fail; the relay tries them again later."""
        status = self._status()
        left = {name for name in self.services if status.services.get(name, {}).get("state") != "closed"}
        return bool(left) and left <= _failing(status)

    def _report(self, status: Status, names: Collection[str] | None = None) -> None:
        for name in _failing(status) if names is None else names:
            health = status.services[name]
            say_failing(self._run, name, str(self._base), health["last_error"], again=not health.get("over"))

    def _announce(self, status: Status) -> None:
        for name, health in status.services.items():
            announce(self._run, name, health)

    def _tell(self, word: bytes) -> None:
        try:
            if self._process is not None and self._process.stdin is not None:
                self._process.stdin.write(word + b"\n")
        except (OSError, ValueError):
            pass  # it is gone, or knows that the run has ended

    def _hang_up(self) -> None:
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()

    def _start(self) -> None:
        self._started = time.monotonic()
        try:
            for name, options in self._orders.services.items():
                enrol(self._run, name, options, self._orders.cwd, self._environ)
            writing.make_folder(self._run, layout.RELAY)
            with open_log(self._orders) as log:
                self._process = subprocesses.start(
                    "chiplog.commands.sync.relay", str(self._run), environ=self._environ, stdin=subprocess.PIPE, log=log
                )
            self._send_orders(self._process)
        except OSError as error:
            messages.once(
                f"relay {self._base}",
                f"the relay process cannot be started ({error}); `chiplog sync {self._run}` delivers later",
            )

    def _send_orders(self, process: subprocess.Popen[bytes]) -> None:
        """Send the orders through a pipe: they may hold secrets, which must not be left in a file."""
        data = msgspec.json.encode(self._orders) + b"\n"
        pipe = process.stdin
        assert pipe is not None
        if len(data) <= PIPE:
            pipe.write(data)
        else:  # do not wait until the relay reads them
            threading.Thread(target=_write_all, args=(pipe, data), name="chiplog-orders", daemon=True).start()

    def _status(self) -> Status:
        try:
            return msgspec.json.decode(reading.read_bytes(self._run, f"{self._name}.json"), type=Status)
        except (OSError, ValueError, RecursionError):
            return Status()


def _failing(status: Status) -> set[str]:
    return {name for name, health in status.services.items() if health["state"] == "failing"}


def _with_absolute_paths(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment for a process with another working directory."""
    names = [name for service in registry.SERVICES.values() for name in service.paths if environ.get(name)]
    return {**environ, **{name: str(Path(environ[name]).expanduser().absolute()) for name in names}}


def _write_all(pipe: IO[bytes], data: bytes) -> None:
    try:
        while data:
            data = data[pipe.write(data) :]
    except (OSError, ValueError):
        pass  # it is gone, or the run has ended
