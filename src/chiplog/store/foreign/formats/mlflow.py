"""MLflow's stores: SQLite databases, and the older one of a file per metric."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from urllib.parse import unquote, urlparse

import numpy as np

from chiplog.core import records
from chiplog.core.files import reading
from chiplog.core.records import Plain
from chiplog.store.foreign import sqlite_file
from chiplog.store.foreign.growing_file import GrowingFile
from chiplog.store.foreign.protocol import About, Folder, ForeignRun, Item, Losses, Points, Position
from chiplog.store.foreign.sqlite_file import Database
from chiplog.store.foreign.yaml_and_json import from_text, load_yaml, read_text

NAME = "mlflow"
HUGE = 1.7976931348623157e308  # how MLflow's databases spell an infinity
LISTED = 1000  # artifacts
LINES = 20_000
STATES = {"FINISHED": "finished", "FAILED": "failed", "KILLED": "killed", "RUNNING": "running", "SCHEDULED": "running"}
NUMBERS = {1: "RUNNING", 2: "SCHEDULED", 3: "FINISHED", 4: "FAILED", 5: "KILLED"}
_OURS = {
    "mlflow.note.content": "notes",
    "mlflow.parentRunId": "parent",
    "mlflow.user": "user",
    "mlflow.source.name": "program",
    "mlflow.source.git.commit": "commit",
}


def find(folder: Folder) -> list[ForeignRun]:
    return [*_databases(folder), *_folder(folder)]


# -- databases -------------------------------------------------------------------------------------------------------


def _databases(folder: Folder) -> Iterator[ForeignRun]:
    for name in folder.free(*sqlite_file.ENDINGS):
        path = folder.path / name
        database = Database(path)
        if not {"runs", "metrics", "params", "tags", "experiments"} <= set(database.tables()):
            continue
        folder.taken.add(name)
        try:
            runs = database.all("SELECT run_uuid FROM runs ORDER BY start_time")
        except sqlite_file.Unreadable:
            continue
        for (run,) in runs:
            yield ForeignRun(
                NAME, f"{NAME}:{run}", path, sqlite_file.files_of(path),
                partial(_about_row, database, str(run)), partial(_read_rows, database, str(run)),
            )  # fmt: skip


def _about_row(database: Database, run: str, _: Plain) -> About:
    columns = "name, status, start_time, end_time, artifact_uri, experiment_id, lifecycle_stage"
    rows = database.all(f"SELECT {columns} FROM runs WHERE run_uuid = ?", (run,))
    if not rows:
        return About(NAME, run)
    name, status, start, end, artifacts, experiment, stage = rows[0]
    names = database.all("SELECT name FROM experiments WHERE experiment_id = ?", (experiment,))
    params = database.all("SELECT key, value FROM params WHERE run_uuid = ?", (run,))
    tags = database.all("SELECT key, value FROM tags WHERE run_uuid = ?", (run,))
    return _describe(
        run,
        name=str(name or ""),
        project=str(names[0][0]) if names else NAME,
        status=str(status),
        times=(start, end),
        params={str(key): str(value) for key, value in params},
        tags={str(key): str(value) for key, value in tags},
        artifacts=str(artifacts or ""),
        deleted=stage == "deleted",
    )


def _read_rows(database: Database, run: str, position: Plain, losses: Losses) -> Iterator[Item]:
    start = position if isinstance(position, int) else None
    if start is None:
        yield from _artifacts(_about_row(database, run, None), database.path.parent)
    names: dict[str, int] = {}
    last = start or 0
    query = (
        "SELECT rowid, key, value, timestamp, step, is_nan FROM metrics WHERE run_uuid = ? AND rowid > ? ORDER BY rowid"
    )
    for batch in database.rows(query, (run, last)):
        rowids, keys, values, times, steps, nans = zip(*batch, strict=True)
        numbers = _doubles(values, losses)
        numbers[np.abs(numbers) >= HUGE] *= np.inf
        numbers[np.array([bool(nan) for nan in nans])] = np.nan
        which = np.array([names.setdefault(str(key), len(names)) for key in keys])
        last = int(str(rowids[-1]))
        yield Points(list(names), which, _integers(steps), _milliseconds(times), numbers)
        yield Position(last, 0.5)
    yield Position(last, 1.0)


def _doubles(values: tuple[object, ...], losses: Losses) -> np.ndarray:
    """The values of a column; what is not a number in a file of a stranger is NaN, and counted."""
    try:
        return np.array(values, np.float64)
    except (TypeError, ValueError):
        losses.add("values that are not numbers", sum(not isinstance(value, (int, float)) for value in values))
        return np.array([value if isinstance(value, (int, float)) else np.nan for value in values], np.float64)


def _integers(values: tuple[object, ...]) -> np.ndarray:
    return np.array([value if isinstance(value, int) else 0 for value in values], np.int64)


def _milliseconds(values: tuple[object, ...]) -> np.ndarray:
    times = _integers(values)
    return np.where((times >= 0) & (times < 2**62 // 10**6), times, 0) * 10**6


# -- files -----------------------------------------------------------------------------------------------------------


def _folder(folder: Folder) -> Iterator[ForeignRun]:
    """A folder that is a run: `meta.yaml` with a run's id, and a file per metric, param and tag."""
    if "meta.yaml" not in folder.files or not {"metrics", "params", "tags"} & set(folder.folders):
        return
    about = load_yaml(folder.path / "meta.yaml")
    run = about.get("run_id") or about.get("run_uuid")
    if not run:
        return
    folder.taken |= {"meta.yaml", *folder.folders}
    metrics = dict(_below(folder.path / "metrics"))
    files = (folder.path / "meta.yaml", *metrics.values())
    yield ForeignRun(
        NAME, f"{NAME}:{run}", folder.path, files,
        partial(_about_folder, folder.path, str(run)), partial(_read_files, folder.path, str(run), metrics),
    )  # fmt: skip


def _below(folder: Path) -> Iterator[tuple[str, Path]]:
    """The files in a folder and those below, by their relative path, which is a key; links are left out."""
    for name, _ in reading.walk(folder.parent, folder.name):
        path = folder.parent / name
        yield path.relative_to(folder).as_posix(), path


def _about_folder(path: Path, run: str, _: Plain) -> About:
    about = load_yaml(path / "meta.yaml")
    experiment = load_yaml(path.parent / "meta.yaml")
    status = about.get("status")
    return _describe(
        run,
        name=str(about.get("run_name") or about.get("name") or ""),
        project=str(experiment.get("name") or NAME),
        status=NUMBERS.get(status, "") if isinstance(status, int) else str(status),
        times=(about.get("start_time"), about.get("end_time")),
        params={key: read_text(file) for key, file in _below(path / "params")},
        tags={key: read_text(file) for key, file in _below(path / "tags")},
        artifacts=str(about.get("artifact_uri") or ""),
        deleted=about.get("lifecycle_stage") == "deleted",
    )


def _read_files(path: Path, run: str, metrics: Mapping[str, Path], position: Plain, losses: Losses) -> Iterator[Item]:
    """Metrics, a line per point: the time in milliseconds, the value and the step."""
    positions: dict[str, Plain] = dict(position) if isinstance(position, dict) else {}
    if position is None:
        yield from _artifacts(_about_folder(path, run, None), path.parents[1])
    unfinished = 0
    for number, (key, file) in enumerate(metrics.items()):
        growing = GrowingFile(file, positions.get(key))
        for lines in growing.lines():
            rows = [row for line in lines if (row := _row(line, losses)) is not None]
            if rows:
                times, values, steps = zip(*rows, strict=True)
                yield Points(
                    [key],
                    np.zeros(len(rows), np.int64),
                    _integers(steps),
                    _milliseconds(times),
                    np.array(values, np.float64),
                )
        positions[key] = growing.position()
        unfinished += len(growing.rest)
        if growing.too_long:
            losses.add("lines that are too long", growing.too_long)
        yield Position(dict(positions), (number + 1) / len(metrics))
    losses.set("bytes of an unfinished line at the end of a file", unfinished)
    yield Position(dict(positions), 1.0)


def _row(line: bytes, losses: Losses) -> tuple[int, float, int] | None:
    words = line.split()
    try:
        if len(words) >= 2:
            return int(words[0]), float(words[1]), int(words[2]) if len(words) > 2 else 0
    except (ValueError, OverflowError):
        pass
    losses.add("damaged lines")
    return None


# -- both ------------------------------------------------------------------------------------------------------------


def _describe(
    run: str, *, name: str, project: str, status: str, times: tuple[object, object], params: Mapping[str, str],
    tags: Mapping[str, str], artifacts: str, deleted: bool,
) -> About:  # fmt: skip
    source: dict[str, Plain] = {short: tags[key] for key, short in _OURS.items() if tags.get(key)}
    if artifacts:
        source["artifacts"] = artifacts
    if deleted:
        source["deleted"] = True
    start, end = (time * 10**6 if isinstance(time, int) and 0 < time < 2**62 // 10**6 else 0 for time in times)
    own = {key: value for key, value in tags.items() if not key.startswith("mlflow.")}
    return About(
        project=project,
        id=run,
        name=tags.get("mlflow.runName") or name,
        created=start,
        ended=end,
        tags=[f"{key}={value}" if value else key for key, value in own.items()],
        config={key: from_text(value) for key, value in params.items()},
        source=source,
        state=STATES.get(status, ""),
    )


def _artifacts(about: About, store: Path) -> Iterator[records.Table]:
    """The artifacts of a run by reference, if they are in the folder of the store; other places are not looked into."""
    uri = str(about.source.get("artifacts") or "")
    place = Path(os.path.abspath(unquote(urlparse(uri).path) if uri.startswith("file:") else uri))  # noqa: PTH100
    above = Path(os.path.abspath(store))  # noqa: PTH100
    if not uri or "://" in uri.removeprefix("file://") or above not in place.parents:
        return
    rows: list[dict[str, Plain]] = []
    for name, about_file in reading.walk(above, place.relative_to(above).as_posix()):
        path = above / name
        rows.append({"name": path.relative_to(place).as_posix(), "path": str(path), "size": about_file.st_size})
        if len(rows) >= LISTED:
            break
    if rows:
        yield records.Table(0, about.created, "artifacts", rows)
