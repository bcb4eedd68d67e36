"""A file system that ignores case, as on macOS and Windows: `python folding.py BEHIND POINT`.

Names keep the case in which they were created. The kernel here has none of the file systems that do this by themselves.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import mfusepy
from far import Far


class Folding(Far):
    def _at(self, path: str) -> Path:
        place = self._behind
        for part in path.strip("/").split("/"):
            place = place / part
            if part and not os.path.lexists(place):
                try:
                    names = os.listdir(place.parent)
                except OSError:
                    continue
                place = place.with_name(next((one for one in names if one.casefold() == part.casefold()), part))
        return place

    def getattr(self, path: str, fh: int | None = None) -> dict[str, int]:
        found = os.fstat(fh) if fh is not None else os.lstat(self._at(path))
        return {**super().getattr(path, fh), "st_ino": found.st_ino}  # the same under every spelling

    def readdir(self, path: str, fh: int) -> list[Any]:
        with os.scandir(self._at(path)) as found:
            return [(one.name, {"st_ino": one.inode(), "st_mode": 0}, 0) for one in found]

    def symlink(self, target: str, source: str) -> None:
        self._at(target).symlink_to(source)

    def readlink(self, path: str) -> str:
        return str(self._at(path).readlink())

    def link(self, target: str, source: str) -> None:
        self._at(target).hardlink_to(self._at(source))


if __name__ == "__main__":
    mfusepy.FUSE(
        Folding(Path(sys.argv[1])),
        sys.argv[2],
        foreground=True,
        attr_timeout=0,
        entry_timeout=0,
        negative_timeout=0,
        use_ino=True,
        fsname="folding",
        subtype="folding",
    )
