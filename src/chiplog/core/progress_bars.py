"""Lines above the progress bars of tqdm and rich: a bar is erased, the line is written, the bar is drawn again.

Neither package is imported; one that has bars is among the loaded modules.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TextIO

from chiplog.core.background import forks

PATIENCE = 0.5  # s to wait for a lock of tqdm; a fork may have left it locked for good


def write(stream: TextIO, text: str) -> None:
    """Write whole lines to a stream and flush it; a bar that is shown there stays below them."""
    if (console := _rich_console(stream)) is not None:
        from rich.text import Text  # loaded already

        console.print(Text.from_ansi(text.removesuffix("\n")), soft_wrap=True)
        return
    with _without_bars(stream):
        stream.write(text)
        stream.flush()


def active(stream: TextIO) -> bool:
    """Whether a bar of tqdm or rich is shown where a stream goes."""
    return _rich_console(stream) is not None or bool(_bars(stream))


class _TqdmLock:
    """The lock of tqdm, held while a line is written; a fork at that moment must not leave it locked in the child."""

    def __init__(self) -> None:
        self._writing = False
        forks.watch(self)

    @contextmanager
    def hold(self) -> Iterator[bool]:
        """True if the lock is held; false if it could not be had in time."""
        lock = _tqdm().get_lock()
        held: list[Any] = []
        self._writing = True
        try:
            for one in getattr(lock, "locks", [lock]):
                if not one.acquire(timeout=PATIENCE):
                    break
                held.append(one)
            yield len(held) == len(getattr(lock, "locks", [lock]))
        finally:
            for one in reversed(held):
                one.release()
            self._writing = False

    def forked(self) -> None:
        """Give the child a lock of its own if one of our threads in the parent held tqdm's."""
        if self._writing:
            self._writing = False
            _tqdm().set_lock(threading.RLock())


@contextmanager
def _without_bars(stream: TextIO) -> Iterator[None]:
    """Bars of tqdm are erased, and drawn again at the end."""
    if not _any_bars():
        yield
        return
    with _TqdmLock().hold() as held:
        bars = _bars(stream) if held else []
        for bar in bars:
            bar.clear(nolock=True)
        try:
            yield
        finally:
            for bar in bars:
                bar.refresh(nolock=True)


def _tqdm() -> Any:
    return getattr(sys.modules.get("tqdm.std"), "tqdm", None)


def _any_bars() -> bool:
    return bool(len(getattr(_tqdm(), "_instances", ())))


def _bars(stream: TextIO) -> list[Any]:
    """The bars of tqdm that share a place with a stream."""
    if not _any_bars():
        return []
    try:
        bars = list(_tqdm()._instances)
    except RuntimeError:  # another thread has just added one
        bars = []
    # A bar without `start_t` is still being created.
    return [bar for bar in bars if hasattr(bar, "start_t") and not bar.disable and _same_place(bar.fp, stream)]


def _same_place(first: Any, second: Any) -> bool:
    """Whether two streams end in the same terminal or file."""
    if first == second:
        return True
    try:
        one, other = os.fstat(first.fileno()), os.fstat(second.fileno())
        return (one.st_dev, one.st_ino) == (other.st_dev, other.st_ino)
    except (AttributeError, OSError, ValueError):  # a notebook, say, shows both in one place
        return all(any(stream == shown for shown in (sys.stdout, sys.stderr)) for stream in (first, second))


def _rich_console(stream: TextIO) -> Any:
    """The console of rich with a live display in the place of a stream; None if there is none."""
    if "rich.live" not in sys.modules:
        return None
    for shown in (sys.stdout, sys.stderr):
        # While a display is live, rich puts a proxy in the place of both streams.
        if getattr(shown, "rich_proxied_file", None) is stream or (shown is stream and _is_proxy(shown)):
            return getattr(shown, "_FileProxy__console", None)
    console: Any = getattr(sys.modules["rich"], "_console", None)
    is_live = bool(getattr(console, "_live_stack", None) or getattr(console, "_live", None))
    return console if is_live and console.is_terminal and _same_place(console.file, stream) else None


def _is_proxy(stream: Any) -> bool:
    return hasattr(stream, "rich_proxied_file")
