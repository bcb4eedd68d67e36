"""Conversion of logged values to numbers: the only module that handles foreign types.

A row whose values are exactly `int` and `float` needs none of this. Everything else is split here: numbers of other
libraries become plain numbers, values still on a device wait, media become records of their own, and anything else
becomes text, so that one bad value never costs a row.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import date
from datetime import time as time_of_day
from enum import Enum
from pathlib import PurePath
from typing import Any

import msgspec

from chiplog.core import messages
from chiplog.core.records import Eval, Number, Plain, Record, Row, Step
from chiplog.core.values.media import Media
from chiplog.core.values.text import cut

NUMBERS = frozenset((int, float))
DEEPEST = 32
MOST = 1 << 14  # mappings and lists inside one value; a value with more contains itself, or others many times
LONGEST_NAME = 65_536  # characters
_TOO_LONG = 10**4300  # Python and many other parsers refuse longer integers
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")  # of an object, which makes equal settings differ in every run
_CONTAINERS = (Mapping, list, tuple, set, frozenset)


class SplitRow(msgspec.Struct, frozen=True):
    """A logged mapping: numbers, values still on a device, media, and everything else as text."""

    row: Row
    later: dict[str, object]
    media: dict[str, Media]
    texts: dict[str, str]


class Kinds(msgspec.Struct, frozen=True):
    """Tells what a value is."""

    on_device: Callable[[object], bool]
    media: Callable[[object], Media | None] = lambda _: None  # of other libraries


def split(metrics: Mapping[Any, object], kinds: Kinds) -> SplitRow:
    """Split a row of any values; never raises, whatever their methods do."""
    row = SplitRow({}, {}, {}, {})
    _split(row, "", metrics, kinds, (id(metrics),), [MOST])
    return row


def number(value: Any) -> Number | None:
    """A value as int, float or bool, exact if its type allows; None if it is not a number."""
    if isinstance(value, bool):
        return value
    if isinstance(value, int):
        return int(value) if -_TOO_LONG < value < _TOO_LONG else None
    if isinstance(value, float):
        return float(value)
    if isinstance(value, (str, bytes, bytearray, *_CONTAINERS)) or value is None:
        return None
    item = getattr(value, "item", None)  # numpy, torch, jax, cupy, tensorflow: arrays of one element
    if item is not None and hasattr(value, "dtype"):
        if _elements(value) != 1:
            return None
        scalar = item()  # unlike float(), it accepts a tensor with a graph without a warning
        return float(scalar) if type(scalar) is type(value) else number(scalar)
    if hasattr(type(value), "__float__") and not isinstance(value, complex):
        double = float(value)
        if double - double == 0 or not hasattr(value, "is_finite") or not value.is_finite():
            return double  # a Decimal beyond all doubles is not infinite
    return None


def text(value: object) -> str:
    """A value that is not a number, as text; never raises."""
    if isinstance(value, (str, PurePath)):
        return cut(str(value))
    try:
        shape = getattr(value, "shape", None)
        if shape is not None:
            return _summary(value, tuple(shape))
        if isinstance(value, int) and number(value) is None:
            return f"<an integer of {value.bit_length():,} bits>"
        if isinstance(value, (date, time_of_day)):
            return value.isoformat()
        shown = repr(plain(value) if isinstance(value, _CONTAINERS) else value)
        return cut(_ADDRESS.sub("", shown))
    except Exception as error:
        return f"<{type(value).__name__}: {type(error).__name__}>"


def double(value: Number) -> float:
    """A number as a double; an integer beyond all of them as an infinity."""
    try:
        return float(value)
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


def plain(value: object) -> Plain:
    """A value as plain data for events, tables and configs: numbers and strings as they are, other objects as text."""
    return _plain(value, 0, [MOST])


def name(key: object) -> str:
    """A key as the name of a series."""
    return cut(key if isinstance(key, str) else text(key), LONGEST_NAME)


def encodable(record: Record) -> Record:
    """A record that JSON cannot represent, with every name and value converted."""
    fields = {field: plain(getattr(record, field)) for field in record.__struct_fields__}
    if isinstance(fields.get("step"), str) and isinstance(step := getattr(record, "step", None), int):
        messages.once("far step", f"step {fields['step']} is too large to store; recorded as infinity")
        fields["step"] = float("inf") if step > 0 else float("-inf")
    if isinstance(record, (Step, Eval)):  # their values must be numbers
        for key in [key for key, value in fields["metrics"].items() if isinstance(value, str)]:
            messages.once(
                f"not encodable {key}",
                f"cannot record {key!r} ({fields['metrics'].pop(key)}); the rest of the row is recorded",
            )
    return type(record)(**fields)


def shorten(record: Record) -> Record:
    """A record that is too long for a line, with its lists and strings cut."""
    fields = {field: _shorten(plain(getattr(record, field))) for field in record.__struct_fields__}
    return type(record)(**fields)


def _shorten(value: Plain) -> Plain:
    if isinstance(value, str):
        return cut(value, 65_536)
    if isinstance(value, list):
        kept: list[Plain] = []
        size = 0
        for item in value:
            kept.append(_shorten(item))
            size += len(msgspec.json.encode(kept[-1]))
            if size > 2 << 20:
                break
        return kept
    if isinstance(value, dict):
        size = 0
        short: dict[str, Plain] = {}
        for key, item in value.items():
            name = cut(key, 1024)
            short[name] = _shorten(item)
            size += len(name) + len(msgspec.json.encode(short[name]))
            if size > 4 << 20:
                break
        return short
    return value


def _split(
    split: SplitRow,
    prefix: str,
    metrics: Mapping[Any, object],
    kinds: Kinds,
    inside: tuple[int, ...],
    left: list[int],
) -> None:
    for key, value in metrics.items():
        full = prefix + name(key)
        if full in split.row or (type(key) is str and len(key) > LONGEST_NAME):
            _report_name(full, "has two values in one row; the last is kept" if full in split.row else "is cut")
        if type(value) is float:
            split.row[full] = value
            continue
        try:
            if isinstance(value, Mapping):
                left[0] -= 1
                if left[0] < 0 or len(inside) > DEEPEST or id(value) in inside:
                    split.texts["…"] = (
                        f"{full} and similar values are left out: too many nested mappings, or one inside itself"
                    )
                else:
                    _split(split, full + "/", value, kinds, (*inside, id(value)), left)
            elif kinds.on_device(value):
                split.later[full] = value
            elif isinstance(value, Media):
                split.media[full] = value
            elif (plain_number := number(value)) is not None:
                split.row[full] = plain_number
            elif (media := kinds.media(value)) is not None:
                split.media[full] = media
            else:
                split.texts[full] = text(value)
        except Exception as error:
            split.texts[full] = f"<{type(value).__name__}: {type(error).__name__}: {text(str(error))}>"


def _report_name(name: str, what: str) -> None:
    shown = cut(name, 60)
    messages.once(f"name {shown} {what}", f"the name {shown!r} {what}")


def _plain(value: Any, depth: int, left: list[int]) -> Plain:
    if value is None or type(value) in (bool, float):
        return value
    if isinstance(value, Enum):
        return _plain(value.value, depth + 1, left)
    if isinstance(value, str):
        return cut(str(value))
    left[0] -= isinstance(value, _CONTAINERS)
    if depth > DEEPEST or left[0] < 0:
        return "…"
    try:
        if isinstance(value, Mapping):
            return {name(key): _plain(item, depth + 1, left) for key, item in value.items()}
        if isinstance(value, _CONTAINERS):
            return [_plain(item, depth + 1, left) for item in value]
        if isinstance(value, msgspec.Struct) or hasattr(value, "__dataclass_fields__"):
            return _plain(msgspec.to_builtins(value, enc_hook=text), depth + 1, left)
        if (plain_number := number(value)) is not None:
            return plain_number
        tolist = getattr(value, "tolist", None)
        if tolist is not None and _elements(value) <= 65_536:
            return _plain(tolist(), depth + 1, left)
    except Exception as error:
        if isinstance(value, _CONTAINERS):
            return f"<{type(value).__name__}: {type(error).__name__}>"
    return text(value)


def _elements(value: Any) -> int:
    count = 1
    for length in value.shape:
        count *= int(length)
    return count


def _summary(value: Any, shape: tuple[int, ...]) -> str:
    words = f"{type(value).__name__} of {getattr(value, 'dtype', '?')}, shape {shape}"
    try:
        if getattr(value, "requires_grad", False):
            value = value.detach()
        return f"{words}, min {float(value.min()):g}, mean {float(value.mean()):g}, max {float(value.max()):g}"
    except Exception:
        return words
