"""Forks: objects that own a thread or a file in the parent are notified in the child."""

from __future__ import annotations

import os
import weakref
from typing import Protocol


class Owner(Protocol):
    def forked(self) -> None:
        """Called in the child, which has none of the parent's threads."""
        ...


_owners: weakref.WeakSet[Owner] = weakref.WeakSet()
_watching = False


def watch(owner: Owner) -> None:
    """Call `forked` of an object after every fork, for as long as the object lives."""
    global _watching
    _owners.add(owner)
    if not _watching and hasattr(os, "register_at_fork"):
        _watching = True
        os.register_at_fork(after_in_child=_notify)


def _notify() -> None:
    for owner in list(_owners):
        owner.forked()
