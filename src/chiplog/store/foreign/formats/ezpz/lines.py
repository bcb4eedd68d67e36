"""ezpz's history as JSON Lines: the metrics of an update, with the time and the rank."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from chiplog.core import records
from chiplog.core.files import reading
from chiplog.core.records import NONFINITE, Plain
from chiplog.core.values.text import cut
from chiplog.store.foreign.growing_file import GrowingFile
from chiplog.store.foreign.identity_from_path import identity
from chiplog.store.foreign.protocol import About, Folder, ForeignRun, Item, Losses, Position, clean_name
from chiplog.store.foreign.row_columns import moment
from chiplog.store.foreign.yaml_and_json import decoded, load_json

NAME = "ezpz"
FIRST = 1 << 20
FIELDS = frozenset(("timestamp", "rank", "metrics"))
FACTS = "run_info.json"  # next to it


def find(folder: Folder) -> list[ForeignRun]:
    runs = []
    for name in folder.free(".jsonl"):
        path = folder.path / name
        if is_history(path):
            folder.taken |= {name, FACTS}
            runs.append(ForeignRun.in_file(NAME, path, _about, _read))
    return runs


def is_history(path: Path) -> bool:
    try:
        with reading.open_path(path, regular=True) as file:
            line, newline, _ = file.read(FIRST).partition(b"\n")
    except OSError:
        return False
    row = decoded(line) if newline and line.startswith(b"{") else None
    return isinstance(row, dict) and row.keys() >= FIELDS and isinstance(row["metrics"], dict)


def _about(path: Path, _: Plain) -> About:
    about = identity(path, NAME, generic=("metrics", "history"))
    facts = load_json(path.parent / FACTS)
    about.environment = facts if isinstance(facts, dict) else {}
    return about


def _read(path: Path, position: Plain, losses: Losses) -> Iterator[Item]:
    """The lines of rank 0, or of the first rank there is; a line without a step is the next update."""
    place = position if isinstance(position, dict) else {}
    file = GrowingFile(path, place.get("file"))
    rank = place.get("rank")
    for lines in file.lines():
        for line in lines:
            row = decoded(line) if line.strip() else None
            if not isinstance(row, dict) or not isinstance(row.get("metrics"), dict):
                losses.add("lines that are not rows", 1 if line.strip() else 0)
                continue
            rank = row.get("rank") if rank is None else rank
            if row.get("rank") != rank:
                losses.add("rows of other ranks")
                continue
            yield from _items(row, file.count)
            file.count += 1
        yield Position({"file": file.position(), "rank": rank}, file.offset / max(1, file.size))
    losses.set("bytes of an unfinished line at the end", len(file.rest))
    yield Position({"file": file.position(), "rank": rank}, 1.0)


def _items(row: dict[str, Plain], counted: int) -> Iterator[Item]:
    step, time = row.get("step"), moment(row["timestamp"])
    at = step if isinstance(step, (int, float)) else counted
    metrics: dict[str, int | float | bool | str] = {}
    for name, value in row["metrics"].items():
        number = NONFINITE.get(value) if isinstance(value, str) else value
        if isinstance(number, (int, float)):
            metrics[clean_name(name)] = number
        elif isinstance(value, str):
            yield records.TextRecord(0, time, clean_name(name), cut(value), at)
    if metrics:
        yield records.Step(0, time, at, metrics)
