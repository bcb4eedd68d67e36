"""Opens a stored run for a verb."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

from chiplog.core.paths import cache_dir
from chiplog.store.reader import Stored


def open_run(path: Path, args: Namespace) -> Stored:
    """A run, with the user's cache for what it has not compacted."""
    return Stored(path, cache=cache_dir(args.environ))
