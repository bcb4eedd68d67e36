"""A run in a notebook: the notebook's path, the output of its cells, and how the cells that used the run ended."""

from __future__ import annotations

import os
import sys
import weakref
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

from chiplog.core.engine.shutdown import ending
from chiplog.core.run import Run

PATIENCE = 1.0  # s that a cell waits at its end for the console to show its lines


def path(environ: Mapping[str, str]) -> str:
    """The notebook that this kernel executes, as far as its front end reveals it; empty elsewhere."""
    if _shell() is None:
        return ""
    session = environ.get("JPY_SESSION_NAME", "")  # Jupyter Server and Lab
    opened = getattr(sys.modules.get("__main__"), "__vsc_ipynb_file__", "")  # VS Code
    for name in (session, opened, _executed()):
        if isinstance(name, str) and name.endswith(".ipynb"):
            return str(Path(name).absolute())
    return ""


class Cells:
    """The cells of a kernel, as a run sees them.

    The lines of a cell are shown in it: the console catches up before a cell ends. A run that is open when the kernel
    ends has the state of the last cell that used it; cells before the run and beside it do not count.
    """

    def __init__(self, made: Run) -> None:
        self.state, self.reason = "finished", ""
        self._run = weakref.ref(made)
        self._first = self._next = made.next_step

    def ended(self, result: Any) -> None:
        """Called by IPython after a cell; never raises."""
        run = self._run()
        if run is None or run.inert:
            return
        _show_lines(run)
        error = getattr(result, "error_in_exec", None) or getattr(result, "error_before_exec", None)
        used = run.next_step != self._next
        self._next = run.next_step
        if used or (error is not None and self._next == self._first):  # before its first step, any cell prepares it
            self.state, self.reason = ending(error)


def follow_cells(made: Run) -> Cells | None:
    """Follow the cells of this kernel until the run ends; None outside IPython."""
    events = getattr(_shell(), "events", None)
    if events is None:
        return None
    cells = Cells(made)
    events.register("post_run_cell", cells.ended)

    def unregister() -> None:
        if cells.ended in events.callbacks.get("post_run_cell", ()):
            events.unregister("post_run_cell", cells.ended)

    made.at_finish(unregister)
    return cells


def _shell() -> Any:
    """The shell of IPython, if this process has one; it is not imported."""
    get = getattr(sys.modules.get("IPython"), "get_ipython", None)
    return None if get is None else get()


def _show_lines(run: Run) -> None:
    if run.post is None or "console" not in run.post.sinks:
        return
    run.settle(PATIENCE, "console")
    catch_up = getattr(run.post.sinks["console"], "catch_up", None)
    if catch_up is not None:
        catch_up()


def _executed() -> str:
    """The notebook on the command line of the program that started the kernel, such as `jupyter nbconvert`."""
    try:
        words = Path(f"/proc/{os.getppid()}/cmdline").read_bytes().decode(errors="replace").split("\0")
        cwd = Path(f"/proc/{os.getppid()}/cwd").readlink()
    except OSError:
        return ""
    for option, word in pairwise(words):
        if word.endswith(".ipynb") and not word.startswith("-") and not option.startswith("--"):
            return str(cwd / word)  # the first; the next is what papermill writes
    return ""
