"""Runs of other trackers, opened in place: a path of theirs becomes a directory of runs in the user's cache."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from chiplog.core.errors import RunNotFound
from chiplog.core.paths import cache_dir, is_run
from chiplog.store import layout

if TYPE_CHECKING:
    from chiplog.store.foreign.cached_runs import Progress


def cached(path: Path, progress: Progress | None = None) -> Path | None:
    """The directory of runs that holds what another tracker has recorded at a path; None if it holds no foreign runs.

    A path with runs of our own is never taken for another tracker's.
    """
    path = path.expanduser()
    try:
        if not path.exists() or is_run(path) or next(layout.find_runs(path), None) is not None:
            return None
    except (OSError, ValueError):  # not a path at all
        return None
    from chiplog.store.foreign.cached_runs import refresh  # needs numpy, which opening our own runs does without

    return refresh(path, cache_dir(os.environ), progress)


def explained(error: RunNotFound, *texts: str | Path) -> RunNotFound:
    """The error, or the reason why the one of these paths that it names holds no runs of any format."""
    path = next((text for text in texts if repr(str(text)) in str(error) and _is_foreign(Path(text))), None)
    return error if path is None else RunNotFound(no_runs_in(path))


def no_runs_in(path: str | Path) -> str:
    """The message for a file or a folder without runs."""
    from chiplog.store.foreign import registry  # needs numpy, as above

    return registry.no_runs_in(str(path))


def _is_foreign(path: Path) -> bool:
    """Whether a path exists and holds no run of ours, so that it was meant as another tracker's."""
    try:
        return path.is_file() or (path.is_dir() and next(layout.find_runs(path), None) is None)
    except (OSError, ValueError):
        return False


def directory(root: Path) -> Path:
    """A directory of runs: this one, or the cached one of another tracker's."""
    return cached(root) or root
