"""The saved state of a rank's rules and stages, which the next attempt starts with."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from chiplog.core.records import Plain
from chiplog.store import layout
from chiplog.store.runs.manifest import write_whole


def load(run: Path, rank: int) -> dict[str, Plain]:
    """The saved state; empty if the file is missing or damaged."""
    try:
        saved = msgspec.json.decode(_path(run, rank).read_bytes())
    except (OSError, msgspec.DecodeError):
        return {}
    return saved if isinstance(saved, dict) else {}


def save(run: Path, rank: int, state: Mapping[str, Plain]) -> None:
    """Save the state; a failure only costs the next attempt a warm-up."""
    path = _path(run, rank)
    try:
        path.parent.mkdir(mode=0o700, exist_ok=True)
        write_whole(path, msgspec.json.encode(state))
    except OSError:
        return


def _path(run: Path, rank: int) -> Path:
    return run / layout.BASELINES / f"r{rank:05d}.json"
