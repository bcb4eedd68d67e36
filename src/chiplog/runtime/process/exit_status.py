"""The `SystemExit` that ends a process, for exit handlers: when they run, the interpreter has released it.

While a run is open, `sys.exit`, `exit` and `quit` leave a mark on the exception they raise. If the mark is released
while a frame is running, somebody has caught the exception; otherwise the interpreter is exiting with it.
"""

from __future__ import annotations

import builtins
import sys
import threading
from collections.abc import Callable
from types import ModuleType

_DOORS = ((sys, "exit"), (builtins, "exit"), (builtins, "quit"))
_lock = threading.Lock()
_watching = 0  # runs
_args: tuple[object, ...] | None = None  # of the last marked exception, until somebody catches it


def watch() -> None:
    """Watch how this process exits, until `unwatch` was called as often."""
    global _watching
    with _lock:
        _watching += 1
        for module, name in _DOORS:
            call = getattr(module, name, None)  # `python -S` has no `exit` and `quit`
            if callable(call) and not isinstance(call, _Door):
                setattr(module, name, _Door(module, name, call))


def unwatch() -> None:
    global _watching
    with _lock:
        _watching = max(0, _watching - 1)
        for module, name in _DOORS if not _watching else ():
            door = getattr(module, name, None)
            if isinstance(door, _Door):  # otherwise it has been wrapped since, and stays
                setattr(module, name, door.inner)


def error() -> SystemExit | None:
    """The `SystemExit` with which this process exits, if a watched call has raised it and nobody has caught it."""
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
