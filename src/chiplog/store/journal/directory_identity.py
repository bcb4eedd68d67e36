"""Whether the directory under the path of a run is still that run's own.

A run directory may be moved away while the run is live, and another run with the same id may start in its place. The
time at which a run was created, in its manifest, tells the two apart; the manifest is read again only when it changed.
"""

from __future__ import annotations

import os
from pathlib import Path

from chiplog.store import layout, manifest


class DirectoryIdentity:
    """The directory of one run, as seen by one of its writers."""

    def __init__(self, run: Path) -> None:
        self._run, self._file = run, str(run / layout.IDENTITY)
        self._created = 0
        self._inode: int | None = None
        self._checked: tuple[int, int] | None = None
        self._own = True
        self.check()

    def check(self) -> bool:
        """False if another run is there, or nothing is. The same directory without a manifest is still this run's."""
        try:
            status = os.stat(self._file)  # noqa: PTH116  called four times per second by each sink
        except OSError:
            return self._is_same_directory()
        if (status.st_ino, status.st_mtime_ns) != self._checked:
            self._checked = status.st_ino, status.st_mtime_ns
            created = manifest.load(self._run).created
            self._created = self._created or created
            self._own = not created or created == self._created
            if self._own:
                self._inode = self._inode_now()
        return self._own

    def _is_same_directory(self) -> bool:
        """Without a manifest: a run that starts in the place of this one has none yet for a moment."""
        inode = self._inode_now()
        return inode is not None and self._inode in (None, inode)

    def _inode_now(self) -> int | None:
        try:
            return self._run.stat().st_ino
        except OSError:
            return None
