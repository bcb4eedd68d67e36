"""Trackio: a run in Trackio's database on this machine, which its dashboard shows.

Written through Trackio's storage and not through `trackio.log`, which hands a batch to a thread and drops it when the
database does not take it. So a batch is there when `write` returns, under the record's own time, and once: Trackio
has a key for a row.
"""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

import trackio
from trackio import utils
from trackio.media import get_project_media_path
from trackio.sqlite_storage import SQLiteStorage

from chiplog.core.identity import Identity
from chiplog.core.records import (
    NONFINITE,
    Alert,
    AnyRecord,
    Event,
    File,
    Histogram,
    Matrix,
    Number,
    Plain,
    Table,
    Text,
)
from chiplog.core.values import convert
from chiplog.core.values.convert import double
from chiplog.sinks.shared.service_metrics import outward

FURTHEST = (1 << 63) - 1
EXACT = (1 << 63, 1 << 64)  # the lowest and the highest integer that its JSON can say


def open_sink(
    identity: Identity,
    environ: Mapping[str, str],
    *,
    project: str | None = None,
    name: str | None = None,
    dir: str | None = None,
) -> Trackio:
    """`dir` is where Trackio keeps its projects; without it `TRACKIO_DIR`, or Trackio's own choice."""
    if (place := dir or environ.get("TRACKIO_DIR")) is not None:
        _keep_in(Path(identity.cwd, Path(place).expanduser()).absolute())  # the relay is elsewhere
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
                steps=[whole(getattr(record, "step", None)) for record, _ in rows],
                timestamps=[moment(record.time) for record, _ in rows],
                log_ids=[self._key(record) for record, _ in rows],
                config=self._config if self._changed else None,
            )
            self._changed = False  # a config comes with a row, so that one alone waits for the first
        self._alert([record for record in batch if isinstance(record, Alert)])

    def close(self) -> None:
        pass

    def state(self) -> dict[str, Plain]:
        return {"config": self._config, "changed": self._changed}

    def restore(self, state: Mapping[str, Plain]) -> None:
        self._config, self._changed = dict(state.get("config", {})), state.get("changed", False)

    def _row(self, record: AnyRecord) -> dict[str, Plain]:
        """What a record shows: its numbers, or what Trackio has for the medium, under its name."""
        if isinstance(record, File):
            return self._picture(record)
        if isinstance(record, (Table, Matrix, Histogram, Text)):
            return {_free(text(record.name)): medium(record, self._project, self._name)}
        return {**numbers(outward(record))}

    def _picture(self, record: File) -> dict[str, Plain]:
        """A picture, copied to Trackio's media under the record's own key: once, however often it comes."""
        path = self._dir / record.path
        if not record.media.startswith("image/") or not path.is_file():
            return {}
        folder = get_project_media_path(self._project, self._id, whole(record.step))
        shutil.copyfile(path, kept := folder / f"{self._key(record)}{path.suffix}")
        shown = {"_type": trackio.Image.TYPE, "file_path": str(kept.relative_to(utils.MEDIA_DIR))}
        return {_free(text(record.name)): {**shown, "caption": text(record.caption)}}

    def _alert(self, alerts: Sequence[Alert]) -> None:
        SQLiteStorage.bulk_alert(
            project=self._project,
            run=self._name,
            run_id=self._id,
            titles=[text(alert.title) for alert in alerts],
            texts=[text(alert.text) for alert in alerts],
            levels=[alert.level for alert in alerts],
            steps=[whole(alert.step) for alert in alerts],
            timestamps=[moment(alert.time) for alert in alerts],
            alert_ids=[self._key(alert) for alert in alerts],
        )

    def _key(self, record: AnyRecord) -> str:
        """What no other record of any run of the project has, in whichever attempt it was written."""
        return f"{self._id}-{record.seq}-{record.time}"


def numbers(row: Mapping[str, Number]) -> dict[str, Number]:
    """A row as Trackio takes it: names in UTF-8, those it keeps for itself with two underscores as in `trackio.log`."""
    return {_free(text(name)): _number(value) for name, value in row.items()}


def medium(record: Table | Matrix | Histogram | Text, project: str, run: str) -> Plain:
    """A table, histogram or text in the words of Trackio."""
    if isinstance(record, Text):  # as it is, and not as what its signs would mean
        longest = max(map(len, re.findall("`+", record.text)), default=2)
        fence = "`" * max(3, longest + 1)
        return trackio.Markdown(f"{fence}\n{text(record.text)}\n{fence}")._to_dict()
    if isinstance(record, Histogram):
        edges = [NONFINITE.get(edge, 0.0) if isinstance(edge, str) else edge for edge in record.edges]
        return trackio.Histogram(np_histogram=(record.counts, edges))._to_dict()
    rows: Sequence[Mapping[str, Plain]] = (
        [{str(at): value for at, value in enumerate(line)} for line in record.values]
        if isinstance(record, Matrix)
        else record.rows
    )
    columns = dict.fromkeys(text(name) for row in rows for name in row)
    data = [{**dict.fromkeys(columns), **{text(name): _cell(value) for name, value in row.items()}} for row in rows]
    return trackio.Table(data=data)._to_dict(project, run)


def configured(config: Mapping[str, Plain]) -> dict[str, Plain]:
    """A config as its JSON can say it; a name that begins with an underscore is Trackio's own, and loses it."""
    plain = _sayable(convert.plain(config))
    return {name.lstrip("_") or "_": value for name, value in plain.items()}


def whole(step: int | float | None) -> int:
    """A step as its database counts: whole, in 64 bits."""
    if step is None or step - step != 0:
        return 0
    return max(-FURTHEST, min(FURTHEST, int(step)))


def moment(time: int) -> str:
    """ISO 8601 in UTC, as Trackio sorts by."""
    try:
        return datetime.fromtimestamp(time / 1e9, UTC).isoformat()
    except (ValueError, OverflowError, OSError):
        return datetime.fromtimestamp(0, UTC).isoformat()


def text(said: str) -> str:
    return said.encode("utf-8", "backslashreplace").decode()


def _free(name: str) -> str:
    return f"__{name}" if name in utils.RESERVED_KEYS or name.startswith("__") else name


def _sayable(value: Plain) -> Plain:
    if isinstance(value, dict):
        return {text(name): _sayable(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_sayable(one) for one in value]
    if isinstance(value, str):
        return text(value)
    return _number(value) if isinstance(value, int) else value


def _cell(value: Plain) -> Plain:
    """What a table shows: numbers and texts, and nested data as text."""
    said = _sayable(value)
    return str(said) if isinstance(said, (dict, list)) else said


def _number(value: Number) -> Number:
    """Integers beyond 64 bits as floats, infinite where they are beyond those too."""
    if isinstance(value, int) and not -EXACT[0] <= value < EXACT[1]:
        return double(value)
    return value


def _keep_in(folder: Path) -> None:
    """Trackio takes its directory from the environment when it is imported, which was a moment ago: every module of
    its that has the path gets the other one."""
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] == "trackio" and isinstance(getattr(module, "TRACKIO_DIR", None), Path):
            module.TRACKIO_DIR = folder  # type: ignore[attr-defined]
            for part in ("media", "artifacts"):
                if hasattr(module, f"{part.upper()}_DIR"):
                    setattr(module, f"{part.upper()}_DIR", folder / part)
