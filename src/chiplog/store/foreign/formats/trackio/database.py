"""trackio's databases: one per project, with the rows of all its runs as JSON."""

from __future__ import annotations

import mimetypes
from collections.abc import Iterator
from pathlib import PurePosixPath

from chiplog.core import records
from chiplog.core.records import Number, Plain
from chiplog.core.values.text import cut
from chiplog.store.foreign import sqlite_file
from chiplog.store.foreign.plain_files import decoded
from chiplog.store.foreign.protocol import About, Folder, ForeignRun, Item, Losses, MediaFile, Position, clean_name
from chiplog.store.foreign.row_columns import moment
from chiplog.store.foreign.sqlite_file import Database

NAME = "trackio"
NONFINITE = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}
LEVELS = {"info": "info", "warn": "warn", "error": "error"}
_TABLES = ("metrics", "system_metrics", "alerts")


def find(folder: Folder) -> list[ForeignRun]:
    runs = []
    for name in folder.free(".db"):
        path = folder.path / name
        database = Database(path)
        columns = database.tables().get("metrics", [])
        if not {"run_name", "timestamp", "step", "metrics"} <= set(columns):
            continue
        folder.taken |= {name, "media"}
        by = "run_id" if "run_id" in columns else "run_name"  # older versions know a run by its name
        try:
            listed = database.all(f"SELECT {by}, run_name, MIN(timestamp) FROM metrics GROUP BY {by} ORDER BY MIN(id)")
        except sqlite_file.Unreadable:
            continue
        for key, run_name, first in listed:
            run = _Run(database, by, str(key), str(run_name), moment(first))
            identity = f"{NAME}:{path.stem}:{key}:{first}"
            files = sqlite_file.files_of(path)
            runs.append(ForeignRun(NAME, identity, path, files, run.about, run.read))
    return runs


class _Run:
    """One run of a project's database."""

    def __init__(self, database: Database, by: str, key: str, name: str, first: int) -> None:
        self._database, self._by, self._key, self._name, self._first = database, by, key, name, first

    def about(self, _: Plain) -> About:
        config: dict[str, Plain] = {}
        if self._by in self._database.tables().get("configs", []):
            rows = self._database.all(f"SELECT config FROM configs WHERE {self._by} = ?", (self._key,))
            data = _json(rows[0][0]) if rows else None
            config = data if isinstance(data, dict) else {}
        created = moment(config.get("_Created")) or self._first
        source = {"group": config["_Group"]} if config.get("_Group") else {}
        return About(
            project=self._database.path.stem,
            id=self._key if self._by == "run_id" else self._name,
            name=self._name,
            created=created,
            config={key: value for key, value in config.items() if not key.startswith("_")},
            source=source,
        )

    def read(self, position: Plain, losses: Losses) -> Iterator[Item]:
        last: dict[str, int] = dict(position) if isinstance(position, dict) else dict.fromkeys(_TABLES, 0)
        for number, table in enumerate(_TABLES):
            columns = self._database.tables().get(table, [])
            if self._by not in columns or "id" not in columns:
                continue
            fields = "title, text, level, step" if table == "alerts" else "metrics"
            if table == "metrics":
                fields += ", step"
            query = f"SELECT id, timestamp, {fields} FROM {table} WHERE {self._by} = ? AND id > ? ORDER BY id"
            for batch in self._database.rows(query, (self._key, last[table])):
                for row in batch:
                    last[table] = int(str(row[0]))
                    yield from self._items(table, moment(row[1]) or self._first, row[2:], losses)
                yield Position(dict(last), number / len(_TABLES))
        yield Position(dict(last), 1.0)

    def _items(self, table: str, time: int, row: tuple[object, ...], losses: Losses) -> Iterator[Item]:
        if table == "alerts":
            title, text, level, at = row
            step = at if isinstance(at, (int, float)) else None
            yield records.Alert(0, time, str(title), LEVELS.get(str(level), "warn"), str(text or ""), "", step)
            return
        values = _json(row[0])
        if not isinstance(values, dict):
            losses.add("rows that are not JSON")
        elif table == "system_metrics":
            yield records.Event(0, time, "system", {key: NONFINITE.get(str(one), one) for key, one in values.items()})
        else:
            step = row[1] if isinstance(row[1], (int, float)) else 0
            metrics: dict[str, int | float | bool | str] = {}
            others: list[Item] = []
            for name, value in _flat(values):
                if isinstance(value, (int, float)):
                    metrics[clean_name(name)] = value
                elif isinstance(value, str) and value in NONFINITE:
                    metrics[clean_name(name)] = NONFINITE[value]
                else:
                    others += self._other(clean_name(name), value, step, time, losses)
            if metrics:
                yield records.Step(0, time, step, metrics)
            yield from others

    def _other(self, name: str, value: Plain, step: Number, time: int, losses: Losses) -> Iterator[Item]:
        """A text, a table, or a file of media."""
        if isinstance(value, str):
            yield records.TextRecord(0, time, name, cut(value), step)
        elif isinstance(value, dict) and isinstance(value.get("file_path"), str):
            path = value["file_path"]
            media = mimetypes.guess_type(path)[0] or "application/octet-stream"
            folder = self._database.path.parent / "media"
            caption = str(value.get("caption") or "")
            suffix = PurePosixPath(path).suffix if PurePosixPath(path).suffix[1:].isalnum() else ".bin"
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
            losses.add(f"values of type {value.get('_type', 'mapping') if isinstance(value, dict) else 'list'}")


def _json(value: object) -> Plain:
    data = value.encode() if isinstance(value, str) else value
    return decoded(data) if isinstance(data, bytes) else None


def _flat(values: dict[str, Plain], prefix: str = "") -> Iterator[tuple[str, Plain]]:
    """Values by name; mappings that are not media add their keys."""
    for key, value in values.items():
        if isinstance(value, dict) and "_type" not in value:
            yield from _flat(value, f"{prefix}{key}/")
        else:
            yield f"{prefix}{key}", value
