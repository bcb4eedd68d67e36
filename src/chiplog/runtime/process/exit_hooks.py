"""Finishes a run when its process ends: by a signal, or at the interpreter's exit."""

from __future__ import annotations

import os
import sys
import threading
import weakref
from collections.abc import Callable
from types import FrameType

from chiplog.core import messages
from chiplog.core.engine import shutdown
from chiplog.core.run import Run
from chiplog.runtime.process import notebook, system_exit


def flush_on_signal(made: Run) -> None:
    if threading.current_thread() is not threading.main_thread():
        messages.say("on_signal='flush' works only if init() is called in the main thread; it is ignored")
        return
    import signal  # few need it, and the import takes time

    before = signal.getsignal(signal.SIGTERM)
    reference = weakref.ref(made)

    def flush(number: int, frame: FrameType | None) -> None:
        if (run := reference()) is not None:
            run.flush()
        if callable(before):
            before(number, frame)
        elif before == signal.SIG_DFL:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)

    def restore() -> None:
        on_top = signal.getsignal(signal.SIGTERM) is flush
        if on_top and before is not None and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, before)

    if before is None:
        messages.say(
            "SIGTERM is handled outside of Python, and on_signal='flush' could not call that handler; it is ignored"
        )
        return
    signal.signal(signal.SIGTERM, flush)
    made.at_finish(restore)


def finish_at_exit(made: Run) -> None:
    """Finish a run at the interpreter's exit, in the state that the exit is due to."""
    reference = weakref.ref(made)
    cells = notebook.follow_cells(made)
    ended_by = _watch_exit(made) if cells is None else None

    def end() -> None:
        if (run := reference()) is None:
            return
        if cells is not None:
            run.finish(state=cells.state, reason=cells.reason)
        elif ended_by is not None:
            run.__exit__(None, ended_by(), None)

    made.at_finish(shutdown.at_exit(end))


def _watch_exit(made: Run) -> Callable[[], BaseException | None]:
    """A function that returns the exception with which this process exits, as far as it concerns the run."""
    system_exit.watch()
    made.at_finish(system_exit.unwatch)
    if hasattr(sys, "ps1"):
        return system_exit.exit_error  # an error at the prompt does not end the process
    earlier = id(getattr(sys, "last_value", None))  # an error before this run does not concern it

    def uncaught() -> BaseException | None:
        error = getattr(sys, "last_value", None)
        return None if id(error) == earlier else error

    return lambda: uncaught() or system_exit.exit_error()
