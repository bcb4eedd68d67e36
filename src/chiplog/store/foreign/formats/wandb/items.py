"""The items of W&B's history, summary, config and system records: a key and a value each, as JSON or typed."""

from __future__ import annotations

from functools import lru_cache

import msgspec

from chiplog.core.records import Plain
from chiplog.store.foreign.yaml_and_json import decoded
from chiplog.store.protobuf import reader

_NUMBERS = {int, float, bool}
_VALUE_JSON = b"\x82\x01"  # field 16, with a length


def raw_items(data: bytes, number: int = 1) -> list[tuple[bytes, bytes]]:
    """(key, value) of the items of a message as bytes: most rows hold nothing but a key and JSON, in this order.

    The key of an item of another shape is empty, and the value is the whole item.
    """
    pairs: list[tuple[bytes, bytes]] = []
    at, end, tag = 0, len(data), number << 3 | 2
    while at < end and data[at] == tag:
        size = data[at + 1] if at + 1 < end else 0
        at += 2
        if size > 127:
            shift = 7
            size &= 127
            while at < end:
                byte = data[at]
                at += 1
                size |= (byte & 127) << shift
                shift += 7
                if byte < 128:
                    break
        item = data[at : at + size]
        at += size
        length = item[1] if size > 1 else 255
        stop = 2 + length
        if length < 128 and item[0] in (10, 18) and item[stop : stop + 2] == _VALUE_JSON:
            start = stop + 3 if stop + 2 < size and item[stop + 2] < 128 else stop + 4
            value = item[start:]
            if len(value) == (item[stop + 2] if start == stop + 3 else item[stop + 2] & 127 | item[stop + 3] << 7):
                pairs.append((item[:stop], value))
                continue
        pairs.append((b"", item))
    if at < end:  # other fields, or items after them
        pairs += [(b"", reader.message(item)) for field, _, item in reader.fields(data[at:]) if field == number]
    return pairs


def numbers(pairs: list[tuple[bytes, bytes]]) -> dict[str, int | float | bool | str] | None:
    """A row whose values are all finite numbers, by name; None if there is anything else in it."""
    keys, values = zip(*pairs, strict=True) if pairs else ((), ())
    try:
        row: list[Plain] = msgspec.json.decode(b"[%b]" % b",".join(values))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    if b"" in keys or len(row) != len(keys) or not set(map(type, row)) <= _NUMBERS:
        return None
    return dict(zip([path_of(key)[0] for key in keys], row, strict=True))


def items(data: bytes, number: int = 1) -> dict[tuple[str, ...], Plain]:
    """The items of a message, by path."""
    values: dict[tuple[str, ...], Plain] = {}
    for key, value in raw_items(data, number):
        if key:
            values[path_of(key)] = decoded(value)
        else:
            path, typed = odd(value)
            if path:
                values[path] = typed
    return values


@lru_cache(65_536)
def path_of(key: bytes) -> tuple[str, ...]:
    """The path of a key with its tag and length."""
    return (key[2:].decode("utf-8", "backslashreplace"),)


def nested(values: dict[tuple[str, ...], Plain]) -> dict[str, Plain]:
    """Items by path as mappings in mappings."""
    tree: dict[str, Plain] = {}
    for path, value in values.items():
        place = tree
        for key in path[:-1]:
            below = place.get(key)
            if not isinstance(below, dict):
                below = place[key] = {}
            place = below
        place[path[-1]] = value
    return tree


def odd(item: bytes) -> tuple[tuple[str, ...], Plain]:
    """The path and the value of an item with a nested key, or with a typed value."""
    key, path = "", []
    value: Plain = None
    for number, _, data in reader.fields(item):
        if number == 1:
            key = reader.text(data)
        elif number == 2:
            path.append(reader.text(data))
        elif number == 4:
            value = bool(data)
        elif number == 5:
            value = reader.integer(data)
        elif number == 6:
            value = reader.double(data)
        elif number == 7:
            value = reader.text(data)
        elif number in (8, 16):
            value = decoded(reader.message(data))
    return tuple(path) or ((key,) if key else ()), value
