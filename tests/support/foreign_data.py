"""Files of other trackers as their clients wrote them, kept small: `tests/data/foreign`, a folder per client version."""

from __future__ import annotations

import shutil
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "data" / "foreign"


def copied(name: str, tmp_path: Path) -> Path:
    """A copy that a test may damage."""
    place = FOLDER / name
    target = tmp_path / "source" / place.name
    target.parent.mkdir(exist_ok=True)
    return Path(shutil.copytree(place, target) if place.is_dir() else shutil.copyfile(place, target))
