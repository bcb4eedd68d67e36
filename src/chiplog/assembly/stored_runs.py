"""The public functions that open runs: `read` for one, `runs` for many."""

from __future__ import annotations

import os
from pathlib import Path

from chiplog.assembly import foreign_runs
from chiplog.assembly.api import runs_dir
from chiplog.core.errors import RunNotFound
from chiplog.core.paths import cache_dir
from chiplog.store.reader import Stored
from chiplog.store.runs import access, find, run_values
from chiplog.store.runs.run_list import RunList


def read(which: str | Path = "latest", *, dir: str | Path | None = None) -> Stored:
    """A stored run: by its path, its id or a prefix of it, its name, its project, or `latest`.

    The path may be that of another tracker's files, such as `wandb/offline-run-...`; see `docs/import.md`.
    """
    root = runs_dir(dir) if dir is None else foreign_runs.directory(runs_dir(dir))
    cached = foreign_runs.cached(Path(which))
    if cached is not None:
        which, root = find.LATEST, cached
    try:
        return Stored(find.find(which, root), cache=cache_dir(os.environ))
    except RunNotFound as error:
        raise foreign_runs.explained(error, which) from None


def runs(dir: str | Path | None = None, project: str | None = None, *, where: str = "") -> list[Stored]:
    """The runs under a directory, oldest first: all of them, those of a project, or those that a query describes.

    >>> chiplog.runs("runs", where="lr>0.001 and state=finished")
    """
    root = runs_dir(dir)
    if dir is not None and not root.is_dir():
        cached = foreign_runs.cached(root)
        if cached is None:
            raise RunNotFound(f"no directory {str(root)!r}; use the one given to chiplog.init(dir=...)")
        root = cached
    elif dir is not None:
        root = foreign_runs.directory(root)
    stored = find.runs(root, project, cache=cache_dir(os.environ))
    if not where:
        return RunList(stored, access.unreadable(root) if project is None else ())
    chosen = {run.path for run in run_values.matching(run_values.load(run.path for run in stored), where)}
    return RunList(run for run in stored if run.path in chosen)
