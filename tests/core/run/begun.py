"""How the tests of a run begin one."""

from __future__ import annotations

from pathlib import Path

import chiplog


def begin(path: Path, **settings: object) -> chiplog.Run:
    return chiplog.init("p", **{"sinks": "none", "dir": path, "strict": True, **settings})  # type: ignore[arg-type]
