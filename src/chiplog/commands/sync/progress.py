"""The progress of a delivery, on stderr."""

from __future__ import annotations

import sys
import time

from chiplog.core import display, messages
from chiplog.sinks.delivery.sync import Health

REPORT = 10.0  # s between lines that are not on a terminal
WIPE = "\r\x1b[K"


class SyncProgress:
    """On a terminal, a line that changes; elsewhere, a line now and then while another process delivers."""

    def __init__(self, label: str) -> None:
        self._label, self._terminal = label, sys.stderr.isatty()
        self._holders: dict[str, str] = {}
        self._reported = 0.0

    def __call__(self, health: Health) -> None:
        for name, one in health.items():
            self._name_holder(name, one.get("held_by", ""))
        if self._terminal:
            done = all(one["state"] in ("closed", "failing") for one in health.values())
            _write(f"{WIPE}{self._line(health)}{WIPE if done else ''}")
        elif any(self._holders.values()) and time.monotonic() - self._reported > REPORT:
            self._reported = time.monotonic()
            _write(f"{self._line(health)}\n")

    def _name_holder(self, name: str, holder: str) -> None:
        if holder and holder != self._holders.get(name):
            wipe = WIPE if self._terminal else ""
            _write(f"{wipe}{self._label}  {messages.clean(holder)} is delivering to {name!r}; waiting for it\n")
            self._reported = time.monotonic()
        self._holders[name] = holder

    def _line(self, health: Health) -> str:
        sinks = (
            f"{name} {display.count(int(one['delivered']))} records, {display.size(int(one['lag_bytes']))} to go"
            for name, one in health.items()
        )
        return f"{self._label}  {'; '.join(sinks)}"


def _write(text: str) -> None:
    sys.stderr.write(text)
    sys.stderr.flush()
