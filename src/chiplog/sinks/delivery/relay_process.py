"""What the relay process does: follows the journal of a live run, delivers it, and ends after the training process."""

from __future__ import annotations

import os
import select
import time
from collections.abc import Mapping
from pathlib import Path

import msgspec

from chiplog.core import messages
from chiplog.core.files import writing
from chiplog.sinks.delivery import waiting_relay
from chiplog.sinks.delivery.relay import DONE, HOUR, Orders, Status
from chiplog.sinks.delivery.sync import Health, Sync
from chiplog.store import layout
from chiplog.store.runs import liveness

WRITE = 0.5  # s between writes of the status


def read_orders() -> Orders:
    """The orders of this relay process: the first line of its input. The last one means that the run has ended."""
    data = _read_line()
    if not data.endswith(b"\n"):
        raise EOFError("the training process ended before sending its configuration")
    return msgspec.json.decode(data, type=Orders)


def serve(orders: Orders, environ: Mapping[str, str]) -> None:
    """Deliver until everything is delivered, or services have failed for too long."""
    later, patience = orders.place >= 0, orders.patience
    if later:
        os.set_inheritable(orders.place, False)
    else:
        os.nice(5)  # training has priority
    trainer = _Trainer(orders.pid, orders.born)
    if orders.standby and trainer.word() == DONE:
        return
    run = Path(orders.run)
    status = Status(os.getpid())
    written = 0.0

    def report(health: Health) -> None:
        nonlocal written
        now = {name: dict(one) for name, one in health.items()}
        if now != status.services and time.monotonic() - written > WRITE:
            status.services, written = now, time.monotonic()
            _write(run, orders.stream, status)

    sync = Sync(run, orders.services, environ, orders.cwd)
    status.missing = sync.run(trainer.ended, patience.retry if later else patience.busy, report)
    failing = {name: orders.services[name] for name in sync.failing}
    if failing and waiting_relay.start(orders, failing, environ):
        left = f"it is tried again for up to {patience.total / HOUR:.0f} hours"
        status.missing |= {name: f"{status.missing[name]}; {left}" for name in failing}
    status.services = {name: dict(one) for name, one in sync.health().items()}
    status.over = True
    _write(run, orders.stream, status)


class _Trainer:
    """The training process, as seen by its relay."""

    def __init__(self, pid: int, born: int) -> None:
        self._pid, self._born = pid, born
        self._ended = False
        self._watched: list[int] = [0]  # our stdin: a line or its end means that the run has ended
        if hasattr(os, "pidfd_open"):
            try:
                self._watched.append(os.pidfd_open(pid))
            except OSError:
                pass  # gone already, or an old kernel

    def word(self) -> bytes:
        """Wait for its next word; empty if it has gone."""
        select.select(self._watched, [], [])
        return _read_line().strip() if select.select([0], [], [], 0)[0] else b""

    def ended(self) -> bool:
        if not self._ended:
            readable, _, _ = select.select(self._watched, [], [], 0)
            self._ended = bool(readable) or not liveness.alive(self._pid, self._born)
        return self._ended


def _read_line() -> bytes:
    """The next line of the input, or what there is of it; one byte at a time, since what follows is for `select`."""
    data = b""
    while not data.endswith(b"\n") and (byte := os.read(0, 1)):
        data += byte
    return data


def _write(run: Path, stream: str, status: Status) -> None:
    try:
        writing.replace(run, f"{layout.RELAY}/{stream}.json", msgspec.json.encode(status))
    except OSError as error:
        messages.once("status", f"cannot write the status of the relay: {error}")
