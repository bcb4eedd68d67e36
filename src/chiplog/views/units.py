"""Numbers as people read them: values, counts, bytes, durations and dates."""

from __future__ import annotations

import math
import time

_SUFFIXES = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
_BYTES = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


def number(value: object) -> str:
    """A value in about four digits: 2.346, 16.38k, 3e-05, nan; what is no number as it is."""
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
    """A whole number with its thousands apart; another one as it is."""
    return f"{value:,}" if isinstance(value, int) else f"{value:g}"


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


def ago(then: int, now: int) -> str:
    """How long ago, from two wall-clock times in nanoseconds, in one unit."""
    seconds = max(0, now - then) // 1_000_000_000
    for unit, name in ((86400, "d"), (3600, "h"), (60, "m")):
        if seconds >= unit:
            return f"{seconds // unit}{name} ago"
    return f"{seconds}s ago"


def date(nanoseconds: int) -> str:
    """A wall-clock time where we are."""
    try:
        return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(nanoseconds / 1e9))
    except (ValueError, OverflowError, OSError):
        return str(nanoseconds)
