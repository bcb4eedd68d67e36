"""`trainer_state.json` of Hugging Face's Trainer: the whole curve is in every checkpoint, without any tracker."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pyarrow as pa

from chiplog.core import records
from chiplog.core.files import reading
from chiplog.core.records import Plain
from chiplog.store.foreign.identity_from_path import identity
from chiplog.store.foreign.parquet_file import open_parquet
from chiplog.store.foreign.protocol import About, Folder, ForeignRun, Item, Losses, Position, Rewritten, digest
from chiplog.store.foreign.row_columns import items
from chiplog.store.foreign.yaml_and_json import load_json

NAME = "trainer_state"
FILE = "trainer_state.json"
LARGEST = 256 << 20
ROWS = 500  # of completions in one record
_CHECKPOINT = re.compile(r"checkpoint-(\d+)")
# The last entry sums the training up; it is not a point of a curve.
SUMMARY = ("train_runtime", "train_samples_per_second", "train_steps_per_second", "total_flos", "train_loss")
FACTS = ("max_steps", "num_train_epochs", "train_batch_size", "logging_steps", "eval_steps", "save_steps")


def find(folder: Folder) -> list[ForeignRun]:
    """One run per output folder, from its newest checkpoint."""
    checkpoints = {
        int(match[1]): name
        for name in folder.folders
        if (match := _CHECKPOINT.fullmatch(name)) and _is_state(folder.path / name / FILE)
    }
    files = [folder.path / checkpoints[number] / FILE for number in sorted(checkpoints)]
    if FILE in folder.files and FILE not in folder.taken and _is_state(folder.path / FILE):
        files.append(folder.path / FILE)
    if not files:
        return []
    newest = max(files, key=_steps)
    folder.taken |= {FILE, "completions", *checkpoints.values()}
    place = folder.path.resolve()
    output = place.parent if _CHECKPOINT.fullmatch(place.name) else place
    key = f"{NAME}:{output}"
    tables = [output / name for name in reading.matching(output, "completions", ".parquet")]
    return [
        ForeignRun(
            NAME, key, output, (newest, *tables), partial(_about, output, newest), partial(_read, newest, tables)
        )
    ]


def _is_state(path: Path) -> bool:
    state = load_json(path, LARGEST)
    return isinstance(state, dict) and isinstance(state.get("log_history"), list)


def _steps(path: Path) -> int:
    steps = load_json(path, LARGEST).get("global_step")
    return steps if isinstance(steps, int) else 0


def _about(output: Path, file: Path, _: Plain) -> About:
    about = identity(output / "x", NAME, generic=("x",))
    state = load_json(file, LARGEST)
    if not isinstance(state, dict):
        return about
    about.config = {key: state[key] for key in FACTS if state.get(key) is not None}
    model = load_json(file.parent / "config.json")
    if isinstance(model, dict):
        about.config["model"] = model
    summary = {key: state[key] for key in ("best_metric", "best_model_checkpoint") if state.get(key) is not None}
    history = state.get("log_history")
    last = history[-1] if isinstance(history, list) and history else None
    if isinstance(last, dict) and _is_summary(last):
        summary |= {key: last[key] for key in SUMMARY if key in last}
        about.state = "finished"
    about.summary = summary
    return about


def _is_summary(entry: Plain) -> bool:
    return isinstance(entry, dict) and "train_runtime" in entry


def _read(file: Path, tables: list[Path], position: Plain, losses: Losses) -> Iterator[Item]:
    state = load_json(file, LARGEST)
    if not isinstance(state, dict) or not isinstance(state.get("log_history"), list):
        losses.set(f"{file.name} is damaged or cut off", 1)
        return
    history = state["log_history"]
    count, last, done = (0, "", []) if position is None else (position["count"], position["last"], position["tables"])
    if 0 < count <= len(history) and digest(repr(history[count - 1])) != last:
        raise Rewritten
    written = int(file.stat().st_mtime * 1e9)
    for number, entry in enumerate(history[count:], count):
        if isinstance(entry, dict) and not _is_summary(entry):
            yield from items(entry, written, number)
    if len(history) > count:
        count, last = len(history), digest(repr(history[-1]))
    for table in tables:
        if table.name not in done:
            yield from _completions(table, losses)
            done = [*done, table.name]
    yield Position({"count": count, "last": last, "tables": done}, 1.0)


def _completions(path: Path, losses: Losses) -> Iterator[Item]:
    """What the model wrote, as TRL keeps it: a Parquet file per step."""
    time = int(path.stat().st_mtime * 1e9)
    try:
        for batch in open_parquet(path).iter_batches(ROWS):
            rows = [{str(key): _cell(value) for key, value in row.items()} for row in batch.to_pylist()]
            step = next((row["step"] for row in rows if isinstance(row.get("step"), (int, float))), None)
            yield records.Table(0, time, "completions", rows, step)
    except (pa.ArrowException, OSError, ValueError):
        losses.add("completions whose file is damaged")


def _cell(value: Plain) -> Plain:
    return value if isinstance(value, (int, float, str, bool, list, dict, type(None))) else str(value)
