"""CSV files with a step: of Lightning, Keras and Stable-Baselines3, and any other."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from pathlib import Path

from chiplog.core.files import reading
from chiplog.core.records import Plain
from chiplog.core.suggestions import some
from chiplog.store.foreign.growing_file import GrowingFile
from chiplog.store.foreign.identity_from_path import identity
from chiplog.store.foreign.protocol import About, Folder, ForeignRun, Item, Losses, Position, nanoseconds
from chiplog.store.foreign.row_columns import items, step_column
from chiplog.store.foreign.yaml_and_json import load_json, load_yaml, number_of

NAME = "csv"
GENERIC = ("metrics", "progress", "history", "log", "logs", "training", "train", "results", "monitor")
FIRST = 64 << 10  # bytes in which the header is
MOST_COLUMNS = 20_000


def find(folder: Folder) -> list[ForeignRun]:
    runs = []
    for name in folder.free(".csv", ".tsv"):
        path = folder.path / name
        columns, monitor = _header(path)
        if monitor is None and (step_column(columns) is None or len(columns) < 2):
            continue
        folder.taken.add(name)
        runs.append(ForeignRun.in_file(NAME, path, _about, _read))
    return runs


def no_run_in(path: Path) -> str:
    """What a table lacks to be a run; empty for other files."""
    if path.suffix.lower() not in (".csv", ".tsv") or not path.is_file():
        return ""
    columns, _ = _header(path)
    if not columns:
        return "it has no header with a row below it"
    if step_column(columns) is None:
        return f"none of its columns ({some(columns)}) is a step; rename one to 'step'"
    return "it has no column but the step" if len(columns) < 2 else ""


def _header(path: Path) -> tuple[list[str], dict[str, Plain] | None]:
    """The columns of a file, and what stands before them in a `monitor.csv`."""
    try:
        with reading.open_path(path, regular=True) as file:
            first = file.read(FIRST)
    except OSError:
        return [], None
    if b"\0" in first or b"\n" not in first:
        return [], None
    lines = first.decode("utf-8-sig", "backslashreplace").split("\n")
    monitor = _monitor(lines[0])
    return _cells(lines[1 if monitor is not None else 0], _delimiter(path, lines[0])), monitor


def _monitor(line: str) -> dict[str, Plain] | None:
    """The first line of Stable-Baselines3's monitor: a comment with JSON."""
    try:
        data = json.loads(line[1:]) if line.startswith("#{") else None
    except (ValueError, RecursionError):
        return None
    return data if isinstance(data, dict) and "t_start" in data else None


def _delimiter(path: Path, line: str) -> str:
    if path.suffix.lower() == ".tsv" or line.count("\t") > line.count(","):
        return "\t"
    return ";" if line.count(";") > line.count(",") else ","


def _cells(line: str, delimiter: str) -> list[str]:
    try:
        return next(csv.reader([line.rstrip("\r")], delimiter=delimiter), [])[:MOST_COLUMNS]
    except csv.Error:
        return []


def _about(path: Path, _: Plain) -> About:
    about = identity(path, NAME, generic=GENERIC)
    _, monitor = _header(path)
    config = load_yaml(path.parent / "hparams.yaml") or load_json(path.parent / "params.json")
    about.config = config if isinstance(config, dict) else {}
    if monitor is not None:
        about.created = nanoseconds(monitor.get("t_start"))
        about.source = {key: value for key, value in monitor.items() if key != "t_start"}
    return about


def _read(path: Path, position: Plain, losses: Losses) -> Iterator[Item]:
    file = GrowingFile(path, position)
    columns, monitor = _header(path)
    with reading.open_path(path, regular=True) as opened:
        delimiter = _delimiter(path, opened.read(FIRST).partition(b"\n")[0].decode("utf-8-sig", "backslashreplace"))
    start = nanoseconds(monitor.get("t_start")) if monitor else 0
    written = int(path.stat().st_mtime * 1e9)
    skip = 0 if file.offset else 2 if monitor is not None else 1
    for chunk in file.lines():
        lines, skip = chunk[skip:], max(0, skip - len(chunk))
        text = [line.decode("utf-8", "backslashreplace").rstrip("\r") for line in lines]
        for cells in csv.reader((line for line in text if line), delimiter=delimiter):
            if len(cells) > len(columns):
                losses.add("rows with more cells than the header")
                continue
            if cells == columns[: len(cells)] and len(cells) > 1:  # a header again, of a file that was appended to
                continue
            row: dict[str, Plain] = {}
            for name, cell in zip(columns, cells, strict=False):
                if cell:
                    number = number_of(cell)
                    row[name] = cell if number is None else number
            time = start + int(float(row["t"]) * 1e9) if monitor and isinstance(row.get("t"), (int, float)) else written
            yield from items(row, time, file.count)
            file.count += 1
        yield Position(file.position(), file.offset / max(1, file.size))
    losses.set("bytes of an unfinished line at the end", len(file.rest))
    yield Position(file.position(), 1.0)
