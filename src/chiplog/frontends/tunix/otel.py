"""Values as gauges of an OpenTelemetry meter, under Tunix's names."""

from __future__ import annotations

import re
from typing import Any

from chiplog.core import messages
from chiplog.version import VERSION

NAMES = {
    "loss": "tunix.training.loss",
    "perplexity": "tunix.training.perplexity",
    "learning_rate": "tunix.training.learning_rate",
    "grad_norm": "tunix.training.gradient.norm",
}
MODES = ("train", "eval")


class Gauges:
    """A backend that writes to a user's meter provider, which the user flushes and shuts down."""

    def __init__(self, provider: Any) -> None:
        self._meter = provider.get_meter("tunix", VERSION)
        self._gauges: dict[str, Any] = {}
        self._steps: dict[tuple[str, str], int] = {}  # the last one by prefix and mode

    def log_scalar(self, event: str, value: Any, step: int | None = None, **_: object) -> None:
        prefix, mode, name = parts(event)
        if getattr(value, "ndim", 0):
            messages.once(f"tunix gauge {event}", f"{event} is a vector, and a gauge has one value; the run has it")
            return
        attributes = {"tunix.training.mode": mode, **({"tunix.metrics.prefix": prefix} if prefix else {})}
        if step is not None and self._steps.get((prefix, mode)) != step:
            self._steps[prefix, mode] = step
            self._gauge("tunix.training.step", "{step}").set(step, attributes)
        self._gauge(gauge_name(name), "1").set(float(value), attributes)

    def close(self) -> None:
        pass

    def _gauge(self, name: str, unit: str) -> Any:
        if name not in self._gauges:
            self._gauges[name] = self._meter.create_gauge(name, unit=unit)
        return self._gauges[name]


def parts(event: str) -> tuple[str, str, str]:
    """Split `actor/train/loss` into prefix, mode and name; the prefix may be missing."""
    words = event.split("/")
    at = next((at for at, word in enumerate(words[:-1]) if word in MODES), None)
    return ("", "", event) if at is None else ("/".join(words[:at]), words[at], "/".join(words[at + 1 :]))


def gauge_name(name: str) -> str:
    return NAMES.get(name) or f"tunix.{re.sub(r'[^a-zA-Z0-9_.-]+', '.', name.lower()).strip('.') or 'unnamed'}"
