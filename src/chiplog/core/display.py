"""Output in a terminal: its colours and width, text that fits, and numbers in short form."""

from __future__ import annotations

import math
import os
import time
import unicodedata
from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple, TextIO

from chiplog.core.messages import clean
from chiplog.core.values.text import Pattern

# Styles are the numbers of an SGR sequence: "31" is red.
STATES = {
    "running": "36",
    "finished": "32",
    "failed": "31",
    "killed": "31",
    "lost": "33",
    "interrupted": "33",
    "pruned": "33",
    "unreadable": "33",
}
LEVELS = {"info": "34", "warn": "33", "error": "1;31"}

_STYLE = Pattern(r"\x1b\[[0-9;]*m")
_SUFFIXES = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
LONGEST = 4096  # characters of one text that are shown
_BYTES = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")

# -- the terminal ------------------------------------------------------------------------------------------------------


class Screen(NamedTuple):
    """What a terminal can show."""

    width: int
    height: int
    colour: bool
    ascii: bool  # it shows nothing but ASCII
    piped: bool = False  # not a terminal: a file or another program, for which nothing is cut

    @property
    def room(self) -> int | None:
        """The width that tables and text must fit into; None if nothing must."""
        return None if self.piped else self.width


def screen(stream: TextIO, environ: Mapping[str, str]) -> Screen:
    """The screen behind a stream; 100 columns if neither it nor COLUMNS has a width, and never fewer than 40."""
    width, height = terminal_size(stream, environ, (100, 30))
    encoding = (getattr(stream, "encoding", None) or "ascii").lower()
    shows_utf = encoding.startswith("utf")
    return Screen(
        max(40, width), max(10, height), has_colour(stream, environ), not shows_utf, not is_terminal(stream, {})
    )


def is_terminal(stream: TextIO | None, environ: Mapping[str, str]) -> bool:
    """Whether a stream is a terminal that supports escape sequences."""
    try:
        return stream is not None and stream.isatty() and environ.get("TERM") != "dumb"
    except (AttributeError, ValueError, OSError):  # stdout may be any object, even a closed file
        return False


def has_colour(stream: TextIO | None, environ: Mapping[str, str]) -> bool:
    """Colour only on a terminal, and never with NO_COLOR."""
    return is_terminal(stream, environ) and not environ.get("NO_COLOR")


def terminal_size(
    stream: TextIO | None, environ: Mapping[str, str], default: tuple[int, int] = (80, 24)
) -> tuple[int, int]:
    """Columns and lines: those of COLUMNS and LINES, else the terminal's, else the default."""
    sizes = (environ.get("COLUMNS", ""), environ.get("LINES", ""))
    width, height = (int(size) if size.isdecimal() else 0 for size in sizes)
    if stream is not None and not (width and height):
        try:
            terminal = os.get_terminal_size(stream.fileno())
            width, height = width or terminal.columns, height or terminal.lines
        except (AttributeError, ValueError, OSError):
            pass
    return width or default[0], height or default[1]


# -- text that fits ----------------------------------------------------------------------------------------------------


def paint(text: str, style: str, colour: bool = True) -> str:
    """Text in a style, if there is colour."""
    return f"\x1b[{style}m{text}\x1b[0m" if colour and style and text else text


def unpainted(text: str) -> str:
    """Text without its styles."""
    return _STYLE.compiled.sub("", text) if "\x1b" in text else text


def columns(text: str) -> int:
    """The width of text in columns of a terminal."""
    if text.isascii():
        return len(text)
    return sum(map(_columns, text))


def cut(text: str, width: int, mark: str = "…") -> str:
    """Text cut to `width` columns; the mark replaces the rest."""
    if columns(text) <= width:
        return text
    used, kept = 0, 0
    for char in text:
        used += _columns(char)
        if used > width - 1:
            break
        kept += 1
    return text[:kept] + mark


def brief(text: str) -> str:
    """A text of a run for people: of a very long one the start, and how to see the rest."""
    if len(text) <= LONGEST:
        return text
    return f"{text[:LONGEST]}… ({len(text):,} characters: `chiplog cat` has them all)"


def pad(text: str, width: int) -> str:
    """Text padded with spaces to `width` columns."""
    return text + " " * (width - columns(text))


def fit(line: str, width: int) -> str:
    """A line of exactly `width` columns; it keeps its styles unless it is cut."""
    bare = unpainted(line)
    size = columns(bare)
    return line + " " * (width - size) if size <= width else pad(cut(bare, width), width)


def wrap(text: str, room: int | None) -> list[str]:
    """Text in lines of at most `room` columns, broken at spaces if there are any."""
    lines = []
    while room is not None and columns(text) > room:
        piece = cut(text, room + 1)[:-1]
        at = piece.rfind(" ") if " " in piece.strip() else len(piece)
        lines.append(text[:at])
        text = text[at:].lstrip()
    return [*lines, text]


@lru_cache(4096)
def _columns(char: str) -> int:
    if unicodedata.combining(char) or unicodedata.category(char) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(char) in ("W", "F") else 1


# -- numbers in short form ---------------------------------------------------------------------------------------------


def number(value: object) -> str:
    """A value in about four digits: 2.346, 16.38k, 3e-05, nan; what is not a number as it is."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return str(value)
    try:
        size = abs(float(value))
    except OverflowError:
        return "inf" if value > 0 else "-inf"
    if not math.isfinite(size) or size >= 1e15:
        return f"{float(value):.4g}"
    if isinstance(value, int) and size < 1e4:
        return str(value)
    if size < 1e4:
        return f"{value:.4g}"
    unit, suffix = next((unit, suffix) for unit, suffix in _SUFFIXES if size >= unit)
    return f"{value / unit:.4g}{suffix}"


def count(value: int | float) -> str:
    """An integer with thousands separators; another number as it is."""
    return f"{value:,}" if isinstance(value, int) else f"{value:g}"


def counted(number: int, noun: str) -> str:
    """A number of things: 0 runs, 1 run, 1,234 runs."""
    return f"{number:,} {noun}{'s' * (number != 1)}"


def size(amount: int | float) -> str:
    """Bytes: 512 B, 3.4 MiB."""
    if amount < 1024:
        return f"{amount:.0f} B"
    power = min(int(math.log(amount, 1024)), len(_BYTES) - 1)
    return f"{amount / 1024**power:.1f} {_BYTES[power]}"


def duration(seconds: float) -> str:
    """Two units at most: 340ms, 4.2s, 2m05s, 2h15m, 3d04h."""
    if seconds < 1:
        return f"{max(0.0, seconds) * 1000:.0f}ms"
    if seconds < 10:
        return f"{seconds:.1f}s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 1:
        return f"{rest}s"
    hours, minutes = divmod(minutes, 60)
    if hours < 1:
        return f"{minutes}m{rest:02d}s"
    days, hours = divmod(hours, 24)
    return f"{days}d{hours:02d}h" if days else f"{hours}h{minutes:02d}m"


def short_duration(seconds: float) -> str:
    """Three digits, down to nanoseconds: 1.23µs, 45.6ms, 7.89s, 2m05s."""
    if seconds >= 100:
        minutes, rest = divmod(round(seconds), 60)
        hours, minutes = divmod(minutes, 60)
        return f"{hours}h{minutes:02d}m" if hours else f"{minutes}m{rest:02d}s"
    for unit, name in ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs")):
        if seconds >= unit:
            return f"{seconds / unit:.3g}{name}"
    return f"{seconds * 1e9:.0f}ns"


def ago(then: int, now: int) -> str:
    """How long ago, from two wall-clock times in nanoseconds, in one unit."""
    seconds = max(0, now - then) // 1_000_000_000
    for unit, name in ((86400, "d"), (3600, "h"), (60, "m")):
        if seconds >= unit:
            return f"{seconds // unit}{name} ago"
    return f"{seconds}s ago"


def date(nanoseconds: int) -> str:
    """A wall-clock time in the local time zone."""
    try:
        return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(nanoseconds / 1e9))
    except (ValueError, OverflowError, OSError):
        return str(nanoseconds)


# -- numbers of a constant width, for columns that do not move; text is shortened ------------------------------


def decimals(value: float | str) -> str:
    """Four decimals if they are significant, otherwise an exponent: `2.3456`, `1.2e-07`."""
    if isinstance(value, str):
        return compact(value)
    size = abs(value)
    return f"{value:.4f}" if 1e-3 <= size < 1e5 or not size else f"{value:.1e}" if size < math.inf else f"{value:f}"


def compact(value: float | str) -> str:
    """A value in few characters: four digits, integers as they are up to a million, short texts."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return cut(value if value.isprintable() else clean(value), 20)
    if isinstance(value, int) and abs(value) < 1_000_000:
        return str(value)
    try:
        return amount(value) if isinstance(value, int) else f"{value:.4g}"
    except OverflowError:
        return "huge" if value > 0 else "-huge"


def amount(value: float | str) -> str:
    """A large number with its suffix: `950`, `125.3k`, `1.2M`, `3.0B`."""
    if isinstance(value, str):
        return compact(value)
    size = float(value)
    for suffix in ("", "k", "M", "B", "T"):
        if abs(size) < 999.95:
            return f"{size:.1f}{suffix}" if suffix or abs(size) < 100 else f"{size:.0f}"
        size /= 1000
    return f"{float(value):.1e}"


def milliseconds(value: float | str) -> str:
    """Seconds in milliseconds, three digits at least: `1.56`, `15.6`, `156`."""
    if isinstance(value, str):
        return compact(value)
    size = value * 1000.0
    return f"{size:.2f}" if abs(size) < 9.995 else f"{size:.1f}" if abs(size) < 99.95 else f"{size:.0f}"


def time_left(value: float | str) -> str:
    """Seconds in six characters: `00m42s`, `02h15m`, `04d03h`."""
    if isinstance(value, str) or not 0 <= value < 1e9:
        return compact(value)
    minutes, seconds = divmod(round(value), 60)
    hours, minutes = divmod(minutes, 60)
    days, rest = divmod(hours, 24)
    if days >= 4:
        return f"{days:02d}d{rest:02d}h"
    return f"{hours:02d}h{minutes:02d}m" if hours else f"{minutes:02d}m{seconds:02d}s"
