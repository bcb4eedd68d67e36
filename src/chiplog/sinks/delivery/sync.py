"""Delivery from outside the training process, of what the services of a stored run do not have yet.

The relay uses it to follow the journal of a live run, and `chiplog sync` later.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from chiplog.core.errors import Refused
from chiplog.core.identity import Identity
from chiplog.core.records import Plain
from chiplog.core.values.redact import redact_values
from chiplog.core.values.text import reason, words
from chiplog.sinks import registry
from chiplog.sinks.delivery.courier import POLL, Courier
from chiplog.sinks.delivery.retries import BACK_OFF
from chiplog.sinks.delivery.secrets import secrets_of
from chiplog.store import layout, manifest
from chiplog.store.layout import Segment

Health = Mapping[str, Mapping[str, Plain]]


class Sync:
    """Couriers for some services of one stored run. One that cannot be opened fails alone."""

    def __init__(
        self, run: Path, services: Mapping[str, Mapping[str, Plain]], environ: Mapping[str, str], cwd: str
    ) -> None:
        self._run, self._services, self._environ = run, services, environ
        self._failed: dict[str, str] = {}
        self._refused: set[str] = set()  # those that a person can let in
        self._couriers: list[Courier] = []
        self._identity = identity_of(run, cwd)
        for name in services:
            self._open(name)

    def _open(self, name: str) -> None:
        identity, options = self._identity, self._services[name]
        secrets = secrets_of(options, identity.cwd, self._environ)
        try:
            registry.check_ready(name, options, self._environ)
            sink = registry.open_named(name, options, identity, self._environ)
        except Refused as error:
            self._failed[name] = redact_values(reason(error), secrets)
            self._refused.add(name)
        except Exception as error:  # packages may raise anything when they are imported
            self._failed[name] = redact_values(words(error), secrets)
        else:
            self._failed.pop(name, None)
            segment = Segment(identity.rank, identity.attempt, 0)
            self._couriers.append(Courier(name, sink, self._run, segment, secrets=secrets))

    def _try_again(self) -> None:
        """Open what was refused before, if it is accepted now."""
        before = len(self._couriers)
        for name in self._refused & self._failed.keys():
            self._open(name)
        for courier in self._couriers[before:]:
            courier.start()

    def run(self, ended: Callable[[], bool], patience: float, report: Callable[[Health], None]) -> dict[str, str]:
        """Deliver until the run has ended and everything is delivered, or nothing was for `patience` seconds; what is
        undelivered, by service. `report` gets the health several times per second."""
        for courier in self._couriers:
            courier.start()
        tried = time.monotonic()
        while not ended():
            report(self.health())
            time.sleep(POLL)
            if self._failed and time.monotonic() - tried > BACK_OFF[1]:
                self._try_again()
                tried = time.monotonic()
        self._try_again()
        for courier in self._couriers:
            courier.close(patience)
        delivered, moved = -1, time.monotonic()
        while not all(courier.over for courier in self._couriers) and time.monotonic() - moved < patience:
            report(self.health())
            time.sleep(POLL / 5)
            now = sum(courier.delivered + courier.moves for courier in self._couriers)
            if now != delivered:
                delivered, moved = now, time.monotonic()
        left = {courier.name: courier.join(0) for courier in self._couriers}
        report(self.health())
        unopened = {name: f"it cannot be opened ({why})" for name, why in self._failed.items()}
        return unopened | {name: what for name, what in left.items() if what is not None}

    @property
    def failing(self) -> list[str]:
        """The services that a later try may reach."""
        return [courier.name for courier in self._couriers if courier.failing]

    def health(self) -> Health:
        failed = {"state": "failing", "delivered": 0, "rejected": 0, "lag_bytes": 0, "errors": 1}
        return {
            **{courier.name: courier.health() for courier in self._couriers},
            **{name: {**failed, "last_error": why} for name, why in self._failed.items()},
        }


def identity_of(run: Path, cwd: str) -> Identity:
    """The identity of a run, read from its directory; but the folder `cwd`, in which a service finds settings and keys,
    is the user's own choice."""
    about = manifest.load(run)
    ranks = [segment for segment in layout.segments(run) if segment.rank == about.rank]
    return Identity(
        about.project,
        about.id,
        run,
        about.name,
        os.urandom(8).hex(),
        about.tags,
        about.rank,
        attempt=ranks[-1].attempt if ranks else 1,
        config=about.config,
        cwd=cwd,
        script=str(about.environment.get("script", "")),
    )
