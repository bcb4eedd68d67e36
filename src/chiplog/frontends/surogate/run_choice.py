"""Which run a log file belongs to: a new one for every training, or the last one if it resumes."""

from __future__ import annotations

import os
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

from chiplog import assembly
from chiplog.core import messages
from chiplog.core import settings as settings_
from chiplog.runtime.ranks.detect import detect
from chiplog.store.layout import JOURNAL, new_id, slug

PROJECT = "surogate"


def choose(path: Path, resume: bool | str | None, settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that identify the run; those of `settings` override them.

    There are no statistics across ranks unless they are requested, since Surogate has none.
    """
    chosen = settings_.load({}, os.environ, Path.cwd())
    project = settings.get("project", PROJECT)
    common: dict[str, Any] = {"project": project}
    if chosen.reduce is None:
        common["reduce"] = False
    if isinstance(resume, str):
        return {**common, "resume": resume}
    if "id" in settings or chosen.id or os.environ.get("CHIPLOG_RUN_ID"):
        return common
    prefix = f"{slug(path.stem)[:32]}-{sha256(str(path).encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"
    last = _last(assembly.runs_dir(settings.get("dir")) / project, prefix) if resume else None
    if last is not None:
        return {**common, "id": last.name, "resume": "must"}
    if resume and detect(os.environ).rank == 0:
        messages.say(f"there is no run of {path} to resume; a new one starts")
    if settings.get("ranks", chosen.ranks) != "main":
        return common  # the ranks have to agree on an id
    return {**common, "id": f"{prefix}-{new_id()}"}


def _last(project: Path, prefix: str) -> Path | None:
    """The run that wrote to this log file last."""
    runs = [run for run in project.glob(f"{prefix}*") if (run / JOURNAL).is_dir()]
    return max(runs, key=lambda run: (run / JOURNAL).stat().st_mtime_ns, default=None)
