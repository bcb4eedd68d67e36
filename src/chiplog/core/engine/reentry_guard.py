"""Functions of users that are not called again from within their own call.

A stage, a rule or a listener that logs would otherwise be called with what it logs, and so on without end.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import get_ident
from typing import Any

from chiplog.core import messages


class ReentryGuard:
    """Calls a function, but on each thread not while it runs there: then it returns None, which is reported once."""

    def __init__(self, call: Callable[..., Any], what: str) -> None:
        self._call, self._what = call, what
        self._running: set[int] = set()  # threads

    def __call__(self, *args: object) -> Any:
        thread = get_ident()
        if thread in self._running:
            messages.once(
                f"nested {self._what}", f"{self._what} calls `log`; it is not called again for its own records"
            )
            return None
        self._running.add(thread)
        try:
            return self._call(*args)
        finally:
            self._running.discard(thread)


def is_ours(part: object) -> bool:
    """Whether a stage or rule is chiplog's own, none of which logs: those are called without a check."""
    return str(getattr(part, "__module__", "")).startswith("chiplog.")
