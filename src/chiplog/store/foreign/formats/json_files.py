"""JSON Lines and arrays of rows with a step: Ray's `result.json`, verl, Levanter, Megatron-style logs, any other."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec

from chiplog.core.files import reading
from chiplog.core.records import Plain
from chiplog.store.foreign.growing_file import GrowingFile
from chiplog.store.foreign.identity_from_path import identity
from chiplog.store.foreign.protocol import About, Folder, ForeignRun, Item, Losses, Position, Rewritten, digest
from chiplog.store.foreign.row_columns import flat, items, step_column
from chiplog.store.foreign.yaml_and_json import decoded, load_json, load_yaml

NAME = "json"
GENERIC = ("metrics", "result", "history", "log", "logs", "train_log", "trainer_log", "tracker_metrics", "results")
FIRST = 1 << 20
LARGEST = 256 << 20  # bytes of an array, which is read at once
SETTINGS = ("params.json", "config.json", "hparams.yaml", "config.yaml", "params.yaml")


def find(folder: Folder) -> list[ForeignRun]:
    runs = []
    for name in folder.free(".jsonl", ".ndjson", ".json"):
        path = folder.path / name
        kind = _kind(path)
        if kind is None:
            continue
        folder.taken.add(name)
        if name == "result.json":  # Ray writes the same rows as CSV
            folder.taken |= {"progress.csv", "params.json"}
        runs.append(ForeignRun.in_file(NAME, path, _about, _read_lines if kind == "lines" else _read_array))
    return runs


def _kind(path: Path) -> str | None:
    """Whether a file is rows with a step, one per line or in an array."""
    try:
        with reading.open_path(path, regular=True) as file:
            first = file.read(FIRST)
    except OSError:
        return None
    if first[:1] == b"[" and path.suffix == ".json":
        rows = _array(path)
        return "array" if rows and all(_is_row(row) for row in rows[:3]) else None
    line, _, rest = first.partition(b"\n")
    if path.suffix == ".json" and b"\n" not in first.rstrip(b"\n") and not rest.strip():
        return "lines" if _is_row(decoded(line)) and b"\n" in first else None
    for one in first.split(b"\n")[:5]:
        if one.strip() and _is_row(decoded(one)):
            return "lines"
    return None


def _is_row(row: Plain) -> bool:
    if not isinstance(row, dict) or not all(isinstance(key, str) for key in row):
        return False
    values = dict(flat(row))
    step = step_column(values)
    numbers = [name for name, value in values.items() if isinstance(value, (int, float)) and name != step]
    return step is not None and isinstance(values[step], (int, float)) and bool(numbers) and "log" not in row


def _array(path: Path) -> list[Plain]:
    try:
        data = decoded(reading.read_bytes(path.parent, path.name, LARGEST))
    except (OSError, msgspec.DecodeError):
        return []
    return data if isinstance(data, list) else []


def _about(path: Path, _: Plain) -> About:
    about = identity(path, NAME, generic=GENERIC)
    for name in SETTINGS:
        place = path.parent / name
        config = load_yaml(place) if name.endswith(".yaml") else load_json(place)
        if isinstance(config, dict) and config:
            about.config = config
            break
    return about


def _read_lines(path: Path, position: Plain, losses: Losses) -> Iterator[Item]:
    file = GrowingFile(path, position)
    written = int(path.stat().st_mtime * 1e9)
    for lines in file.lines():
        for line in lines:
            if line.strip():
                yield from _row(decoded(line), written, file.count, losses)
                file.count += 1
        yield Position(file.position(), file.offset / max(1, file.size))
    losses.set("bytes of an unfinished line at the end", len(file.rest))
    yield Position(file.position(), 1.0)


def _read_array(path: Path, position: Plain, losses: Losses) -> Iterator[Item]:
    """An array is written whole: what was read before must still be there."""
    rows = _array(path)
    count, last = (int(position["count"]), position["last"]) if isinstance(position, dict) else (0, "")
    if count and (count > len(rows) or digest(repr(rows[count - 1])) != last):
        raise Rewritten
    written = int(path.stat().st_mtime * 1e9)
    for number, row in enumerate(rows[count:], count):
        yield from _row(row, written, number, losses)
    yield Position({"count": len(rows), "last": digest(repr(rows[-1])) if rows else ""}, 1.0)


def _row(row: Plain, written: int, counted: int, losses: Losses) -> Iterator[Item]:
    if isinstance(row, dict):
        yield from items(row, written, counted)
    else:
        losses.add("lines that are not rows")
