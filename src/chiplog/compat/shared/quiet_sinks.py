"""The sinks of a run that a stand-in starts."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from chiplog.core import settings


def quiet_sinks(environ: Mapping[str, str]) -> str | None:
    """None for the sinks that the user has set; the originals print no rows, so the default is none."""
    if environ.get("CHIPLOG_SINKS"):
        return None
    return "none" if settings.load({}, environ, Path.cwd()).sinks.keys() == {"console"} else None
