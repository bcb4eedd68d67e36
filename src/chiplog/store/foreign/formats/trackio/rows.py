"""trackio's rows as records, wherever it keeps them: in its database, in fragments of its inbox, or in Parquet."""

from __future__ import annotations

import mimetypes
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath

from chiplog.core import records
from chiplog.core.records import Number, Plain
from chiplog.core.values.text import cut
from chiplog.store.foreign.protocol import Item, Losses, MediaFile, clean_name

NAME = "trackio"
MEDIA = "media"
NONFINITE = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}
LEVELS = {"info": "info", "warn": "warn", "error": "error"}


class TrackioRows:
    """The rows of one run; files of media are in a folder next to the store."""

    def __init__(self, folder: Path, losses: Losses) -> None:
        self._folder, self._losses = folder, losses

    def metrics(self, values: Plain, step: Plain, time: int) -> Iterator[Item]:
        if not isinstance(values, dict):
            self._losses.add("rows that are not JSON")
            return
        at: Number = step if isinstance(step, (int, float)) else 0
        metrics: dict[str, int | float | bool | str] = {}
        others: list[Item] = []
        for name, value in _flat(values):
            if isinstance(value, (int, float)):
                metrics[clean_name(name)] = value
            elif isinstance(value, str) and value in NONFINITE:
                metrics[clean_name(name)] = NONFINITE[value]
            else:
                others += self._other(clean_name(name), value, at, time)
        if metrics:
            yield records.Step(0, time, at, metrics)
        yield from others

    def system(self, values: Plain, time: int) -> Iterator[Item]:
        if not isinstance(values, dict):
            self._losses.add("rows that are not JSON")
            return
        yield records.Event(0, time, "system", {key: NONFINITE.get(str(one), one) for key, one in values.items()})

    def alert(self, title: Plain, text: Plain, level: Plain, step: Plain, time: int) -> records.Alert:
        at = step if isinstance(step, (int, float)) else None
        return records.Alert(0, time, str(title), LEVELS.get(str(level), "warn"), str(text or ""), "", at)

    def _other(self, name: str, value: Plain, step: Number, time: int) -> Iterator[Item]:
        """A text, a table, or a file of media."""
        if isinstance(value, str):
            yield records.TextRecord(0, time, name, cut(value), step)
        elif isinstance(value, dict) and isinstance(value.get("file_path"), str):
            path = value["file_path"]
            media = mimetypes.guess_type(path)[0] or "application/octet-stream"
            caption = str(value.get("caption") or "")
            suffix = PurePosixPath(path).suffix if PurePosixPath(path).suffix[1:].isalnum() else ".bin"
            folder = self._folder / MEDIA
            yield MediaFile(name, time, suffix, media, folder=folder, path=path, step=step, caption=caption)
        elif isinstance(value, dict) and isinstance(text := value.get("_value"), str):
            yield records.TextRecord(0, time, name, cut(text), step)
        elif isinstance(value, dict) and value.get("_type") == "trackio.histogram":
            edges, counts = value.get("bins"), value.get("values")
            if isinstance(edges, list) and isinstance(counts, list) and len(edges) == len(counts) + 1:
                yield records.HistogramRecord(0, time, name, edges, counts, step)
        elif isinstance(value, dict) and isinstance(rows := value.get("_value"), list):
            kept = [row for row in rows if isinstance(row, dict)]
            if kept:
                yield records.Table(0, time, name, kept, step)
        elif value is not None:
            self._losses.add(f"values of type {value.get('_type', 'mapping') if isinstance(value, dict) else 'list'}")


def _flat(values: Mapping[str, Plain], prefix: str = "") -> Iterator[tuple[str, Plain]]:
    """Values by name; mappings that are not media add their keys."""
    for key, value in values.items():
        if isinstance(value, dict) and "_type" not in value:
            yield from _flat(value, f"{prefix}{key}/")
        else:
            yield f"{prefix}{key}", value
