"""The identity of a run that has none but the names of its file and folder."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from chiplog.store.foreign.protocol import About, digest


def identity(path: Path, default: str, generic: Collection[str] = ()) -> About:
    """A run named after its file, or after its folder if the file's name is one that all such files have."""
    place = path.absolute()
    named = place.parent if place.stem.lower() in generic else place.with_suffix("")
    return About(
        project=named.parent.name or default,
        id=f"{named.name[:50]}-{digest(str(path.resolve()), 3)}",
        name=named.name,
    )
