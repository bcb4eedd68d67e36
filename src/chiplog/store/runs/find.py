"""Finds runs by path, id, the start of an id, name, or `latest`."""

from __future__ import annotations

from pathlib import Path

from chiplog.core.errors import RunNotFound
from chiplog.store import layout
from chiplog.store.reader import Stored
from chiplog.store.runs import manifest


def find(text: str | Path, root: Path) -> Path:
    """The directory of a run; the error lists the runs there are."""
    path = Path(text)
    if (path / layout.JOURNAL).is_dir() or (path / layout.IDENTITY).is_file():
        return path
    runs = list(layout.find_runs(root))
    wanted = str(text).strip("/")
    if wanted == "latest" and runs:
        return max(runs, key=lambda run: (manifest.load(run).created, run.name))
    for matching in (
        [run for run in runs if wanted in _names(run)],
        [run for run in runs if wanted and run.name.startswith(wanted)],
        [run for run in runs if manifest.load(run).name == wanted],
    ):
        if len(matching) == 1:
            return matching[0]
        if matching:
            raise RunNotFound(
                f"{wanted!r} matches {len(matching)} runs: {_some(matching)}; use a longer prefix or the id"
            )
    raise RunNotFound(f"no run {wanted!r} under {root}; there are: {_some(runs) or 'none'}")


def runs(root: Path, project: str | None = None) -> list[Stored]:
    """All runs under a directory, oldest first."""
    stored = [Stored(path) for path in layout.find_runs(root, project)]
    return sorted(stored, key=lambda run: (run.created, run.id))


def _names(run: Path) -> set[str]:
    """The id of a run, alone and with its project; as they are and as directories."""
    about = manifest.load(run)
    return {run.name, about.id, f"{run.parent.name}/{run.name}", f"{about.project}/{about.id}"}


def _some(paths: list[Path]) -> str:
    names = [f"{path.parent.name}/{path.name}" for path in paths[-5:]]
    return ", ".join(names) + (f" and {len(paths) - 5} more" if len(paths) > 5 else "")
