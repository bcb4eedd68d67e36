"""Delivery from outside the training process: what a stored run's services do not have yet.

The relay beside a training is this, following the journal; `chiplog sync` is this, later.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from chiplog.core.identity import Identity
from chiplog.core.texts import words
from chiplog.sinks import registry
from chiplog.sinks.delivery import POLL, Courier
from chiplog.store import layout, manifest
from chiplog.store.layout import Segment

Health = Mapping[str, Mapping[str, Any]]


class Sync:
    """Couriers for some services of one stored run. Each that cannot be opened is a failure of its own."""

    def __init__(self, run: Path, services: Mapping[str, Mapping[str, Any]], environ: Mapping[str, str]) -> None:
        self._failed: dict[str, str] = {}
        self._couriers: list[Courier] = []
        identity = identity_of(run)
        for name, options in services.items():
            try:
                sink = registry.open_named(name, options, identity, environ)
            except Exception as error:  # the packages of services raise all sorts of things when they are imported
                self._failed[name] = words(error)
            else:
                self._couriers.append(Courier(name, sink, run, Segment(identity.rank, identity.attempt, 0)))

    def run(self, ended: Callable[[], bool], patience: float, tell: Callable[[Health], None]) -> dict[str, str]:
        """Deliver until the run has ended and all is delivered, or nothing has been for `patience` seconds; what is
        undelivered, by service. `tell` hears several times a second how it goes."""
        for courier in self._couriers:
            courier.start()
        while not ended():
            tell(self.health())
            time.sleep(POLL)
        for courier in self._couriers:
            courier.close(patience)
        delivered, moved = -1, time.monotonic()
        while not all(courier.over for courier in self._couriers) and time.monotonic() - moved < patience:
            tell(self.health())
            time.sleep(POLL / 5)
            now = sum(courier.delivered for courier in self._couriers)
            if now != delivered:
                delivered, moved = now, time.monotonic()
        left = {courier.name: courier.join(0) for courier in self._couriers}
        tell(self.health())
        return self._failed | {name: what for name, what in left.items() if what is not None}

    def health(self) -> Health:
        failed = {"state": "failing", "delivered": 0, "rejected": 0, "lag_bytes": 0, "errors": 1}
        return {
            **{courier.name: courier.health() for courier in self._couriers},
            **{name: {**failed, "last_error": why} for name, why in self._failed.items()},
        }


def identity_of(run: Path) -> Identity:
    """Which run it is, as its directory says it."""
    about = manifest.load(run)
    ranks = [segment for segment in layout.segments(run) if segment.rank == 0]
    return Identity(
        about.project,
        about.id,
        run,
        about.name,
        os.urandom(8).hex(),
        about.tags,
        attempt=ranks[-1].attempt if ranks else 1,
        config=about.config,
        cwd=str(about.environment.get("cwd", "")),
        script=str(about.environment.get("script", "")),
    )
