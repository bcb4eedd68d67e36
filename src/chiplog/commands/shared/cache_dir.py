"""Where views keep data that they derive from runs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path


def cache_dir(environ: Mapping[str, str]) -> Path:
    """The user's cache directory; never inside a run."""
    base = environ.get("XDG_CACHE_HOME") or ""
    return Path(base if base.startswith("/") else "~/.cache").expanduser() / "chiplog"
