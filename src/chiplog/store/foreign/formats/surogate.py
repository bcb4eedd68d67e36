"""Surogate's log: a JSON array with a record per line, which is valid unless its process was killed while writing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec

from chiplog.core import records
from chiplog.core.files import reading
from chiplog.core.records import NONFINITE, Number, Plain
from chiplog.core.values.text import cut
from chiplog.store.foreign.growing_file import GrowingFile
from chiplog.store.foreign.identity_from_path import identity
from chiplog.store.foreign.protocol import (
    About,
    Folder,
    ForeignRun,
    Item,
    Losses,
    Position,
    Rewritten,
    clean_name,
    digest,
)
from chiplog.store.foreign.row_columns import moment
from chiplog.store.foreign.yaml_and_json import decoded

NAME = "surogate"
FIRST = 64 << 10
ROWS = {"step": "train", "eval": "eval"}
_HEAD = ("log", "time", "step")


class _LogState(msgspec.Struct):
    """How many records have been read, and what describes the run."""

    count: int = 0
    last: str = ""
    phase: str = ""
    config: dict[str, Plain] = {}
    command: list[Plain] = []


def find(folder: Folder) -> list[ForeignRun]:
    runs = []
    for name in folder.free(".json"):
        path = folder.path / name
        if _is_log(path):
            folder.taken.add(name)
            runs.append(ForeignRun.in_file(NAME, path, _about, _read))
    return runs


def _is_log(path: Path) -> bool:
    try:
        with reading.open_path(path, regular=True) as file:
            lines = file.read(FIRST).split(b"\n")
    except OSError:
        return False
    if lines[0].strip() != b"[":
        return False
    first = [record for line in lines[1:6] if (record := _record(line)) is not None]
    return any(isinstance(record.get("log"), str) and "time" in record for record in first)


def _record(line: bytes) -> dict[str, Plain] | None:
    data = decoded(line.strip().rstrip(b","))
    return data if isinstance(data, dict) else None


def _about(path: Path, position: Plain) -> About:
    state = msgspec.convert(position, _LogState) if position else _LogState()
    about = identity(path, NAME, generic=("training", "log", "train"))
    about.config = state.config
    about.environment = {"command": state.command} if state.command else {}
    return about


def _read(path: Path, position: Plain, losses: Losses) -> Iterator[Item]:
    """The end of the array is written again with each record, so the records are counted, not the bytes."""
    state = msgspec.convert(position, _LogState) if position else _LogState()
    done, number = state.count, 0
    file = GrowingFile(path)
    for lines in file.lines():
        for line in lines:
            if line.strip() in (b"", b"[", b"]"):
                continue
            number += 1
            if number < done:
                continue
            if number == done:
                if digest(repr(line.rstrip(b","))) != state.last:
                    raise Rewritten
                continue
            if (record := _record(line)) is None:
                losses.add("lines that are not JSON")
            else:
                yield from _items(record, state)
            state.count, state.last = number, digest(repr(line.rstrip(b",")))
        yield Position(msgspec.to_builtins(state), file.offset / max(1, file.size))
    if number < done:
        raise Rewritten
    losses.set("bytes of an unfinished line at the end", len(file.rest))
    yield Position(msgspec.to_builtins(state), 1.0)


def _items(record: dict[str, Plain], state: _LogState) -> Iterator[Item]:
    kind, time, step = str(record["log"]), _time(record.get("time")), record.get("step")
    at: Number = step if isinstance(step, (int, float)) else 0
    data = {clean_name(name): value for name, value in record.items() if name not in _HEAD}
    if kind in ROWS:
        phase = str(data.pop("phase", "") or "")
        if kind == "step" and phase != state.phase:
            state.phase = phase
            yield records.TextRecord(0, time, "train/phase", cut(state.phase), at)
        row = _numbers(data)
        if kind == "eval":
            yield records.Eval(0, time, at, row)
        else:
            yield records.Step(0, time, at, {f"train/{name}": value for name, value in row.items()})
    elif kind == "metrics":  # of chiplog's front end: what the training has logged itself
        if row := _numbers(data):
            yield records.Step(0, time, at, row)
    elif kind == "option":
        state.config[str(record.get("name"))] = record.get("value")
    elif kind == "cmd":
        state.command = record["cmd"] if isinstance(record.get("cmd"), list) else []
    else:
        yield records.Event(0, time, kind, data, at)


def _numbers(data: dict[str, Plain]) -> dict[str, int | float | bool | str]:
    """The numbers of a row; Surogate writes NaN and infinities as texts."""
    row = {name: NONFINITE.get(value, value) if isinstance(value, str) else value for name, value in data.items()}
    return {name: value for name, value in row.items() if isinstance(value, (int, float))}


def _time(value: Plain) -> int:
    """UTC to the nanosecond, without a zone."""
    text, _, fraction = str(value).partition(".")
    digits = fraction[:9].ljust(9, "0")
    return moment(text) + (int(digits) if digits.isascii() and digits.isdigit() else 0)
