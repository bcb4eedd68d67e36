"""Logged values as chiplog keeps them: numbers, text, media, and the rest as W&B's client sees it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import chiplog
from chiplog.compat.shared.file_media import FileMedia
from chiplog.compat.wandb import messages
from chiplog.compat.wandb.data.media import Histogram
from chiplog.compat.wandb.data.table import Table
from chiplog.core.values import convert
from chiplog.core.values.convert import NUMBERS
from chiplog.core.values.foreign_media import recognize
from chiplog.core.values.host_arrays import on_host
from chiplog.core.values.media import Media

LIST = 32  # elements; W&B keeps larger arrays as histograms
DEEPEST = 32

Keep = Callable[[str, Any], None]  # keeps a table or a file under a name


def kept_row(data: Mapping[Any, object], keep: Keep) -> dict[str, Any]:
    """A logged mapping as a row for `Run.log`: nested names joined by dots; tables and files go to `keep`."""
    row: dict[str, Any] = {}
    for name, logged in flattened("", data):
        if type(logged) in NUMBERS:
            row[name] = logged
            continue
        try:
            value = ours(logged)
            single = kept(value)
        except Exception:  # `Run.log` keeps it as text
            value = single = logged
        if value is None:
            messages.once(f"none {name}", f"{name!r} is None: there is no value to keep")
        elif isinstance(value, Table | FileMedia):
            keep(name, value)
        elif isinstance(value, list | tuple) and value and all(isinstance(one, FileMedia | Table) for one in value):
            for one in value:
                keep(name, one)
        else:
            row[name] = single
    return row


def kept(value: Any) -> Any:
    """A single value: strings and lists become text, large arrays histograms; the rest is for `Run.log`."""
    if isinstance(value, str):
        return chiplog.Text(value)
    if isinstance(value, int | float | Media):
        return value
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        return _array(value)
    if (media := recognize(value)) is not None:
        return media
    if isinstance(value, list | tuple | set | frozenset):
        return chiplog.Text(json.dumps(convert.plain(value)))
    return value


def flattened(prefix: str, data: Mapping[Any, object], depth: int = 0) -> Iterator[tuple[str, Any]]:
    """The values of nested mappings, with their names joined by dots."""
    for key, value in data.items():
        name = f"{prefix}{convert.name(key)}"
        if isinstance(value, Mapping) and depth < DEEPEST:
            yield from flattened(f"{name}.", value, depth + 1)
        else:
            yield name, value


def _array(value: Any) -> Any:
    """An array as W&B keeps it: one element is a number, few are a list, many a histogram."""
    size = 1
    for length in value.shape:
        size *= int(length)
    if size == 1:
        return value  # it may still be on a device
    host = on_host(value)
    if size > LIST:
        return Histogram(host, num_bins=LIST)
    return chiplog.Text(json.dumps(convert.plain(host.tolist())))


def ours(value: Any) -> Any:
    """An object of W&B's own client, which a mirrored script logs, as one of ours; anything else as it is."""
    if type(value).__module__.partition(".")[0] != "wandb":
        if isinstance(value, list) and value and type(value[0]).__module__.partition(".")[0] == "wandb":
            return [ours(one) for one in value]
        return value
    kind, path = type(value).__name__, getattr(value, "_path", None)
    if kind == "Histogram":
        return Histogram(np_histogram=(value.histogram, value.bins))
    if kind == "Table":
        return Table(columns=value.columns, data=value.data)
    if path and kind == "Image":
        return chiplog.Image(path, getattr(value, "_caption", ""))
    if path:
        return FileMedia(None, Path(path), getattr(value, "_caption", ""))
    return chiplog.Text(f"<{kind}>")
