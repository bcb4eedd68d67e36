"""A backend that a script has added to `tracker._backends`: called in the script's own thread, as the original does."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from chiplog.core import messages
from chiplog.core.values.text import reason
from chiplog.frontends.kempnerforge.logger import get_logger
from chiplog.sinks.adapters.direct_calls import DirectCalls

_logger = get_logger("metrics.tracker")


class OwnBackend:
    """Calls one backend. A call that raises is retried, then skipped and counted; in an outage rows wait for the next
    call, and for the end."""

    def __init__(self, native: Any) -> None:
        self.native = native
        self._calls = DirectCalls(self._report)

    def log(self, metrics: Mapping[str, object], step: int) -> None:
        self._calls.call(partial(self.native.log, dict(metrics), step=step))

    def close(self) -> None:
        """Deliver what waits, report what was not delivered, and close the backend."""
        if missed := self._calls.close():
            rows = f"{missed:,} row{'s' * (missed != 1)}"
            _logger.warning(f"{self._name} has not accepted {rows} ({self._calls.why}); the journal has everything")
        try:
            self.native.close()
        except Exception as error:
            self._report(error)

    def _report(self, error: Exception) -> None:
        if messages.first(f"kempnerforge backend {id(self.native)}"):
            _logger.warning(f"{self._name} fails: {reason(error)}; training continues")

    @property
    def _name(self) -> str:
        return type(self.native).__name__
