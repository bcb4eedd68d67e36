"""Values of W&B that are more than a number: histograms, tables, images and other files, by their `_type`."""

from __future__ import annotations

import json
import mimetypes
from collections.abc import Iterator, Mapping
from itertools import zip_longest
from pathlib import Path, PurePosixPath
from typing import cast

from chiplog.core import records
from chiplog.core.files import reading
from chiplog.core.records import Number, Plain
from chiplog.core.values.text import cut
from chiplog.store.foreign.protocol import Item, Losses, MediaFile

LARGEST_TABLE = 64 << 20  # bytes of its file
ROWS = 1000  # of a table in one record


def items(
    name: str, value: Plain, step: Number, time: int, files: Path, metrics: Mapping[str, Plain], losses: Losses
) -> Iterator[Item]:
    """The items of a value in a row of the history; `metrics` are the numbers next to it; some belong to it."""
    if isinstance(value, str):
        yield records.TextRecord(0, time, name, cut(value), step)
    elif isinstance(value, dict):
        kind = value.get("_type")
        if kind == "histogram":
            yield from _histogram(name, value, step, time, metrics, losses)
        elif kind == "table-file":
            yield from _table(name, value, step, time, files, losses)
        elif isinstance(kind, str) and isinstance(value.get("path"), str):
            yield _file(name, value["path"], str(value.get("caption") or ""), step, time, files)
        elif isinstance(kind, str) and isinstance(value.get("filenames"), list):
            captions = value.get("captions")
            texts = [str(one or "") for one in captions] if isinstance(captions, list) else []
            for path, caption in zip_longest(value["filenames"], texts[: len(value["filenames"])], fillvalue=""):
                yield _file(name, str(path), caption, step, time, files)
        elif kind is None:
            for key, one in value.items():
                yield from items(f"{name}.{key}", one, step, time, files, metrics, losses)
        else:
            losses.add(f"values of type {kind}")
    elif value is not None:
        yield records.TextRecord(0, time, name, cut(json.dumps(value, default=str)), step)


def _histogram(
    name: str, value: dict[str, Plain], step: Number, time: int, metrics: Mapping[str, Plain], losses: Losses
) -> Iterator[Item]:
    counts, edges = value.get("values"), value.get("bins")
    packed = value.get("packedBins")
    if isinstance(packed, dict) and isinstance(counts, list):
        numbers = {key: packed.get(key, metrics.get(f"{name}.packedBins.{key}")) for key in ("min", "size")}
        if all(isinstance(one, (int, float)) for one in numbers.values()):
            low, size = cast(float, numbers["min"]), cast(float, numbers["size"])
            edges = [low + size * at for at in range(len(counts) + 1)]
    if isinstance(counts, list) and isinstance(edges, list) and len(edges) == len(counts) + 1:
        yield records.HistogramRecord(0, time, name, edges, counts, step)
    else:
        losses.add("histograms without their bins")


def _table(name: str, value: dict[str, Plain], step: Number, time: int, files: Path, losses: Losses) -> Iterator[Item]:
    try:
        table = json.loads(reading.read_bytes(files, str(value.get("path")), LARGEST_TABLE))
        columns, data = [str(column) for column in table["columns"]], table["data"]
        rows = [dict(zip(columns, row, strict=False)) for row in data]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        losses.add("tables whose file is missing or damaged")
        return
    for at in range(0, len(rows), ROWS):
        yield records.Table(0, time, name, rows[at : at + ROWS], step)


def _file(name: str, path: str, caption: str, step: Number, time: int, files: Path) -> MediaFile:
    media = mimetypes.guess_type(path)[0] or "application/octet-stream"
    suffix = PurePosixPath(path).suffix[:10]
    safe = suffix if suffix[1:].isalnum() and suffix.isascii() else ".bin"
    return MediaFile(name, time, safe, media, folder=files, path=path, step=step, caption=caption)
