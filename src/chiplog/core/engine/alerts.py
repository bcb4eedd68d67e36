"""Alerts: recorded, and passed to listeners."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from chiplog.core import records
from chiplog.core.engine.recorder import Recorder
from chiplog.core.protocols import Finding
from chiplog.core.records import Number
from chiplog.core.values import convert
from chiplog.core.values.redact import hide, redact_text
from chiplog.core.values.text import cut

Listener = Callable[[records.Alert], object]


class Alerts:
    """Turns findings into alert records and calls the listeners, on the thread that found them."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self.listeners: list[Listener] = []

    def write_by_hand(self, finding: Finding, step: Number) -> None:
        """Write the alert of a caller; an unknown level is reported and becomes a warning."""
        if finding.level not in records.LEVELS:
            choices = ", ".join(records.LEVELS)
            self._recorder.failed("alert", ValueError(f"no alert level {finding.level!r}; there are: {choices}"))
            finding = msgspec.structs.replace(finding, level="warn")
        self.write(finding, "", step)

    def write(self, finding: Finding, rule: str, step: Number) -> None:
        alert = self._recorder.write(
            records.Alert,
            title=redact_text(cut(finding.title, 1000)),
            level=finding.level,
            text=redact_text(cut(finding.text)),
            rule=finding.rule or rule,
            step=step,
            evidence=hide(convert.plain(finding.evidence)),
        )
        if alert is not None:
            for call in self.listeners:
                with self._recorder.guard("on_alert"):
                    call(alert)
