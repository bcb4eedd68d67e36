"""Runs that this user may not read: what can be told about them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from chiplog.core.messages import clean
from chiplog.store import layout


class UnreadableRun(NamedTuple):
    """A run, or a whole project, that belongs to another user."""

    path: Path
    reason: str  # in words, to follow "not readable: "

    def __str__(self) -> str:
        return clean(f"{self.path.parent.name}/{self.path.name}: not readable: {self.reason}")


def unreadable(root: Path) -> Iterator[UnreadableRun]:
    """The runs under a directory that this user may not read."""
    return (UnreadableRun(path, reason(path)) for path, readable in layout.walk(root) if not readable)


def reason(path: Path) -> str:
    """Why a run cannot be read: whose it is."""
    try:
        uid = path.lstat().st_uid
    except OSError as error:
        return error.strerror or type(error).__name__
    if hasattr(os, "geteuid") and uid == os.geteuid():
        return f"its permissions do not allow it; chmod -R u+rwX {path}"
    return f"belongs to {_name(uid)}"


def _name(uid: int) -> str:
    try:
        import pwd

        return pwd.getpwuid(uid).pw_name
    except (ImportError, KeyError):
        return f"user {uid}"
