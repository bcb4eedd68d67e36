"""Other programs' small files as plain data: YAML, JSON, and numbers in texts. What cannot be read is empty."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec

from chiplog.core.files import reading
from chiplog.core.records import Number, Plain

LARGEST = 16 << 20


def read_text(path: Path, most: int = LARGEST) -> str:
    try:
        return reading.read_bytes(path.parent, path.name, most).decode("utf-8", "backslashreplace")
    except OSError:
        return ""


def load_json(path: Path, most: int = LARGEST) -> Plain:
    try:
        return json.loads(read_text(path, most))
    except (ValueError, RecursionError):
        return None


def decoded(value: bytes) -> Plain:
    """A value of JSON as Python writes it, with NaN and infinities."""
    try:
        return msgspec.json.decode(value)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        pass
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value.decode("utf-8", "backslashreplace")


def load_yaml(path: Path) -> dict[str, Plain]:
    """A mapping; without PyYAML, the keys of its first level that have a simple value."""
    text = read_text(path)
    try:
        import yaml
    except ImportError:
        return _simple(text)
    try:
        data = yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except (yaml.YAMLError, ValueError, RecursionError):  # objects of Python too, which are never created
        return _simple(text)
    return {str(key): value for key, value in data.items()} if isinstance(data, dict) else {}


def from_text(text: str) -> Plain:
    """The number that a text spells, if it spells it exactly; otherwise the text."""
    number = number_of(text)
    if number is not None and (str(number) == text or repr(number) == text):
        return number
    return {"True": True, "False": False}.get(text, text)


def number_of(text: str) -> Number | None:
    """A number in any spelling; None if it is not one."""
    try:
        return int(text)
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError:
        return None


def _simple(text: str) -> dict[str, Plain]:
    values: dict[str, Plain] = {}
    for line in text.splitlines():
        key, colon, value = line.partition(":")
        if colon and key and not key[0].isspace() and not key.startswith(("#", "-")):
            stripped = value.strip()
            quoted = len(stripped) > 1 and stripped[0] == stripped[-1] and stripped[0] in "'\""
            values[key.strip()] = stripped[1:-1] if quoted else from_text(stripped)
    return values
