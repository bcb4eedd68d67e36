"""trackio's exports to Parquet: the rows of all runs of a project, with a column per metric."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from chiplog.core.files import reading
from chiplog.core.records import Plain
from chiplog.store.foreign.formats.trackio.rows import NAME as NAME
from chiplog.store.foreign.formats.trackio.rows import TrackioRows
from chiplog.store.foreign.parquet_file import open_parquet
from chiplog.store.foreign.protocol import About, Folder, ForeignRun, Item, Losses, Position
from chiplog.store.foreign.row_columns import moment

BATCH = 20_000
COLUMNS = frozenset(("id", "timestamp", "run_name", "step"))
OWN = (*COLUMNS, "run_id", "log_id", "space_id", "created_at")
STATIC = "metrics"  # the project's file where trackio exports one project


def find(folder: Folder) -> list[ForeignRun]:
    runs: list[ForeignRun] = []
    for name in folder.free(".parquet"):
        path = folder.path / name
        columns = _columns(path)
        if not columns >= COLUMNS:
            continue
        folder.taken |= {one for one in folder.files if one.startswith(f"{path.stem}_") and one.endswith(".parquet")}
        folder.taken.add(name)
        by = "run_id" if "run_id" in columns else "run_name"
        if f"{path.stem}.db" in folder.files:  # an export of the database next to it
            continue
        if path.stem == STATIC:
            folder.taken.add("aux")
        for run, run_name, first in _runs(path, by):
            project = folder.path.absolute().name if path.stem == STATIC else path.stem
            files = tuple(one for one in (path, _beside(path, "system"), _beside(path, "configs")) if one.is_file())
            key = f"{NAME}:{project}:{run}:{first}"
            about = partial(_about, path, by, run, project, run_name, first)
            runs.append(ForeignRun(NAME, key, path, files, about, partial(_read, path, by, run)))
    return runs


def _beside(path: Path, kind: str) -> Path:
    if path.stem == STATIC:
        return path.parent / "aux" / {"system": "system_metrics.parquet"}.get(kind, f"{kind}.parquet")
    return path.with_name(f"{path.stem}_{kind}.parquet")


def _columns(path: Path) -> set[str]:
    try:
        return set(open_parquet(path).schema_arrow.names)
    except (pa.ArrowException, OSError, ValueError):
        return set()


def _runs(path: Path, by: str) -> list[tuple[str, str, str]]:
    """Key, name and first timestamp of each run, in the order of their first rows."""
    runs: dict[str, tuple[str, str]] = {}
    try:
        for batch in open_parquet(path).iter_batches(BATCH, columns=list({by, "run_name", "timestamp"})):
            for row in batch.to_pylist():
                name, first = runs.get(str(row[by]), (str(row["run_name"]), str(row["timestamp"])))
                runs[str(row[by])] = name, min(first, str(row["timestamp"]))
    except (pa.ArrowException, OSError, ValueError):
        pass
    return [(key, *about) for key, about in runs.items()]


def _about(path: Path, by: str, run: str, project: str, name: str, first: str, _: Plain) -> About:
    config = next((_values(row) for row in _rows(_beside(path, "configs"), by, run, 0, Losses())), {})
    return About(
        project=project,
        id=run if by == "run_id" else name,
        name=name,
        created=moment(config.get("_Created")) or moment(first),
        config={key: value for key, value in config.items() if not key.startswith("_")},
        source={"group": config["_Group"]} if config.get("_Group") else {},
    )


def _read(path: Path, by: str, run: str, position: Plain, losses: Losses) -> Iterator[Item]:
    last = {"metrics": 0, "system": 0} | (dict(position) if isinstance(position, dict) else {})
    rows = TrackioRows(path.parent, losses)
    for row in _rows(path, by, run, last["metrics"], losses):
        last["metrics"] = row["id"]
        yield from rows.metrics(_values(row), row["step"], moment(row["timestamp"]))
    for row in _rows(_beside(path, "system"), by, run, last["system"], losses):
        last["system"] = row["id"]
        yield from rows.system(_values(row), moment(row["timestamp"]))
    yield Position(dict(last), 1.0)


def _rows(path: Path, by: str, run: str, after: int, losses: Losses) -> Iterator[dict[str, Plain]]:
    """The rows of a run after one of them, by their id."""
    if not reading.exists(path.parent, path.name):
        return
    try:
        for batch in open_parquet(path).iter_batches(BATCH):
            table = pa.Table.from_batches([batch])
            if by in table.column_names:
                new = pc.and_(pc.equal(table[by], run), pc.greater(table["id"], after))
                yield from table.filter(new).to_pylist()
    except (pa.ArrowException, OSError, ValueError, KeyError) as error:
        losses.set(f"the rest of {path.name}, which is damaged ({type(error).__name__})", 1)


def _values(row: dict[str, Plain]) -> dict[str, Plain]:
    """What a row has; Parquet fills the other columns, and fields of others, with null."""
    return {key: _present(value) for key, value in row.items() if value is not None and key not in OWN}


def _present(value: Plain) -> Plain:
    if isinstance(value, dict):
        return {key: _present(one) for key, one in value.items() if one is not None}
    return value
