"""Values as other systems accept them: valid UTF-8, integers of 64 bits, whole steps, safe file names."""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence

from chiplog.core.records import NONFINITE, Number, Plain
from chiplog.core.values.convert import double

INT64 = (1 << 63) - 1
LONGEST_NAME = 100  # characters of a file name


def utf8(text: str) -> str:
    """Text with lone surrogates escaped."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


def int64(value: Number) -> Number:
    """A number; an integer of more than 64 bits as a float, or an infinity."""
    return double(value) if isinstance(value, int) and not -INT64 - 1 <= value <= INT64 else value


def whole_step(step: int | float | None, default: int = 0) -> int:
    """A step as an integer of 64 bits; the default for one that is missing or not finite."""
    if step is None or step - step != 0:
        return default
    return max(-INT64, min(INT64, int(step)))


def plain(value: Plain, integer: Callable[[int], Plain] = int64) -> Plain:
    """Nested data in valid UTF-8, with integers that fit 64 bits, or as `integer` converts them."""
    if isinstance(value, str):
        return utf8(value)
    if isinstance(value, dict):
        return {utf8(str(key)): plain(item, integer) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item, integer) for item in value]
    return integer(value) if isinstance(value, int) else value


def cell(value: Plain) -> Plain:
    """A cell of a table: a number or text; nested data as text."""
    return str(plain(value)) if isinstance(value, (dict, list, tuple)) else plain(value)


def edges(values: Sequence[Number | str]) -> list[Number]:
    """The edges of a histogram, with infinities that were stored as text."""
    return [NONFINITE.get(value, 0.0) if isinstance(value, str) else value for value in values]


def file_name(name: str, default: str, taken: Container[str] = ()) -> str:
    """A name as one part of a path, different from those `taken`, whatever their case."""
    safe = ascii_name(name).strip(".-")[:LONGEST_NAME] or default
    free, number = safe, 1
    while free.casefold() in taken:
        number += 1
        free = f"{safe}-{number}"
    return free


def ascii_name(name: str) -> str:
    """A name in ASCII letters, digits, dots, dashes and underscores."""
    return "".join(char if char.isascii() and (char.isalnum() or char in "-_.") else "-" for char in name)
