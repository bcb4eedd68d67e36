"""Which cell of a notebook ended a run: the last one that wrote to it, if that cell failed."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any


class Cells:
    """Watches the cells of an IPython session on behalf of one run; `error` is that of the last cell that wrote to it.

    A cell that fails for another reason, before the run, after it or between two of its cells, does not concern it.
    """

    def __init__(self, shell: Any, written: Callable[[], int]) -> None:
        self.error: BaseException | None = None
        self._shell, self._written = shell, written
        self._before = -1  # the run starts in this cell, which is therefore one of its own
        shell.events.register("pre_run_cell", self._start)
        shell.events.register("post_run_cell", self._end)

    def close(self) -> None:
        for event, call in (("pre_run_cell", self._start), ("post_run_cell", self._end)):
            try:
                self._shell.events.unregister(event, call)
            except ValueError:
                pass

    def _start(self, *_: object) -> None:
        self._before = self._written()

    def _end(self, result: Any = None) -> None:
        if self._written() != self._before:
            self.error = getattr(result, "error_in_exec", None)


def shell() -> Any:
    """The IPython session that this process runs, or None."""
    module = sys.modules.get("IPython")
    return module.get_ipython() if module is not None and hasattr(module, "get_ipython") else None
