"""A terminal in raw mode: keys in, changed lines out. The previous screen is restored at the end."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from chiplog.views.tui.app import App
import importlib
import os
import select
from collections.abc import Callable

EVERY = 0.5  # s between reads of the disk
KEYS = {
    b"\x1b[A": "up", b"\x1b[B": "down", b"\x1b[C": "right", b"\x1b[D": "left", b"\x1bOA": "up", b"\x1bOB": "down",
    b"\x1bOC": "right", b"\x1bOD": "left", b"\x1b[5~": "pgup", b"\x1b[6~": "pgdn", b"\x1b[H": "home", b"\x1b[F": "end",
    b"\x1b[1~": "home", b"\x1b[4~": "end", b"\x1bOH": "home", b"\x1bOF": "end", b"\x1b[Z": "backtab", b"\x1b": "esc",
    b"\r": "enter", b"\n": "enter", b"\t": "tab", b"\x7f": "backspace", b"\x08": "backspace", b"\x03": "ctrl-c",
}  # fmt: skip
Read = Callable[[float], bytes | None]  # seconds to wait -> bytes, empty at the end; None if no key was pressed

POLL = 0.02  # s between looks at the console of Windows, which cannot be waited for
# The second character of a special key in the console of Windows, as a Unix terminal sends it.
SPECIAL = {
    "H": b"\x1b[A", "P": b"\x1b[B", "M": b"\x1b[C", "K": b"\x1b[D",
    "I": b"\x1b[5~", "Q": b"\x1b[6~", "G": b"\x1b[H", "O": b"\x1b[F", "\x0f": b"\x1b[Z",
}  # fmt: skip


def watch(app: App) -> None:
    """Show the screen until the user quits."""
    shown: list[str] = []
    refreshed = 0.0
    with keyboard() as read, _own_screen():
        while not app.done:
            size = shutil.get_terminal_size((80, 24))
            lines = app.render(size.columns, size.lines)
            _draw(shown, lines)
            shown = lines
            while not app.done:
                wait = max(0.0, EVERY - (time.monotonic() - refreshed))
                if (data := read(wait)) is not None:
                    if not data:
                        return  # the terminal is gone
                    for key in keys(data):
                        app.press(key)
                    break
                refreshed = time.monotonic()
                if app.refresh():
                    break
                if shutil.get_terminal_size((80, 24)) != size:
                    shown = []
                    break


def keys(data: bytes) -> Iterator[str]:
    """The keys in the bytes from a terminal."""
    while data:
        code = next((code for code in sorted(KEYS, key=len, reverse=True) if data.startswith(code)), None)
        if code is not None and not (code == b"\x1b" and len(data) > 1 and data[1:2] in b"[O"):
            yield KEYS[code]
            data = data[len(code) :]
            continue
        if data[:1] == b"\x1b":  # an unknown sequence
            end = next((at for at in range(2, len(data)) if 0x40 <= data[at] <= 0x7E), len(data) - 1)
            data = data[end + 1 :]
            continue
        size = 1 if data[0] < 0x80 else 2 if data[0] < 0xE0 else 3 if data[0] < 0xF0 else 4
        yield data[:size].decode("utf-8", "replace")
        data = data[size:]


def _draw(before: list[str], now: list[str]) -> None:
    """Send the lines that have changed."""
    out = [] if before else ["\x1b[2J"]
    for at, line in enumerate(now):
        if at >= len(before) or before[at] != line:
            out.append(f"\x1b[{at + 1};1H{line.rstrip()}\x1b[0m\x1b[K")
    if out:
        sys.stdout.write("".join(out))
        sys.stdout.flush()


@contextmanager
def _own_screen() -> Iterator[None]:
    sys.stdout.write("\x1b[?1049h\x1b[?25l")
    try:
        yield
    finally:
        sys.stdout.write("\x1b[0m\x1b[?25h\x1b[?1049l")
        sys.stdout.flush()


@contextmanager
def keyboard() -> Iterator[Read]:
    """Read single keys until the end of the block; the terminal is then as before."""
    try:
        import termios
        import tty
    except ImportError:
        yield _windows_console()
        return
    fd = sys.stdin.fileno()
    before = termios.tcgetattr(fd)

    def read(seconds: float) -> bytes | None:
        return os.read(fd, 1024) if select.select([fd], [], [], seconds)[0] else None

    try:
        tty.setraw(fd, termios.TCSADRAIN)
        yield read
    finally:
        termios.tcsetattr(fd, termios.TCSADRAIN, before)


def _windows_console() -> Read:
    console = importlib.import_module("msvcrt")
    os.system("")  # lets the console understand escape sequences

    def read(seconds: float) -> bytes | None:
        end = time.monotonic() + seconds
        while not console.kbhit():
            if time.monotonic() >= end:
                return None
            time.sleep(POLL)
        key: str = console.getwch()
        if key in ("\x00", "\xe0"):
            return SPECIAL.get(console.getwch())
        return key.encode()

    return read
