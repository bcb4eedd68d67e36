"""The saved state of a rank's rules and stages, which the next attempt starts with."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from chiplog.core.files import reading, writing
from chiplog.core.records import Plain
from chiplog.store import layout


def load(run: Path, rank: int) -> dict[str, Plain]:
    """The saved state; empty if the file is missing or damaged."""
    try:
        saved = msgspec.json.decode(reading.read_bytes(run, _name(rank)))
    except (OSError, ValueError, RecursionError):
        return {}
    return saved if isinstance(saved, dict) else {}


def save(run: Path, rank: int, state: Mapping[str, Plain]) -> None:
    """Save the state; a failure only costs the next attempt a warm-up."""
    try:
        writing.make_folder(run, layout.BASELINES)
        writing.replace(run, _name(rank), msgspec.json.encode(state))
    except OSError:
        return


def _name(rank: int) -> str:
    return f"{layout.BASELINES}/r{rank:05d}.json"
