"""Files of a run that cannot be read: a pipe, a device or a link in their place, or no permission."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from pathlib import Path

from chiplog.core.files import folders, reading
from chiplog.store import layout


def problems(run: Path, journals: Sequence[tuple[str, os.stat_result]] | None = None) -> list[str]:
    """What cannot be read and why, such as "run.json: a pipe, not a file"; empty for a run that is as it should be.

    `journals` are the entries of the journal's folder, if they are known.
    """
    entries = _entries(run)
    reasons = [] if _is_fine(entries.get(layout.IDENTITY), folder=False) else [_reason(run, layout.IDENTITY)]
    for folder in (layout.JOURNAL, layout.PARTS, layout.CURSORS, layout.FILES):
        if entries and folder not in entries:
            continue
        try:
            if not _is_fine(entries.get(folder), folder=True):
                folders.check_folder(run, [folder])
        except FileNotFoundError:
            continue
        except OSError as error:
            reasons.append(f"{folder}: {error.strerror or error}")
            continue
        if folder in (layout.JOURNAL, layout.PARTS):
            inside = journals if folder == layout.JOURNAL and journals else reading.entries(run, folder)
            odd = [name for name, about in inside if not stat.S_ISREG(about.st_mode)]
            reasons += [_reason(run, f"{folder}/{name}") for name in sorted(odd)]
    return [reason for reason in reasons if reason]


def _entries(run: Path) -> dict[str, os.DirEntry[str]]:
    """What is in the directory of a run, seen with one look; empty where that does not tell links."""
    try:
        with os.scandir(run) as entries:
            return {entry.name: entry for entry in entries} if folders.RELATIVE else {}
    except OSError:
        return {}


def _is_fine(entry: os.DirEntry[str] | None, *, folder: bool) -> bool:
    """Whether this is a folder or a file, not behind a link, that may be read."""
    if entry is None:
        return False
    right = entry.is_dir(follow_symlinks=False) if folder else entry.is_file(follow_symlinks=False)
    return right and os.access(entry, os.R_OK | os.X_OK if folder else os.R_OK)


def _reason(run: Path, name: str) -> str:
    try:
        with reading.open_file(run, name):
            return ""
    except FileNotFoundError:
        return ""
    except OSError as error:
        return f"{name}: {error.strerror or error}"
