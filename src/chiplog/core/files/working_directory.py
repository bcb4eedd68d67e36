"""The folder that the user works in, and those above it, as far as they are the user's own.

Settings and credentials are looked for there. A run may come from somebody else, so that one who works inside a run
gets none of what its maker left for that search.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from chiplog.core.paths import is_run


def trusted(folder: Path) -> Iterator[Path]:
    """A folder and those above it, the nearest first, without runs and the folders inside them."""
    path = Path(os.path.abspath(folder))  # noqa: PTH100  follows no link, unlike `resolve`
    upwards = [path, *path.parents]
    outermost = max((at for at, one in enumerate(upwards) if _may_be_run(one)), default=-1)
    yield from upwards[outermost + 1 :]


def outside(folder: Path) -> Path:
    """The folder itself, or the nearest one above that is not inside a run."""
    return next(trusted(folder), Path(folder.anchor))


@contextmanager
def outside_runs() -> Iterator[None]:
    """Work outside of runs meanwhile, for packages that look for settings where the process works."""
    try:
        here = Path.cwd()
    except OSError:  # it was deleted, so nothing is found there
        yield
        return
    away = outside(here)
    if away == here:
        yield
        return
    os.chdir(away)
    try:
        yield
    finally:
        os.chdir(here)


def _may_be_run(folder: Path) -> bool:
    """More than `is_run`: also a run without records, and one whose journal may not be listed."""
    return is_run(folder) or all(os.path.lexists(folder / name) for name in ("journal", "run.json"))
