"""Finishes a run when its process ends: by a signal, or at the interpreter's exit.

Exit handlers run when the interpreter has released the `SystemExit` that ends the process. So while a run is open,
`sys.exit`, `exit` and `quit` leave a mark on the exception they raise. If the mark is released while a frame is
running, the exception was caught; otherwise the interpreter is exiting with it.
"""

from __future__ import annotations

import builtins
import os
import sys
import threading
import weakref
from collections.abc import Callable
from types import FrameType, ModuleType

from chiplog.core import messages
from chiplog.core.engine import shutdown
from chiplog.core.run import Run
from chiplog.runtime.process import notebook

_DOORS = ((sys, "exit"), (builtins, "exit"), (builtins, "quit"))
_lock = threading.Lock()
_watching = 0  # runs
_args: tuple[object, ...] | None = None  # of the last marked exception, until it is caught


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
    mark_exits()
    made.at_finish(unmark_exits)
    if hasattr(sys, "ps1"):
        return exit_error  # an error at the prompt does not end the process
    earlier = id(getattr(sys, "last_value", None))  # an error before this run does not concern it

    def uncaught() -> BaseException | None:
        error = getattr(sys, "last_value", None)
        return None if id(error) == earlier else error

    return lambda: exit_error() or uncaught()


def mark_exits() -> None:
    """Watch how this process exits, until `unmark_exits` was called as often."""
    global _watching
    with _lock:
        _watching += 1
        for module, name in _DOORS:
            call = getattr(module, name, None)  # `python -S` has no `exit` and `quit`
            if callable(call) and not isinstance(call, _Door):
                setattr(module, name, _Door(module, name, call))


def unmark_exits() -> None:
    global _watching
    with _lock:
        _watching = max(0, _watching - 1)
        for module, name in _DOORS if not _watching else ():
            door = getattr(module, name, None)
            if isinstance(door, _Door):  # otherwise it has been wrapped since, and stays
                setattr(module, name, door.inner)


def exit_error() -> SystemExit | None:
    """The `SystemExit` with which this process exits, if a watched call has raised it and it was not caught."""
    return None if _args is None else SystemExit(*_args)


class _Door:
    """`sys.exit` or its like: it marks what it raises, and is otherwise the original."""

    def __init__(self, module: ModuleType, name: str, inner: Callable[..., object]) -> None:
        self.inner, self._name = inner, name
        self.__module__, self.__doc__ = module.__name__, inner.__doc__

    def __call__(self, *args: object, **kwargs: object) -> object:
        global _args
        try:
            return self.inner(*args, **kwargs)
        except SystemExit as raised:
            if _watching and threading.current_thread() is threading.main_thread():
                _args = raised.args
                raised.__dict__["_mark"] = _Mark()
            raise

    def __repr__(self) -> str:
        return repr(self.inner)

    def __reduce__(self) -> str:
        return self._name


class _Mark:
    """Released with the exception that carries it."""

    def __del__(self) -> None:
        global _args
        if sys._getframe().f_back is not None:
            _args = None
