"""Parquet files: Neptune's exports, one row per value, and any table with a step."""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import datetime
from decimal import Decimal
from functools import partial
from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from chiplog.core import records
from chiplog.core.records import Number, Plain
from chiplog.core.values.text import cut
from chiplog.store.foreign.identity_from_path import identity
from chiplog.store.foreign.parquet_file import open_parquet
from chiplog.store.foreign.protocol import (
    LATEST,
    About,
    Folder,
    ForeignRun,
    Item,
    Losses,
    Points,
    Position,
    Rewritten,
    clean_name,
)
from chiplog.store.foreign.row_columns import items, moment, step_column

NAME = "parquet"
NEPTUNE = "neptune"
BATCH = 20_000
# Columns of the exporter, each for some of the types of attributes.
_COLUMNS = frozenset(("project_id", "run_id", "attribute_path", "attribute_type", "step", "timestamp"))
_PLAIN = {kind: f"{kind}_value" for kind in ("float", "int", "string", "bool", "datetime", "string_set")}
_STATES = {"idle": "finished", "inactive": "finished", "running": "running", "active": "running"}


def find(folder: Folder) -> list[ForeignRun]:
    runs: list[ForeignRun] = []
    exported: dict[tuple[str, str], list[Path]] = {}
    for name in folder.free(".parquet"):
        path = folder.path / name
        columns = _columns(path)
        if columns >= _COLUMNS:
            folder.taken.add(name)
            for project, run in _neptune_runs(path):
                exported.setdefault((project, run), []).append(path)
        elif step_column(columns) is not None and len(columns) > 1 and "seq" not in columns:  # not a part of ours
            folder.taken.add(name)
            runs.append(ForeignRun.in_file(NAME, path, _about, _read))
    for (project, run), paths in exported.items():
        files = tuple(sorted(paths))
        key = f"{NEPTUNE}:{project}:{run}"
        about = partial(_about_neptune, project, run)
        read = partial(_read_neptune, files, project, run, folder.path)
        runs.append(ForeignRun(NEPTUNE, key, folder.path / run, files, about, read))
    return runs


def _columns(path: Path) -> set[str]:
    try:
        return set(open_parquet(path).schema_arrow.names)
    except (pa.ArrowException, OSError, ValueError):
        return set()


# -- any table -------------------------------------------------------------------------------------------------------


def _about(path: Path, _: Plain) -> About:
    return identity(path, NAME, generic=("metrics", "history", "train"))


def _read(path: Path, position: Plain, losses: Losses) -> Iterator[Item]:
    done = position if isinstance(position, int) else 0
    written = int(path.stat().st_mtime * 1e9)
    try:
        file = open_parquet(path)
        total = file.metadata.num_rows
        if done > total:
            raise Rewritten
        at = 0
        for batch in file.iter_batches(BATCH):
            rows = batch.to_pylist() if at + batch.num_rows > done else []
            for number, row in enumerate(rows, at):
                if number >= done:
                    yield from items({str(key): _cell(value) for key, value in row.items()}, written, number)
            at += batch.num_rows
            yield Position(at, at / max(1, total))
    except (pa.ArrowException, OSError) as error:
        losses.set(f"the rest of {path.name}, which is damaged ({type(error).__name__})", 1)


def _cell(value: object) -> Plain:
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, datetime):
        return value.isoformat()
    return value if isinstance(value, (int, float, str, bool, dict)) else None


# -- Neptune ---------------------------------------------------------------------------------------------------------


def _neptune_runs(path: Path) -> list[tuple[str, str]]:
    """The runs in a file; usually one."""
    pairs: dict[tuple[str, str], None] = {}
    try:
        for batch in open_parquet(path).iter_batches(1 << 20, columns=["project_id", "run_id"]):
            table = pa.Table.from_batches([batch]).group_by(["project_id", "run_id"]).aggregate([])
            pairs.update(dict.fromkeys((str(row["project_id"]), str(row["run_id"])) for row in table.to_pylist()))
    except (pa.ArrowException, OSError, ValueError):
        pass
    return list(pairs)


class _NeptuneState(msgspec.Struct):
    """How many rows of each file have been read, and the attributes that describe the run."""

    rows: dict[str, int] = {}
    attributes: dict[str, Plain] = {}


def _about_neptune(project: str, run: str, position: Plain) -> About:
    state = msgspec.convert(position, _NeptuneState) if position else _NeptuneState()
    facts = state.attributes
    system = {key.removeprefix("sys/"): value for key, value in facts.items() if key.startswith("sys/")}
    tags = system.get("tags")
    failed = system.get("failed")
    return About(
        project=project.rpartition("/")[2] or project,
        id=str(system.get("id") or run),
        name=str(system.get("name") or system.get("custom_run_id") or run),
        created=moment(system.get("creation_time")),
        tags=[str(tag) for tag in tags] if isinstance(tags, list) else (),
        config={key: value for key, value in facts.items() if not key.startswith("sys/")},
        source={"project": project, **{f"sys/{key}": value for key, value in system.items() if key != "tags"}},
        state="failed" if failed is True else _STATES.get(str(system.get("state", "")).lower(), ""),
    )


def _read_neptune(
    files: tuple[Path, ...], project: str, run: str, folder: Path, position: Plain, losses: Losses
) -> Iterator[Item]:
    state = msgspec.convert(position, _NeptuneState) if position else _NeptuneState()
    for number, path in enumerate(files):
        try:
            yield from _rows(path, project, run, folder, state, losses)
        except (pa.ArrowException, OSError) as error:
            losses.set(f"the rest of {path.name}, which is damaged ({type(error).__name__})", 1)
        yield Position(msgspec.to_builtins(state), (number + 1) / len(files))


def _rows(path: Path, project: str, run: str, folder: Path, state: _NeptuneState, losses: Losses) -> Iterator[Item]:
    file = open_parquet(path)
    at, done = 0, state.rows.get(path.name, 0)
    if done > file.metadata.num_rows:
        raise Rewritten
    for batch in file.iter_batches(BATCH):
        new = batch.slice(max(0, done - at)) if at + batch.num_rows > done else batch.slice(0, 0)
        at += batch.num_rows
        if not new.num_rows:
            continue
        own = pc.and_(pc.equal(new["run_id"], run), pc.equal(new["project_id"], project))
        table = pa.Table.from_batches([new]).filter(own)
        series = pc.equal(table["attribute_type"], "float_series")
        yield from _float_series(table.filter(series))
        for row in table.filter(pc.invert(series)).to_pylist():
            yield from _attribute(row, folder, state, losses)
        state.rows[path.name] = at


def _float_series(table: pa.Table) -> Iterator[Points]:
    """The points of all float series at once; steps are decimals."""
    if not table.num_rows:
        return
    paths = table["attribute_path"].combine_chunks().dictionary_encode()
    steps = table["step"].cast(pa.float64()).fill_null(0).to_numpy()
    whole = bool(np.all(np.isfinite(steps)) and np.all(steps == np.floor(steps)) and np.all(np.abs(steps) < 2**53))
    times = table["timestamp"].cast(pa.timestamp("ns")).cast(pa.int64()).fill_null(0).to_numpy()
    yield Points(
        [clean_name(str(name)) for name in paths.dictionary.to_pylist()],
        paths.indices.to_numpy().astype(np.int64),
        steps.astype(np.int64) if whole else steps,
        np.where((times >= 0) & (times < LATEST), times, 0),
        table["float_value"].cast(pa.float64()).to_numpy(zero_copy_only=False),
    )


def _attribute(row: dict[str, Plain], folder: Path, state: _NeptuneState, losses: Losses) -> Iterator[Item]:
    kind, name = str(row.get("attribute_type")), clean_name(str(row.get("attribute_path")))
    stamp = row.get("timestamp")
    time = moment(stamp.isoformat()) if isinstance(stamp, datetime) else 0
    decimal = row.get("step")
    step: Number | None = None
    if isinstance(decimal, (Decimal, int, float)) and math.isfinite(decimal):
        step = int(decimal) if decimal == int(decimal) else float(decimal)
    if kind in _PLAIN:
        value = row.get(_PLAIN[kind])
        state.attributes[name] = value.isoformat() if isinstance(value, datetime) else value
    elif kind == "string_series":
        yield records.TextRecord(0, time, name, cut(str(row.get("string_value") or "")), step)
    elif kind == "histogram_series":
        histogram = row.get("histogram_value") or {}
        edges, counts = histogram.get("edges"), histogram.get("values")
        if isinstance(edges, list) and isinstance(counts, list) and len(edges) == len(counts) + 1:
            yield records.HistogramRecord(0, time, name, edges, counts, step)
        else:
            losses.add("histograms without their edges")
    elif kind in ("file", "file_series"):
        place = str((row.get("file_value") or {}).get("path") or "")
        entry: dict[str, Plain] = {"name": name, "path": place, "folder": str(folder)}
        yield records.Table(0, time, "artifacts", [entry], step)
    else:
        losses.add(f"attributes of type {kind}")
