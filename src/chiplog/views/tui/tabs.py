"""The panels of a run on the screen, in their order."""

from __future__ import annotations

TABS = ("charts", "system", "ranks", "alerts", "samples", "console", "overview")
