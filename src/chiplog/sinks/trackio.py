"""Trackio: a run in Trackio's database on this machine, which its dashboard shows.

Written through Trackio's storage, not through `trackio.log`, which passes a batch to a thread and drops it if the
database refuses it. So when `write` returns, a batch is stored, under the record's own time, and once, because
Trackio has a key per row.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

import trackio
from trackio import utils
from trackio.media import get_project_media_path
from trackio.sqlite_storage import SQLiteStorage

from chiplog.core.files import writing
from chiplog.core.identity import Identity
from chiplog.core.records import (
    Alert,
    AnyRecord,
    Event,
    File,
    HistogramRecord,
    MatrixRecord,
    Number,
    Plain,
    Table,
    TextRecord,
)
from chiplog.core.values import convert
from chiplog.sinks.shared import record_file, saved_state
from chiplog.sinks.shared.clean_values import cell, edges, int64, plain, utf8, whole_step
from chiplog.sinks.shared.rows import is_too_ragged, tabulate
from chiplog.sinks.shared.service_metrics import service_points
from chiplog.store import layout


def open_sink(
    identity: Identity,
    environ: Mapping[str, str],
    *,
    project: str | None = None,
    name: str | None = None,
    dir: str | None = None,
) -> Trackio:
    """`dir` is where Trackio keeps its projects; the default is `TRACKIO_DIR`, or Trackio's own."""
    if (folder := dir or environ.get("TRACKIO_DIR")) is not None:
        _keep_in(Path(identity.cwd, Path(folder).expanduser()).absolute())  # the relay has another working directory
    project = project or identity.project
    SQLiteStorage.validate_project_name(project)
    return Trackio(identity, project, name or identity.name or identity.id)


class Trackio:
    """One run of a project, by our id."""

    commits = True

    def __init__(self, identity: Identity, project: str, name: str) -> None:
        self._id, self._project, self._name = identity.id, project, name
        self._dir = identity.dir
        self._config: dict[str, Plain] = {}
        self._changed = False

    def write(self, batch: Sequence[AnyRecord]) -> None:
        rows = [(record, row) for record in batch if (row := self._row(record))]
        for record in batch:
            if isinstance(record, Event) and record.name == "config":
                self._config |= configured(record.data)
                self._changed = True
        if rows:
            SQLiteStorage.bulk_log(
                project=self._project,
                run=self._name,
                run_id=self._id,
                metrics_list=[row for _, row in rows],
                steps=[whole_step(getattr(record, "step", None)) for record, _ in rows],
                timestamps=[moment(record.time) for record, _ in rows],
                log_ids=[self._key(record) for record, _ in rows],
                config=self._config if self._changed else None,
            )
            self._changed = False  # a config is stored with a row, so it waits for the first one
        self._alert([record for record in batch if isinstance(record, Alert)])

    def close(self) -> None:
        pass

    def state(self) -> dict[str, Plain]:
        return {"config": self._config, "changed": self._changed}

    def restore(self, state: Mapping[str, Plain]) -> None:
        self._config = saved_state.mapping(state, "config")
        self._changed = saved_state.flag(state, "changed")

    def _row(self, record: AnyRecord) -> dict[str, Plain]:
        """The numbers of a record, or Trackio's object for a medium under its name."""
        if isinstance(record, File):
            return self._image(record)
        if isinstance(record, MatrixRecord) and is_too_ragged(record, "trackio"):
            return {}
        if isinstance(record, (Table, MatrixRecord, HistogramRecord, TextRecord)):
            return {_free(utf8(record.name)): medium(record, self._project, self._name)}
        return {**numbers(service_points(record))}

    def _image(self, record: File) -> dict[str, Plain]:
        """An image, copied to Trackio's media under the record's key, so once however often it arrives."""
        content = record_file.contents_of(self._dir, record) if record.media.startswith("image/") else None
        if content is None:
            return {}
        run = layout.directory(self._id)  # part of a path
        folder = get_project_media_path(self._project, run, whole_step(record.step))
        kept = folder / f"{run}-{record.seq}-{record.time}{Path(record.path).suffix}"
        with writing.replacing(kept) as temporary:
            temporary.write_bytes(content)
        shown = {"_type": trackio.Image.TYPE, "file_path": str(kept.relative_to(utils.MEDIA_DIR))}
        return {_free(utf8(record.name)): {**shown, "caption": utf8(record.caption)}}

    def _alert(self, alerts: Sequence[Alert]) -> None:
        SQLiteStorage.bulk_alert(
            project=self._project,
            run=self._name,
            run_id=self._id,
            titles=[utf8(alert.title) for alert in alerts],
            texts=[utf8(alert.text) for alert in alerts],
            levels=[alert.level for alert in alerts],
            steps=[whole_step(alert.step) for alert in alerts],
            timestamps=[moment(alert.time) for alert in alerts],
            alert_ids=[self._key(alert) for alert in alerts],
        )

    def _key(self, record: AnyRecord) -> str:
        """A key that no other record of any run of the project has."""
        return f"{self._id}-{record.seq}-{record.time}"


def numbers(row: Mapping[str, Number]) -> dict[str, Number]:
    """A row as Trackio accepts it: names in UTF-8, reserved ones with two underscores, as in `trackio.log`."""
    return {_free(utf8(name)): int64(value) for name, value in row.items()}


def medium(record: Table | MatrixRecord | HistogramRecord | TextRecord, project: str, run: str) -> Plain:
    """A table, histogram or text in Trackio's terms."""
    if isinstance(record, TextRecord):  # verbatim, not as Markdown
        longest = max(map(len, re.findall("`+", record.text)), default=2)
        fence = "`" * max(3, longest + 1)
        return trackio.Markdown(f"{fence}\n{utf8(record.text)}\n{fence}")._to_dict()
    if isinstance(record, HistogramRecord):
        return trackio.Histogram(np_histogram=(record.counts, edges(record.edges)))._to_dict()
    rows: Sequence[Mapping[str, Plain]] = (
        [{str(at): value for at, value in enumerate(line)} for line in record.values]
        if isinstance(record, MatrixRecord)
        else record.rows
    )
    columns, cells = tabulate(rows, f"trackio: table {record.name[:60]!r}")
    columns = list(map(utf8, columns))
    data = [dict(zip(columns, map(cell, row), strict=True)) for row in cells]
    return trackio.Table(data=data)._to_dict(project, run)


def configured(config: Mapping[str, Plain]) -> dict[str, Plain]:
    """A config as JSON; leading underscores, which Trackio reserves, are removed from names."""
    data = plain(convert.plain(config))
    return {name.lstrip("_") or "_": value for name, value in data.items()}


def moment(time: int) -> str:
    """ISO 8601 in UTC, by which Trackio sorts."""
    try:
        return datetime.fromtimestamp(time / 1e9, UTC).isoformat()
    except (ValueError, OverflowError, OSError):
        return datetime.fromtimestamp(0, UTC).isoformat()


def _free(name: str) -> str:
    return f"__{name}" if name in utils.RESERVED_KEYS or name.startswith("__") else name


def _keep_in(folder: Path) -> None:
    """Change Trackio's directory, which it has read from the environment at import, in all its modules."""
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] == "trackio" and isinstance(getattr(module, "TRACKIO_DIR", None), Path):
            module.TRACKIO_DIR = folder  # type: ignore[attr-defined]
            for part in ("media", "artifacts"):
                if hasattr(module, f"{part.upper()}_DIR"):
                    setattr(module, f"{part.upper()}_DIR", folder / part)
