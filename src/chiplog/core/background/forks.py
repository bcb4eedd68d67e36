"""Forks: objects that own a thread or a file in the parent are notified in the child."""

from __future__ import annotations

import mmap
import os
import weakref
from typing import Protocol


class Owner(Protocol):
    def forked(self) -> None:
        """Called in the child, which has none of the parent's threads."""
        ...


class SharedFlag:
    """Set once for a process and all its forked children, such as those of a data loader in every epoch."""

    def __init__(self) -> None:
        self._shared = mmap.mmap(-1, 1)

    def first(self) -> bool:
        """Whether it was not set; now it is. Two processes at the same moment may both be first."""
        before, self._shared[0] = self._shared[0], 1
        return not before


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
