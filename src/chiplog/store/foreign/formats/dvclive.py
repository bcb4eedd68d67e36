"""DVCLive: a folder with a table per metric, from `Live.log_metric`."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from chiplog.core import records
from chiplog.core.files import reading
from chiplog.core.records import Plain
from chiplog.store.foreign.growing_file import GrowingFile
from chiplog.store.foreign.identity_from_path import identity
from chiplog.store.foreign.protocol import About, Folder, ForeignRun, Item, Losses, Position, clean_name
from chiplog.store.foreign.row_columns import flat, moment
from chiplog.store.foreign.yaml_and_json import load_json, load_yaml, number_of

NAME = "dvclive"
METRICS = "plots/metrics"
ENDING = ".tsv"


def find(folder: Folder) -> list[ForeignRun]:
    if "plots" not in folder.folders or "plots" in folder.taken:
        return []
    files = [name for name in _tables(folder.path) if _columns(folder.path / name)]
    if not files:
        return []
    folder.taken |= {"plots", "metrics.json", "params.yaml"}
    place = folder.path
    beside = [place / name for name in ("metrics.json", "params.yaml") if name in folder.files]
    key = f"{NAME}:{place.resolve()}"
    paths = tuple(place / name for name in files)
    return [ForeignRun(NAME, key, place, (*paths, *beside), partial(_about, place), partial(_read, place, files))]


def _tables(place: Path) -> list[str]:
    return sorted(name for name, _ in reading.walk(place, METRICS) if name.endswith(ENDING))


def _columns(path: Path) -> list[str]:
    """The header of a table: a step, the metric, and in some a time; empty for another one."""
    try:
        with reading.open_path(path, regular=True) as file:
            line, newline, _ = file.read(64 << 10).partition(b"\n")
    except OSError:
        return []
    columns = line.decode("utf-8", "backslashreplace").rstrip("\r").split("\t")
    return columns if newline and "step" in columns and len(columns) > 1 else []


def _about(place: Path, _: Plain) -> About:
    about = identity(place / "x", NAME, generic=("x",))
    if place.absolute().name == "dvclive":
        about = identity(place.absolute().parent / "x", NAME, generic=("x",))
    about.config = load_yaml(place / "params.yaml")
    summary = load_json(place / "metrics.json")
    if isinstance(summary, dict):
        about.summary = {name: value for name, value in flat(summary) if name != "step"}
    return about


def _read(place: Path, files: list[str], position: Plain, losses: Losses) -> Iterator[Item]:
    positions: dict[str, Plain] = dict(position) if isinstance(position, dict) else {}
    for number, name in enumerate(files):
        yield from _points(place / name, name, positions, losses)
        yield Position(dict(positions), (number + 1) / len(files))


def _points(path: Path, name: str, positions: dict[str, Plain], losses: Losses) -> Iterator[Item]:
    file = GrowingFile(path, positions.get(name))
    columns = _columns(path)
    metric = clean_name(name.removeprefix(f"{METRICS}/").removesuffix(ENDING))
    written = int(path.stat().st_mtime * 1e9)
    skip = 0 if file.offset else 1
    for chunk in file.lines():
        lines, skip = chunk[skip:], max(0, skip - len(chunk))
        text = [line.decode("utf-8", "backslashreplace").rstrip("\r") for line in lines]
        for cells in csv.reader((line for line in text if line), delimiter="\t"):
            row = dict(zip(columns, map(number_of, cells), strict=False))
            step, time = row.pop("step", None), moment(row.pop("timestamp", None))
            value = next(iter(row.values()), None)
            if step is None or value is None or len(cells) != len(columns):
                losses.add("rows that are not numbers")
                continue
            yield records.Step(0, time or written, step, {metric: value})
    losses.set(f"bytes of an unfinished line of {metric}", len(file.rest))
    positions[name] = file.position()
