"""The runs that integrations of frameworks have kept in the working directory."""

from __future__ import annotations

from pathlib import Path

import chiplog
from chiplog import Stored


def stored_runs(project: str = "default") -> list[Stored]:
    """The runs of a project, oldest first; ends the current one."""
    chiplog.finish()
    folder = Path("runs") / project
    runs = [chiplog.read(path) for path in folder.iterdir()] if folder.exists() else []
    return sorted(runs, key=lambda run: run.attempts[0].start.time if run.attempts[0].start else 0)
