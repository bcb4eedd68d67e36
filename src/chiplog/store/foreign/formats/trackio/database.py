"""trackio's databases: one per project, with the rows of all its runs as JSON; and what waits in its inbox."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from chiplog.core.records import Plain
from chiplog.store.foreign import sqlite_file
from chiplog.store.foreign.formats.trackio import inbox
from chiplog.store.foreign.formats.trackio.inbox import TrackioInbox
from chiplog.store.foreign.formats.trackio.rows import MEDIA, TrackioRows
from chiplog.store.foreign.formats.trackio.rows import NAME as NAME
from chiplog.store.foreign.protocol import About, Folder, ForeignRun, Item, Losses, Position
from chiplog.store.foreign.row_columns import moment
from chiplog.store.foreign.sqlite_file import Database
from chiplog.store.foreign.yaml_and_json import decoded

Fragments = list[dict[str, Plain]]
_TABLES = ("metrics", "system_metrics", "alerts")
_KEYS = {"metrics": "log_id", "system_metrics": "log_id", "alerts": "alert_id"}


def find(folder: Folder) -> list[ForeignRun]:
    waiting = TrackioInbox(folder.path)
    fragments = dict(waiting.runs) if inbox.FOLDER in folder.folders else {}
    if fragments:
        folder.taken |= {inbox.FOLDER, MEDIA}
    runs = []
    for name in folder.free(".db"):
        path = folder.path / name
        database = Database(path)
        columns = database.tables().get("metrics", [])
        if not {"run_name", "timestamp", "step", "metrics"} <= set(columns):
            continue
        folder.taken |= {name, MEDIA}
        by = "run_id" if "run_id" in columns else "run_name"  # older versions know a run by its name
        try:
            listed = database.all(f"SELECT {by}, run_name, MIN(timestamp) FROM metrics GROUP BY {by} ORDER BY MIN(id)")
        except sqlite_file.Unreadable:
            continue
        for key, run_name, first in listed:
            own = fragments.pop((path.stem, str(key)), [])
            run = _Run(path.parent, path.stem, str(key), str(run_name), str(first), own, database, by)
            runs.append(run.foreign((*sqlite_file.files_of(path), *(waiting.paths() if own else ()))))
    for (project, key), own in fragments.items():
        run = _Run(folder.path, project, key, str(own[0]["run"]), inbox.first_time(own), own)
        runs.append(run.foreign(waiting.paths()))
    return runs


class _Run:
    """One run of a project: in its database, in fragments, or both."""

    def __init__(
        self,
        folder: Path,
        project: str,
        key: str,
        name: str,
        first: str,
        fragments: Fragments,
        database: Database | None = None,
        by: str = "run_id",
    ) -> None:
        self._folder, self._project, self._key, self._name, self._first = folder, project, key, name, first
        self._fragments, self._database, self._by = fragments, database, by

    def foreign(self, files: Sequence[Path]) -> ForeignRun:
        identity = f"{NAME}:{self._project}:{self._key}:{self._first}"
        path = self._folder / f"{self._project}.db"  # where fragments will be, too
        return ForeignRun(NAME, identity, path, tuple(files), self.about, self.read)

    def about(self, _: Plain) -> About:
        config = self._config()
        source = {"group": config["_Group"]} if config.get("_Group") else {}
        return About(
            project=self._project,
            id=self._key if self._by == "run_id" else self._name,
            name=self._name,
            created=moment(config.get("_Created")) or moment(self._first),
            config={key: value for key, value in config.items() if not key.startswith("_")},
            source=source,
        )

    def read(self, position: Plain, losses: Losses) -> Iterator[Item]:
        last: dict[str, Plain] = dict.fromkeys(_TABLES, 0) | (dict(position) if isinstance(position, dict) else {})
        done = set(last.get("inbox", ()))  # rows that were read there, and are in the database later
        rows = TrackioRows(self._folder, losses)
        for number, table in enumerate(_TABLES if self._database is not None else ()):
            for batch in self._new(table, last[table]):
                for row in batch:
                    last[table] = int(str(row[0]))
                    if not row[1] or str(row[1]) not in done:
                        yield from self._items(table, row[2:], rows)
                yield Position(dict(last), number / len(_TABLES))
        yield from inbox.items(self._fragments, done, rows, losses)
        if done:
            last["inbox"] = sorted(done)
        yield Position(dict(last), 1.0)

    def _new(self, table: str, last: Plain) -> Iterator[list[tuple[object, ...]]]:
        """The rows of a table after the last one that was read: id, key, time, and what they hold."""
        assert self._database is not None
        columns = self._database.tables().get(table, [])
        if self._by not in columns or "id" not in columns:
            return
        key = _KEYS[table] if _KEYS[table] in columns else "NULL"
        fields = {"alerts": "title, text, level, step", "metrics": "metrics, step"}.get(table, "metrics")
        query = f"SELECT id, {key}, timestamp, {fields} FROM {table} WHERE {self._by} = ? AND id > ? ORDER BY id"
        yield from self._database.rows(query, (self._key, last))

    def _items(self, table: str, row: tuple[object, ...], rows: TrackioRows) -> Iterator[Item]:
        time, values = moment(row[0]) or moment(self._first), row[1:]
        if table == "alerts":
            title, text, level, step = values
            yield rows.alert(title, text, level, step, time)
        elif table == "system_metrics":
            yield from rows.system(_json(values[0]), time)
        else:
            yield from rows.metrics(_json(values[0]), values[1], time)

    def _config(self) -> dict[str, Plain]:
        config: Plain = next((one["config"] for one in reversed(self._fragments) if one.get("config")), None)
        if self._database is not None and self._by in self._database.tables().get("configs", []):
            rows = self._database.all(f"SELECT config FROM configs WHERE {self._by} = ?", (self._key,))
            config = (_json(rows[0][0]) if rows else None) or config
        return config if isinstance(config, dict) else {}


def _json(value: object) -> Plain:
    data = value.encode() if isinstance(value, str) else value
    return decoded(data) if isinstance(data, bytes) else None
