"""Alerts: recorded, and passed to listeners."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from chiplog.core import records
from chiplog.core.engine.recorder import Recorder
from chiplog.core.protocols import Finding
from chiplog.core.values import convert
from chiplog.core.values.redact import hide, redact_text
from chiplog.core.values.text import cut

Call = Callable[[records.Alert], Any]


class Alerts:
    """Turns findings into alert records and calls the listeners, on the thread that found it."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self.calls: list[Call] = []

    def ring(self, finding: Finding, rule: str, step: int | float) -> None:
        alert = self._recorder.write(
            records.Alert,
            title=redact_text(cut(finding.title, 1000)),
            level=finding.level,
            text=redact_text(cut(finding.text)),
            rule=finding.rule or rule,
            step=step,
            evidence=hide(convert.plain(finding.evidence)),
        )
        if isinstance(alert, records.Alert):
            for call in self.calls:
                try:
                    call(alert)
                except Exception as error:
                    self._recorder.failed("on_alert", error)
