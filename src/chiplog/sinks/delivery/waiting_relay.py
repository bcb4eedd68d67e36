"""A relay that waits, long after the end of its run, for services that are down.

It sleeps without any package in memory. Only so many wait at a time, because every short run during a long outage
leaves one; the others leave their services to `chiplog sync`.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Mapping

import msgspec

from chiplog.core import messages
from chiplog.core.background import subprocesses
from chiplog.core.paths import make_dir, state_dir
from chiplog.core.records import Plain
from chiplog.sinks.delivery.relay import PIPE, Orders, open_log
from chiplog.store.runs import liveness

MOST = 32  # per user and machine


def start(orders: Orders, services: Mapping[str, dict[str, Plain]], environ: Mapping[str, str]) -> bool:
    """Start the process that tries these services again after a pause; false if they are given up."""
    (first, longest), now = orders.patience.pauses, time.time()  # also counts the time that a laptop sleeps
    pause, ends = min(longest, max(first, 2 * orders.pause)), orders.ends or now + orders.patience.total
    place = orders.place if orders.place >= 0 else find_place(environ)
    if place is None or now + pause > ends:
        return False
    later = msgspec.structs.replace(orders, services=dict(services), standby=False, pause=pause, ends=ends, place=place)
    data = msgspec.json.encode(later) + b"\n"
    if len(data) > PIPE:
        return False
    try:
        with open_log(orders) as log:
            words = "chiplog.commands.sync.relay", orders.run
            process = subprocesses.start(
                *words, environ=environ, stdin=subprocess.PIPE, log=log, after=pause, keep=[place]
            )
        assert process.stdin is not None
        with process.stdin as pipe:
            pipe.write(data)
    except OSError as error:
        messages.say(f"the relay process cannot be started again: {error}")
        return False
    return True


def find_place(environ: Mapping[str, str]) -> int | None:
    """A descriptor that holds one of the places for waiting relays as long as it is open; None if all are taken."""
    import fcntl

    folder = state_dir(environ) / "waiting"
    try:
        make_dir(folder)
        for number in range(MOST):
            place = os.open(folder / f"{liveness.hostname()}-{number}", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(place, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(place)
            else:
                return place
    except OSError as error:
        messages.say(f"this relay does not wait for services: {error}")
    return None
