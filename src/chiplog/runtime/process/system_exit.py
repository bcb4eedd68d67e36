"""The `SystemExit` with which a process ends.

Exit handlers run when the interpreter has released it, so while a run is open, two places are watched:

- At the end of a script, the interpreter flushes `sys.stderr` with no frame running, and holds the exception. Whatever
  raised it, the garbage collector knows it, and nothing in Python refers to it.
- `python -m` and `python -c` do not flush. There, `sys.exit`, `exit` and `quit` leave a mark on the exception they
  raise. If the mark is released while a frame is running, somebody has caught the exception; otherwise the interpreter
  is exiting with it. (Python 3.11 needs the mark in scripts, too, if C code raises: no exception object exists then.)
"""

from __future__ import annotations

import builtins
import gc
import opcode
import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType, ModuleType

_RETURNS = {opcode.opmap[name] for name in ("RETURN_VALUE", "RETURN_CONST") if name in opcode.opmap}
_lock = threading.Lock()
_watching = 0  # runs
_doors: list[tuple[ModuleType, str, _Door]] = []
_end_of_script: _EndOfScript | None = None
_raised: tuple[int, tuple[object, ...]] | None = None  # the newest mark and the arguments of its exception


def watch() -> None:
    """Watch how this process exits, until `unwatch` was called as often."""
    global _watching, _end_of_script
    with _lock:
        _watching += 1
        if _watching == 1:
            _doors.extend(_open_doors())
        if _end_of_script is None and not hasattr(sys, "ps1"):
            _end_of_script = _EndOfScript()


def unwatch() -> None:
    """See `watch`."""
    global _watching, _end_of_script
    with _lock:
        _watching = max(0, _watching - 1)
        if _watching:
            return
        for module, name, door in _doors:
            if getattr(module, name, None) is door:  # otherwise it has been wrapped since, and stays
                setattr(module, name, door.inner)
        _doors.clear()
        if _end_of_script is not None:
            _end_of_script.close()
            _end_of_script = None


def exit_error() -> SystemExit | None:
    """The `SystemExit` with which this process exits, if it was seen and nobody has caught it."""
    return None if _raised is None else SystemExit(*_raised[1])


class _EndOfScript:
    """Stands in for `flush` of `sys.stderr`."""

    def __init__(self) -> None:
        self._outermost = _outermost()
        self._stream = sys.stderr
        self._flush = getattr(self._stream, "flush", None)
        try:
            self._stream.flush = self  # type: ignore[method-assign]
        except (AttributeError, TypeError):  # it is None, or has no room for attributes
            self._stream = None

    def __call__(self) -> None:
        if sys._getframe().f_back is None and threading.current_thread() is threading.main_thread():
            self._look()
        if self._flush is not None:
            self._flush()

    def close(self) -> None:
        if getattr(self._stream, "__dict__", {}).get("flush") is self:  # otherwise it has been replaced since
            del self._stream.flush

    def _look(self) -> None:
        global _raised
        if self._outermost is None:
            return
        if self._outermost.f_code.co_code[self._outermost.f_lasti] in _RETURNS:
            _raised = None  # whatever was raised has been caught
            return
        for instance in gc.get_objects():
            # Those that somebody keeps are not the one that ends the script.
            if issubclass(type(instance), SystemExit) and len(gc.get_referrers(instance)) == 1:  # the list of objects
                _raised = (0, instance.args)


def _outermost() -> FrameType | None:
    """The frame of the script: the process ends when it does."""
    frame = sys._current_frames().get(threading.main_thread().ident or 0)
    while frame is not None and frame.f_back is not None:
        frame = frame.f_back
    return frame


def _open_doors() -> Iterator[tuple[ModuleType, str, _Door]]:
    original = sys.exit
    main = sys.modules.get("__main__", sys)
    names = [name for name, value in vars(main).items() if value is original]  # by `from sys import exit`
    for module, name in ((sys, "exit"), (builtins, "exit"), (builtins, "quit"), *((main, name) for name in names)):
        call = getattr(module, name, None)  # `python -S` has no `exit` and `quit`
        if callable(call) and not isinstance(call, _Door):
            door = _Door(module, name, call)
            setattr(module, name, door)
            yield module, name, door


class _Door:
    """`sys.exit` or its like: it marks what it raises, and is otherwise the original."""

    def __init__(self, module: ModuleType, name: str, inner: Callable[..., object]) -> None:
        self.inner, self._name = inner, name
        self.__module__, self.__doc__ = module.__name__, inner.__doc__

    def __call__(self, *args: object, **kwargs: object) -> object:
        global _raised
        try:
            return self.inner(*args, **kwargs)
        except SystemExit as raised:
            if _watching and threading.current_thread() is threading.main_thread():
                mark = raised.__dict__["_mark"] = _Mark()
                _raised = (id(mark), raised.args)
            raise

    def __repr__(self) -> str:
        return repr(self.inner)

    def __reduce__(self) -> str:
        return self._name


class _Mark:
    """Released with the exception that carries it."""

    def __del__(self) -> None:
        global _raised
        if sys._getframe().f_back is not None and _raised is not None and _raised[0] == id(self):
            _raised = None
