"""What the rules and stages of a rank knew last, in a small file that the next attempt begins with."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from chiplog.store import layout
from chiplog.store.manifest import write_whole


def load(run: Path, rank: int) -> dict[str, Any]:
    """What was saved, or nothing: a file that is not there or not whole is no reason to fail."""
    try:
        saved = msgspec.json.decode(_path(run, rank).read_bytes())
    except (OSError, msgspec.DecodeError):
        return {}
    return saved if isinstance(saved, dict) else {}


def save(run: Path, rank: int, state: Mapping[str, Any]) -> None:
    """Write it down; a disk that refuses costs the next attempt a warm-up and nothing else."""
    path = _path(run, rank)
    try:
        path.parent.mkdir(mode=0o700, exist_ok=True)
        write_whole(path, msgspec.json.encode(state))
    except OSError:
        return


def _path(run: Path, rank: int) -> Path:
    return run / layout.BASELINES / f"r{rank:05d}.json"
