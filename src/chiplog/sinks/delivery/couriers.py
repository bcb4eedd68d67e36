"""The delivery of a run: one courier per sink, all waited for and ended together."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from chiplog.core import messages
from chiplog.core.engine.shutdown import SinkDelivery
from chiplog.core.protocols import Sink
from chiplog.sinks.adapters.factories import Natives
from chiplog.sinks.delivery.courier import Courier
from chiplog.sinks.delivery.destinations import enrol
from chiplog.sinks.delivery.secrets import secrets_of
from chiplog.store import layout

GRACE = 5.0  # s, at most, for a backend to finish its current call and to close


def deliver(
    run: Path,
    segment: layout.Segment,
    sinks: Mapping[str, Sink],
    services: Mapping[str, Mapping[str, object]] | None = None,
    *,
    cwd: str = "",
    environ: Mapping[str, str] | None = None,
) -> SinkDelivery:
    """Start a courier for every sink; the services among them are noted with their options, for a later process."""
    for name, options in (services or {}).items():
        try:
            enrol(run, name, options, cwd, environ or {})
        except (OSError, TypeError) as error:  # a full disk, or an option that only this process has
            messages.say(f"`chiplog sync` will not find sink {name!r} later: {error}")
    secrets = {name: secrets_of(options, cwd, environ or {}) for name, options in (services or {}).items()}
    couriers = [Courier(name, sink, run, segment, secrets=secrets.get(name, ())) for name, sink in sinks.items()]
    for courier in couriers:
        courier.announces = True
        courier.start()
    return SinkDelivery(
        Natives(sinks),
        lambda: {courier.name: courier.health() for courier in couriers},
        lambda timeout: _close(couriers, timeout),
        settle=lambda timeout, *names: _settle([one for one in couriers if one.name in names or not names], timeout),
    )


def _settle(couriers: Sequence[Courier], timeout: float) -> bool:
    deadline = time.monotonic() + timeout
    while not all(courier.relayed or courier.caught_up() for courier in couriers):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.002)
    return True


def _close(couriers: Sequence[Courier], timeout: float) -> dict[str, str]:
    """End all couriers; what is undelivered, by sink. The last part of the time is for closing slow backends."""
    deadline = time.monotonic() + timeout
    for courier in couriers:
        courier.close(timeout)
    grace = min(GRACE, timeout / 6)
    for courier in couriers:
        courier.wait(deadline - grace - time.monotonic())
    for courier in couriers:
        courier.stop()
    left = {courier.name: courier.join(deadline - time.monotonic()) for courier in couriers}
    return {name: what for name, what in left.items() if what is not None}
