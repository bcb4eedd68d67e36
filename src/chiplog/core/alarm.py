"""Alerts: recorded, and told to those who asked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from chiplog.core import records, values
from chiplog.core.protocols import Finding
from chiplog.core.redact import hide, redact_text
from chiplog.core.texts import cut

Call = Callable[[records.Alert], Any]


class Alarm:
    """Turns findings into alert records and calls the listeners, on the thread that found it."""

    def __init__(self, write: Callable[..., records.Record | None], failed: Callable[[str, Exception], Any]) -> None:
        self._write, self._failed = write, failed
        self.calls: list[Call] = []

    def ring(self, finding: Finding, rule: str, step: int | float) -> None:
        alert = self._write(
            records.Alert,
            title=redact_text(cut(finding.title, 1000)),
            level=finding.level,
            text=redact_text(cut(finding.text)),
            rule=finding.rule or rule,
            step=step,
            evidence=hide(values.plain(finding.evidence)),
        )
        if isinstance(alert, records.Alert):
            for call in self.calls:
                try:
                    call(alert)
                except Exception as error:
                    self._failed("on_alert", error)
