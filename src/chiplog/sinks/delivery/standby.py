"""The relay beside services that run on threads of the training process: it delivers what those cannot."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

import msgspec

from chiplog.core.engine.shutdown import SinkDelivery
from chiplog.core.records import Plain
from chiplog.sinks.delivery.relay import CHECK, Relay
from chiplog.store.layout import Segment


class Standby:
    """A relay that delivers if the training process is killed, and once a service cannot continue there, or is behind
    at the end. The threads keep the services that they deliver to."""

    def __init__(
        self,
        here: SinkDelivery,
        run: Path,
        segment: Segment,
        services: Mapping[str, Mapping[str, Plain]],
        environ: Mapping[str, str],
        cwd: str,
    ) -> None:
        self._here, self._run = here, run
        self._relay = Relay(run, segment, services, environ, cwd, standby=True)
        self._delivers = False

    @property
    def delivery(self) -> SinkDelivery:
        """The delivery of a run: by its threads, and through this relay."""
        return msgspec.structs.replace(self._here, health=self.health, close=self.close)

    def check(self) -> float:
        """A background task: start delivering for a service that cannot continue in this process."""
        if self._delivers:
            return self._relay.check()
        if any(one.get("relayed") for one in self._here.health().values()):
            self._start()
        return CHECK

    def health(self) -> dict[str, Plain]:
        here = self._here.health()
        if not self._delivers:
            return here
        there = self._relay.health()
        moved = {name: one["errors"] for name, one in here.items() if one.get("relayed")}
        return here | {
            name: {**there[name], "errors": errors + there[name].get("errors", 0), "relayed": True}
            for name, errors in moved.items()
        }

    def close(self, timeout: float) -> dict[str, str]:
        """Deliver the rest, and return what is undelivered; the relay continues with it."""
        deadline = time.monotonic() + timeout
        if self._delivers:
            self._relay.end()
        left = self._here.close(timeout)
        behind = {name: what for name, what in left.items() if name in self._relay.services}
        if self._delivers:
            return {name: left[name] for name in left.keys() - behind} | self._relay.close(deadline - time.monotonic())
        health = self._here.health()
        promises = dict.fromkeys(behind, f"`chiplog sync {self._run}` completes it")
        if late := [name for name in behind if not health[name].get("refused")]:
            self._start()
            self._relay.end()
            promises |= dict.fromkeys(late, self._relay.promise)
        else:
            self._relay.dismiss()
        return left | {name: f"{what}; {promises[name]}" for name, what in behind.items()}

    def _start(self) -> None:
        self._relay.start()
        self._delivers = True
